"""Policy sets: the rules that plans must pass, attached to the organisation, a group or a module."""

from typing import Any, ClassVar

import reflex as rx

from app.frame.session import takes
from app.jobs.view.checks import LEVELS, PolicySet, policy_set
from app.live.item_form import Items, Removal
from app.project.models import Row
from app.project.store import AGAIN, Changed, OrgStore
from app.ui.form.fields import Checked, texts
from app.ui.view import read
from wire.checks import COMMAND_FILE, command_file, read_command

ONE_FILE = "policy.rego"
# The choice beside the levels: nothing is attached, and earlier plans are tested.
TEST = "test"
# What a set is made of.
RULES, COMMAND, FOLDER = "rules", "command", "folder"


class PolicyView(PolicySet):
    path: str
    level: str
    text: str
    command: str
    has_network: bool


def build_view(row: Row) -> PolicyView:
    return read(PolicyView, {**row, **policy_set(row)}, text="", command="", has_network=False)


def check_form(raw: object, level: str, kind: str) -> Checked:
    """Check the form of a set; the runner alone reads its rules."""
    form, checked = texts(raw), Checked()
    name, text, line = form.get("name", "").strip(), form.get("text", ""), form.get("command", "")
    if not name:
        checked.errors["name"] = "A name is needed."
    checked.spec = {"name": name, "level": level}
    if kind == RULES:
        if not text.strip():
            checked.errors["text"] = "Write at least one rule."
        checked.spec["files"] = {ONE_FILE: text}
    elif kind == COMMAND:
        try:
            if not line.strip():
                checked.errors["command"] = "Write a command."
            checked.spec["files"] = command_file(line, has_network="has_network" in form)
        except ValueError:
            checked.errors["command"] = "A quote has no end."
    return checked


NEW: PolicyView = build_view({"id": "", "name": "", "path": "", "level": "advisory", "source": ""})


class PoliciesState(Items, rx.State):
    EMPTY: ClassVar[PolicyView] = NEW
    REMOVAL = Removal("detach_policy", "p_policy", "Policy set detached")

    rows: list[PolicyView] = []
    chosen: PolicyView = NEW
    level: str = "advisory"
    kind: str = RULES
    _files: dict[str, str] = {}

    set_level = takes("level", of=(*LEVELS, TEST))
    set_kind = takes("kind", of=(RULES, COMMAND))

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        if changed.touches({AGAIN}):
            rows = await self._org_rows("policy_sets", order="path,name", limit=500)
            self._assign("rows", [build_view(row) for row in rows])

    def _fill(self, chosen: Any, *, is_new: bool) -> None:
        super()._fill(chosen, is_new=is_new)
        self.level, self.kind = chosen["level"], COMMAND if chosen["command"] else RULES

    @rx.event
    async def edit(self, key: str) -> None:
        """Open the form of a set; rules of a folder are changed there."""
        found = self._find(key)
        if found is None:
            return
        files = await self._rpc("policy_files", {"p_policy": key})
        line, has_network = read_command(files[COMMAND_FILE]) if set(files) == {COMMAND_FILE} else ("", False)
        texts_of = {"text": files.get(ONE_FILE, ""), "command": line, "has_network": has_network}
        self._fill({**found, **texts_of}, is_new=False)
        self._files = files
        if not line and set(files) != {ONE_FILE}:
            self.kind = FOLDER

    @rx.event
    async def save(self, form: dict[str, Any]) -> rx.event.EventSpec | None:
        fixed = {} if self.is_new else {"name": self.chosen["name"]}
        checked = check_form({**form, **fixed}, self.level, self.kind)
        if self._is_refused(checked):
            return None
        path = str(form.get("path") or "").strip("/ ") if self.is_new else self.chosen["path"]
        place = {"p_org": await self._org_id(), "p_path": path}
        if self.level == TEST:
            spec = {
                "files": self._files,
                **checked.spec,
                "source": self.chosen["source"] if self.kind == FOLDER else "",
            }
            del spec["level"]
            job = await self._rpc("test_policy", {**place, "p_spec": spec})
            self.is_open = False
            return self._go(f"/dashboard/jobs/{int(job['number'])}")
        await self._rpc("attach_policy", {**place, "p_spec": checked.spec})
        await self._again()
        self.is_open = False
        return rx.toast.success("Saved", description="Plans that are requested from now on are checked with it.")
