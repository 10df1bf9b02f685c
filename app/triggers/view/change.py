"""One change: what a commit or a pull request led to."""

from collections.abc import Mapping
from typing import Any, TypedDict

from app.ui.words import count

Row = Mapping[str, Any]
PROVIDERS = {"github": "GitHub", "gitlab": "GitLab", "gitea": "Gitea"}
MODES = {
    "after_merge": "After the merge. The merge commit is planned; if it changes the same as reviewed here, the review counts.",
    "before_merge": "Before the merge, on request. The module is locked to the pull request meanwhile.",
    "merge_queue": "In the merge queue. The queued commit is planned and applied; then the pull request merges.",
    "never": "Never: plans only.",
}


class ChangedModule(TypedDict):
    """A module of the change."""

    path: str
    result: str
    state: str
    counts: str
    job: int
    began_at: str
    ended_at: str
    note: str


class ChangeEvent(TypedDict):
    """An event or a report of the change."""

    key: str
    at: str
    words: str
    detail: str


class ChangeView(TypedDict):
    """The content of a change's page."""

    title: str
    state: str
    description: str
    repository: str
    place: str
    head: str
    base: str
    author: str
    modes: list[str]
    note: str
    href: str
    provider: str
    is_open_pull: bool
    can_apply: bool
    can_review: bool
    rows: list[ChangedModule]
    deliveries: list[ChangeEvent]
    reports: list[ChangeEvent]


def build(answer: Row | None) -> ChangeView:
    """Read the answer of git_change; none is a page that is not loaded yet."""
    found = answer or {}
    pull, git, connection = (found.get(name) or {} for name in ("pull", "git", "connection"))
    is_pull = bool(git.get("pull_request") or not found.get("git")) and bool(pull.get("number"))
    rows = list(found.get("rows") or [])
    report = found.get("report") or {}
    is_open = is_pull and bool(pull.get("is_open"))
    return {
        "title": _title(found, pull, git, is_pull),
        "state": str(report.get("state") or "pending"),
        "description": str(report.get("description") or ""),
        "repository": str(connection.get("repository") or ""),
        "place": _place(pull, git, is_pull),
        "head": str(found.get("commit") or "")[:7],
        "base": str(git.get("base_commit") or "")[:7] if is_pull else "",
        "author": str(git.get("author") or pull.get("sender") or ""),
        "modes": [MODES[mode] for mode in MODES if mode in {row.get("apply") for row in rows}],
        "note": _note(found, pull, is_open),
        "href": provider_href(connection, str(pull["number"]) if is_pull else "", str(found.get("commit") or "")),
        "provider": PROVIDERS.get(str(connection.get("provider")), ""),
        "is_open_pull": is_open,
        "can_apply": is_open and any(_is_planned(row) and row.get("apply") == "before_merge" for row in rows),
        "can_review": is_open and not pull.get("is_fork") and any(_is_planned(row) for row in rows),
        "rows": [_module(row) for row in rows],
        "deliveries": [_delivery(row) for row in found.get("deliveries") or []],
        "reports": [_report(row) for row in found.get("reports") or []],
    }


def reviewable(answer: Row) -> list[int]:
    """Return the plans of a pull request that have something to review."""
    return [int(row["job_id"]) for row in answer.get("rows") or [] if _is_planned(row)]


def _is_planned(row: Row) -> bool:
    return row.get("result") == "planned" and row.get("job_id") is not None


def _title(found: Row, pull: Row, git: Row, is_pull: bool) -> str:
    if is_pull:
        return f"Pull request #{pull['number']} · {pull.get('title') or ''}"
    return f"{str(found.get('commit') or '')[:7]} · {git.get('subject') or 'Commit'}" if found else ""


def _place(pull: Row, git: Row, is_pull: bool) -> str:
    if is_pull:
        return f"{pull.get('head_branch') or 'a branch'} into {pull.get('base')}"
    merged = f", which merged #{pull['number']}" if pull.get("number") else ""
    return f"{git.get('branch') or ''}{merged}"


def _note(found: Row, pull: Row, is_open: bool) -> str:
    if is_open and pull.get("is_fork"):
        return "It comes from a fork: its plans get no secrets and are never applied."
    if is_open and found.get("is_behind"):
        return f"{pull.get('base')} has moved since these plans. Modules whose folders it changes are planned again automatically."
    return str(pull.get("problem") or "") if is_open else ""


def _module(row: Row) -> ChangedModule:
    counts = [int(row.get(name) or 0) for name in ("to_add", "to_change", "to_destroy")]
    reviews = int(row.get("reviews") or 0)
    notes = [
        str(row.get("problem") or ""),
        "Locked to this pull request" if row.get("is_locked") else "",
        count(reviews, "review") if reviews else "",
    ]
    return {
        "path": str(row["path"]),
        "result": str(row.get("result") or "waits").capitalize(),
        "state": str(row.get("state") or "pending"),
        "counts": f"+{counts[0]} ~{counts[1]} −{counts[2]}" if any(counts) else "",
        "job": int(row.get("job") or 0),
        "began_at": str(row.get("started_at") or ""),
        "ended_at": str(row.get("finished_at") or ""),
        "note": " · ".join(note for note in notes if note),
    }


def _delivery(row: Row) -> ChangeEvent:
    words = " ".join(str(row.get(name) or "").replace("_", " ") for name in ("event", "action")).strip().capitalize()
    return {
        "key": str(row["id"]),
        "at": str(row.get("received_at") or ""),
        "words": str(row.get("reason") or "A runner reads the repository first."),
        "detail": words,
    }


def _report(row: Row) -> ChangeEvent:
    is_sent = row.get("status") == "DELIVERED"
    return {
        "key": str(row["title"]),
        "at": str(row.get("at") or ""),
        "words": str(row["title"]),
        "detail": "Sent" if is_sent else f"Not sent yet: {row.get('note') or 'it waits'}",
    }


def provider_href(connection: Row, number: str, commit: str) -> str:
    """Return where the provider shows the change; empty for one without pages."""
    kind, repository = str(connection.get("provider") or ""), str(connection.get("repository") or "")
    pages = {"github": ("pull", "commit"), "gitea": ("pulls", "commit"), "gitlab": ("-/merge_requests", "-/commit")}
    if kind not in pages or not repository or repository.startswith("/"):
        return ""
    url = str(connection.get("url") or "")
    scheme = "http" if url.startswith("http://") else "https"
    # The repository's own name is in lower case; providers find it all the same.
    return f"{scheme}://{repository}/{pages[kind][0] if number else pages[kind][1]}/{number or commit}"
