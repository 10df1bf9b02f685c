"""The palette's lines for a typed text: commands, the answers of the lists, and the actions that lead somewhere."""

import difflib
from collections.abc import Callable, Sequence
from typing import TypedDict
from urllib.parse import quote

from app.ui.view import STATUS_WORDS, TYPE_WORDS, Row

# Of so many modules the nearest are offered where nothing was found.
MOST_NEAR = 200
# Typed first, it leaves only actions.
ACTIONS_ONLY = ">"
FEW = 4


class Item(TypedDict):
    """One line: where it leads, and its status beside it. `key` is pressed there; without an address it is pressed here."""

    id: str
    icon: str
    text: str
    status: str
    aside: str
    at: str
    href: str
    key: str


class Group(TypedDict):
    """Lines of one kind, with how many there are in all."""

    title: str
    said: str
    items: list[Item]


ACTIONS: tuple[tuple[str, str, str, str, str, str], ...] = (
    # id, icon, text, where, key to press there, for whom
    ("runners", "server", "Go to runners", "/dashboard/runners", "", ""),
    ("jobs", "list-checks", "Go to jobs", "/dashboard/jobs", "", ""),
    ("needs", "hand", "Jobs that wait for a decision", "/dashboard/jobs?view=needs", "", ""),
    ("modules", "boxes", "Go to modules", "/dashboard/modules", "", ""),
    ("figures", "chart-line", "Go to figures", "/dashboard/figures", "", "whole"),
    ("events", "history", "Go to events", "/dashboard/events", "", ""),
    ("settings", "settings-2", "Go to settings", "/dashboard/settings", "", ""),
    ("degraded", "circle-alert", "Degraded runners", "/dashboard/runners?health=degraded", "", ""),
    ("outdated", "circle-arrow-up", "Outdated runners", "/dashboard/runners?health=outdated", "", ""),
    ("new-job", "play", "New job…", "/dashboard/jobs", "n", "operate"),
    ("add-runner", "plus", "Add runner…", "/dashboard/runners", "n", "admin"),
    ("members", "user-plus", "Invite a member…", "/dashboard/settings/members", "", "admin"),
)
# Found by their words only: with nothing typed the list above is long enough.
MORE: tuple[tuple[str, str, str, str, str, str], ...] = (
    ("graph", "waypoints", "Go to the graph of modules", "/dashboard/modules/graph", "", ""),
    ("move-in", "download", "Bring in a repository", "/dashboard/modules/move-in", "", ""),
    ("theme", "moon", "Switch theme: light or dark", "", "theme", ""),
    ("sign-out", "log-out", "Sign out", "", "sign-out", ""),
    (
        "account",
        "user-round",
        "Account: password, two-step sign-in, sessions, personal tokens",
        "/dashboard/account",
        "",
        "",
    ),
    ("schedules", "history", "Go to schedules, pushes and pull requests", "/dashboard/jobs/schedules", "", ""),
    (
        "versions",
        "circle-arrow-up",
        "Go to versions and updates of runners",
        "/dashboard/runners/versions",
        "",
        "whole",
    ),
    ("variables", "boxes", "Variables of the organisation", "/dashboard/modules/variables", "", ""),
    *(
        (key, "settings-2", f"Settings › {name}", f"/dashboard/settings/{key}", "", "")
        for key, name in (
            ("organisation", "General"),
            ("members", "People: members, teams, invitations"),
            ("service-accounts", "People: service accounts"),
            ("roles", "People: roles"),
            ("sign-in", "Sign-in: single sign-on, domains, two steps"),
            ("policies", "Policies"),
            ("git", "Connections: git repositories, webhooks, deliveries"),
            ("job-identities", "Connections: clouds of jobs"),
            ("cloud-identities", "Connections: clouds of runners"),
            ("notifications", "Notifications"),
            ("audit", "Audit log"),
        )
    ),
)
# The verb that is typed before a module's path or a runner's name, the name of the page's own button, and its icon.
MODULE_COMMANDS = {
    "plan": ("Plan {}", "file-search"),
    "apply": ("Apply {}…", "play"),
    "destroy": ("Destroy {}…", "flame"),
    "drift": ("Check {} for drift", "search-check"),
    "lock": ("Lock {}…", "lock"),
}
RUNNER_COMMANDS = {"drain": ("Drain {}…", "log-out")}
# Its page has what cancelling can mean.
JOB_COMMANDS = {"cancel": ("Cancel {}…", "ban")}
# Those of the lines above, and of what is found.
ICONS = {
    *(action[1] for action in (*ACTIONS, *MORE)),
    *(icon for _, icon in (MODULE_COMMANDS | RUNNER_COMMANDS | JOB_COMMANDS).values()),
    *("box", "folder-tree", "list-checks", "server"),
}
UNFINISHED = ("QUEUED", "CLAIMED", "PROCESSING", "AWAITING_APPROVAL")


