"""Policy sets: the rules that plans must pass, attached to the organisation, a group or a module."""

from typing import Any, ClassVar, TypedDict

import reflex as rx

from app.frame.session import takes
from app.jobs.view.checks import LEVELS
from app.live.item_form import Items, Removal
from app.project.models import Filter, Query, Row
from app.project.store import AGAIN, Changed, OrgStore
from app.ui.form.fields import Checked, texts
from app.ui.view import read

ONE_FILE = "policy.rego"
# The choice beside the levels: nothing is attached, and earlier plans are tested.
TEST = "test"


class PolicyView(TypedDict):
    id: str
    name: str
    path: str
    place: str
    level: str
    level_word: str
    source: str
    text: str


def build_view(row: Row) -> PolicyView:
    place, source = row["path"] or "All modules", row["source"] or "Written here"
    return read(PolicyView, row, place=place, level_word=LEVELS[row["level"]], source=source, text="")


def check_form(raw: object, level: str, *, has_text: bool) -> Checked:
    """Check the form of a set; the runner alone reads its rules."""
    form, checked = texts(raw), Checked()
    name, text = form.get("name", "").strip(), form.get("text", "")
    if not name:
        checked.errors["name"] = "A name is needed."
    if has_text and not text.strip():
        checked.errors["text"] = "Write at least one rule."
    files = {"files": {ONE_FILE: text}} if has_text else {}
    checked.spec = {"name": name, "level": level, **files}
    return checked


NEW: PolicyView = build_view({"id": "", "name": "", "path": "", "level": "advisory", "source": ""})


class PoliciesState(Items, rx.State):
    EMPTY: ClassVar[PolicyView] = NEW
    REMOVAL = Removal("detach_policy", "p_policy", "Policy set detached")

    rows: list[PolicyView] = []
    chosen: PolicyView = NEW
    level: str = "advisory"
    is_folder: bool = False
    _files: dict[str, str] = {}

    set_level = takes("level", of=(*LEVELS, TEST))

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        if changed.touches({AGAIN}):
            filters = (Filter("org_id", "eq", store.org_id),)
            page = await self._select("policy_sets", Query(filters=filters, order="path,name", limit=500))
            self._assign("rows", [build_view(row) for row in page.rows])

    def _fill(self, chosen: Any, *, is_new: bool) -> None:
        super()._fill(chosen, is_new=is_new)
        self.level, self.is_folder = chosen["level"], False

    @rx.event
    async def edit(self, key: str) -> None:
        """Open the form of a set; rules of a folder are changed there."""
        found = self._find(key)
        if found is None:
            return
        files = await self._rpc("policy_files", {"p_policy": key})
        self._fill({**found, "text": files.get(ONE_FILE, "")}, is_new=False)
        self.is_folder, self._files = set(files) != {ONE_FILE}, files

    @rx.event
    async def save(self, form: dict[str, Any]) -> rx.event.EventSpec | None:
        fixed = {} if self.is_new else {"name": self.chosen["name"]}
        checked = check_form({**form, **fixed}, self.level, has_text=not self.is_folder)
        if self._is_refused(checked):
            return None
        path = str(form.get("path") or "").strip("/ ") if self.is_new else self.chosen["path"]
        place = {"p_org": await self._org_id(), "p_path": path}
        if self.level == TEST:
            spec = {"files": self._files, **checked.spec, "source": self.chosen["source"] if self.is_folder else ""}
            del spec["level"]
            job = await self._rpc("test_policy", {**place, "p_spec": spec})
            self.is_open = False
            return self._go(f"/dashboard/jobs/{int(job['number'])}")
        await self._rpc("attach_policy", {**place, "p_spec": checked.spec})
        await self._again()
        self.is_open = False
        return rx.toast.success("Saved", description="Plans that are requested from now on are checked with it.")
