"""What the palette offers for what was typed: from the answers of the lists, and the few actions that lead somewhere."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict
from urllib.parse import quote

from app.shared.job.words import STATUS_WORDS, TYPE_WORDS

Row = Mapping[str, Any]
# Typed first, it leaves only actions.
ACTIONS_ONLY = ">"
FEW = 4


class Item(TypedDict):
    """One line: where it leads, and what stands beside it. `key` is pressed on the page once it is there."""

    id: str
    icon: str
    text: str
    aside: str
    href: str
    key: str


class Group(TypedDict):
    """Lines of one kind, with how many there are in all."""

    title: str
    said: str
    items: list[Item]


ACTIONS: tuple[tuple[str, str, str, str, str, str], ...] = (
    # id, icon, text, where, key to press there, least role
    ("runners", "server", "Go to runners", "/dashboard/runners", "", ""),
    ("jobs", "list-checks", "Go to jobs", "/dashboard/jobs", "", ""),
    ("needs", "hand", "Jobs that need you", "/dashboard/jobs?view=needs", "", ""),
    ("modules", "boxes", "Go to modules", "/dashboard/modules", "", ""),
    ("figures", "chart-line", "Go to figures", "/dashboard/figures", "", ""),
    ("settings", "settings-2", "Go to settings", "/dashboard/settings", "", ""),
    ("degraded", "circle-alert", "Degraded runners", "/dashboard/runners?health=degraded", "", ""),
    ("outdated", "circle-arrow-up", "Outdated runners", "/dashboard/runners?health=outdated", "", ""),
    ("new-job", "play", "New job…", "/dashboard/jobs", "n", "operate"),
    ("add-runner", "plus", "Add runner…", "/dashboard/runners", "n", "admin"),
    ("members", "user-plus", "Invite a member…", "/dashboard/settings/members", "", "admin"),
)


def actions(text: str, *, can_operate: bool, can_admin: bool) -> list[Item]:
    """The actions that this person may take and whose words have all that was typed."""
    allowed = {"": True, "operate": can_operate, "admin": can_admin}
    words = text.casefold().split()
    return [
        {"id": f"action-{key}", "icon": icon, "text": said, "aside": "", "href": href, "key": press}
        for key, icon, said, href, press, role in ACTIONS
        if allowed[role] and all(word in said.casefold() for word in words)
    ]


def modules(answer: Row) -> list[Item]:
    """Modules that were found, with how their last job ended."""
    return [
        {
            "id": f"module-{row['id']}",
            "icon": "box",
            "text": str(row["path"]),
            "aside": STATUS_WORDS.get(str((row.get("last_job") or {}).get("status")), ""),
            "href": f"/dashboard/modules?path={quote(str(row['path']))}",
            "key": "",
        }
        for row in answer["rows"]
    ]


def runners(answer: Row) -> list[Item]:
    """Runners that were found, with their state and load."""
    return [
        {
            "id": f"runner-{row['id']}",
            "icon": "server",
            "text": str(row["name"]),
            "aside": f"{str(row['status']).capitalize()}  {row.get('used') or 0}/{row.get('slots') or 0}",
            "href": f"/dashboard/runners/{row['id']}",
            "key": "",
        }
        for row in answer["rows"]
    ]


def jobs(answer: Row) -> list[Item]:
    """Jobs that were found, running ones first."""
    return [
        {
            "id": f"job-{row['id']}",
            "icon": "list-checks",
            "text": f"#{row['id']} {TYPE_WORDS.get(str(row['type']), '')}, "
            f"{row.get('module_path') or row.get('target_name') or 'a runner'}",
            "aside": STATUS_WORDS.get(str(row["status"]), ""),
            "href": f"/dashboard/jobs/{row['id']}",
            "key": "",
        }
        for row in answer["rows"]
    ]


def group(title: str, items: Sequence[Item], total: int) -> list[Group]:
    """A group of lines; none where nothing was found."""
    if not items:
        return []
    said = f"{len(items)} of {total:,}" if total > len(items) else str(total)
    return [{"title": title, "said": said, "items": list(items)}]