def actions(text: str, *, can_operate: bool, can_admin: bool, sees_all: bool) -> list[Item]:
    """The actions that this person may take and whose words have all that was typed."""
    allowed = {"": True, "operate": can_operate, "admin": can_admin, "whole": sees_all}
    words = text.casefold().split()
    return [
        _item(f"action-{key}", icon, said, href, press)
        for key, icon, said, href, press, role in (*ACTIONS, *(MORE if words else ()))
        if allowed[role] and all(word in said.casefold() for word in words)
    ]


def command(text: str) -> tuple[str, str]:
    """Read what is typed as a command: its verb, and the name that follows; no verb where it is none."""
    verb, _, name = text.removeprefix(ACTIONS_ONLY).strip().partition(" ")
    verb = verb.casefold()
    return (verb, name.strip().removeprefix("#")) if verb in COMMANDS else ("", "")


def module_command(verb: str, row: Row) -> Item:
    """A command about a module: its page has the button, and the dialog where it changes infrastructure."""
    path, (said, icon) = str(row["path"]), MODULE_COMMANDS[verb]
    href = f"/dashboard/modules?path={quote(path)}"
    return _item(f"{verb}-{row['id']}", icon, said.format(path), href, f"{verb}:{path}")


def runner_command(verb: str, row: Row) -> Item:
    """A command about a runner: its page has the button, and the dialog with the effect."""
    said, icon = RUNNER_COMMANDS[verb]
    href = f"/dashboard/runners/{row['id']}"
    return _item(f"{verb}-{row['id']}", icon, said.format(row["name"]), href, f"{verb}:{row['id']}")


def job_command(verb: str, row: Row) -> Item:
    said, icon = JOB_COMMANDS[verb]
    return {**job(row), "id": f"{verb}-{row['id']}", "icon": icon, "text": said.format(job(row)["text"])}


# For each verb, the list that it acts on, and the function of its lines.
COMMANDS: dict[str, tuple[str, Callable[[str, Row], Item]]] = {
    **dict.fromkeys(MODULE_COMMANDS, ("list_modules", module_command)),
    **dict.fromkeys(RUNNER_COMMANDS, ("list_runners", runner_command)),
    **dict.fromkeys(JOB_COMMANDS, ("list_jobs", job_command)),
}


def group_item(row: Row) -> Item:
    path = str(row["path"])
    return _item(f"group-{path}", "folder-tree", path, f"/dashboard/modules?path={quote(path)}")


def _item(key: str, icon: str, text: str, href: str, press: str = "") -> Item:
    return {"id": key, "icon": icon, "text": text, "status": "", "aside": "", "at": "", "href": href, "key": press}


def _with(item: Item, row: Row, aside: str, at: object = "") -> Item:
    """Show how something is beside its name, and when it became so."""
    return {**item, "status": str(row.get("status") or ""), "aside": aside, "at": str(at or "")}


def module(row: Row) -> Item:
    path, last = str(row["path"]), row.get("last_job") or {}
    said = STATUS_WORDS.get(str(last.get("status")), "")
    return _with(_item(f"module-{row['id']}", "box", path, f"/dashboard/modules?path={quote(path)}"), last, said)


def nearest(text: str, rows: Sequence[Row]) -> list[Item]:
    """The modules whose path, or the end of it, is most like a text that nothing has."""
    named = {name: row for row in rows for name in (str(row["path"]), str(row["name"]))}
    found = difflib.get_close_matches(text, named, FEW)
    return [module(row) for row in {str(named[name]["id"]): named[name] for name in found}.values()]


def runner(row: Row) -> Item:
    said = f"{str(row['status']).capitalize()}  {row.get('used') or 0}/{row.get('slots') or 0}"
    return _with(_item(f"runner-{row['id']}", "server", str(row["name"]), f"/dashboard/runners/{row['id']}"), row, said)


def job(row: Row) -> Item:
    acts_on = row.get("module_path") or row.get("target_name") or "a runner"
    text = f"#{row['number']} {TYPE_WORDS.get(str(row['type']), '')}, {acts_on}"
    said = STATUS_WORDS.get(str(row["status"]), "")
    at = row.get("finished_at") or row.get("started_at") or row.get("created_at")
    return _with(_item(f"job-{row['id']}", "list-checks", text, f"/dashboard/jobs/{row['number']}"), row, said, at)


# Each list that is searched: its title, its function, and how a row of it is shown.
LISTS: tuple[tuple[str, str, Callable[[Row], Item]], ...] = (
    ("Modules", "list_modules", module),
    ("Runners", "list_runners", runner),
    ("Jobs", "list_jobs", job),
)


def group(title: str, items: Sequence[Item], total: int) -> list[Group]:
    """A group of lines; none where nothing was found."""
    if not items:
        return []
    said = f"{len(items)} of {total:,}" if total > len(items) else str(total)
    return [{"title": title, "said": said, "items": list(items)}]
