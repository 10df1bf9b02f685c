"""The versions of the runner, and when outdated runners update automatically."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar, TypedDict

import reflex as rx

from app.frame.session import takes
from app.frame.versions import latest, published
from app.live.page import LivePage
from app.project.store import Changed, OrgStore
from app.ui.form.fields import Checked, texts
from app.ui.view import Row, read


class ReleaseRow(TypedDict):
    version: str
    first_line: str
    runners: int
    published_at: str
    is_latest: bool
    is_breaking: bool
    channel: str


def build_rows(store: OrgStore) -> list[ReleaseRow]:
    """Read all published versions, with the number of runners on each."""
    releases = store.rows("worker_releases")
    newest = latest(releases)
    runners = (store.facets.get("counts") or {}).get("version") or {}
    return [_row(row, newest, int(runners.get(str(row["version"])) or 0)) for row in published(releases)]


def _row(row: Mapping[str, Any], newest: str, runners: int) -> ReleaseRow:
    return read(
        ReleaseRow,
        row,
        first_line=first_line(str(row.get("notes") or "")),
        runners=runners,
        is_latest=row["version"] == newest,
        channel=row.get("channel") or "stable",
    )


def first_line(notes: str) -> str:
    """Take the first sentence of notes that is not a heading, without its marks."""
    for line in notes.splitlines():
        text = re.sub(r"[*_`]", "", line.strip().lstrip("-*+ "))
        if text and not line.lstrip().startswith("#"):
            return text[:120]
    return ""


DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_HOURS = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")


def hint_of(row: Row) -> str:
    """Describe what happens next by this policy."""
    outdated, version = int(row.get("outdated") or 0), row.get("version") or ""
    will = f"{outdated} runner{'' if outdated == 1 else 's'} will update to {version}." if outdated else ""
    none = "No outdated runners that can be updated from here."
    if row.get("mode") == "OFF":
        return f"{outdated} runner{' is' if outdated == 1 else 's are'} outdated." if outdated else none
    return will or none


def check_form(raw: object, mode: str, days: list[str]) -> Checked:
    form, checked = texts(raw), Checked()
    checked.spec = {"mode": mode}
    if mode != "WINDOW":
        return checked
    begins, ends = form.get("begins_at", "").strip(), form.get("ends_at", "").strip()
    for key, text in (("begins_at", begins), ("ends_at", ends)):
        if not _HOURS.fullmatch(text):
            checked.errors[key] = "Write it as 02:00."
    if begins == ends:
        checked.errors["ends_at"] = "A window ends at another time than it begins."
    chosen = [DAYS.index(day) for day in days if day in DAYS]
    if not chosen:
        checked.errors["days"] = "Choose at least one day."
    zone = form.get("zone", "").strip() or "UTC"
    checked.spec |= {"days": chosen, "begins_at": begins, "ends_at": ends, "zone": zone}
    return checked


class UpdatesState(LivePage, rx.State):
    TOPICS: ClassVar[frozenset[str]] = frozenset({"update_policies", "rollouts", "worker_releases", "facets"})

    rows: list[ReleaseRow] = []
    mode: str = "OFF"
    days: list[str] = []
    begins_at: str = ""
    ends_at: str = ""
    zone: str = "UTC"
    hint: str = ""
    next_window: str = ""
    errors: dict[str, str] = {}
    revision: int = 0

    set_mode = takes("mode", of=("OFF", "WINDOW", "NOW"))

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        self._assign("rows", build_rows(store))
        if changed.is_everything or changed.touches({"update_policies", "rollouts", "worker_releases"}):
            self._take(await self._rpc("update_policy", {"p_org": store.org_id}))

    def _take(self, row: dict[str, Any]) -> None:
        self.mode, self.zone, self.errors = str(row["mode"]), str(row["zone"]), {}
        self.begins_at, self.ends_at = str(row["begins_at"]), str(row["ends_at"])
        self.days = [DAYS[day] for day in row["days"]]
        self.hint, self.next_window = hint_of(row), str(row.get("next_window") or "")
        self.revision += 1

    @rx.event
    def set_day(self, day: str, is_on: bool) -> None:
        chosen = {*self.days, day} if is_on else {*self.days} - {day}
        self.days = [each for each in DAYS if each in chosen]

    @rx.event
    async def save(self, form: dict[str, Any]) -> rx.event.EventSpec | None:
        checked = check_form(form, self.mode, self.days)
        self.errors = checked.errors
        if checked.errors:
            return None
        args = {"p_org": await self._org_id(), "p_spec": checked.spec}
        self._take(await self._rpc("set_update_policy", args))
        return rx.toast.success("Saved")
