"""The update policy in words, and its form."""

import re

from app.ui.form.fields import Checked, texts
from app.ui.view import Row

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
