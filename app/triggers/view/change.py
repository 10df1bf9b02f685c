"""One change: what a commit or a pull request led to."""

from typing import Any, TypedDict

from app.ui.view import Row, count, read

PROVIDERS = {"github": "GitHub", "gitlab": "GitLab", "gitea": "Gitea"}
MODES = {
    "after_merge": "After the merge. The merge commit is planned; if it changes the same as reviewed here, the review counts.",
    "before_merge": "Before the merge, on request. The module is locked to the pull request meanwhile.",
    "merge_queue": "In the merge queue. The queued commit is planned and applied; then the pull request merges.",
    "never": "Never: plans only.",
}


class ChangedModule(TypedDict):
    path: str
    result: str
    state: str
    counts: str
    job: int
    began_at: str
    ended_at: str
    note: str


class ChangeEvent(TypedDict):
    key: str
    at: str
    words: str
    detail: str


class ChangeView(TypedDict):
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
    pull, git = (found.get(name) or {} for name in ("pull", "git"))
    is_pull = bool(git.get("pull_request") or not found.get("git")) and bool(pull.get("number"))
    is_open, rows = is_pull and bool(pull.get("is_open")), found.get("rows") or []
    return read(
        ChangeView,
        {"state": "pending", **(found.get("report") or {})},
        title=_title(found, pull, git, is_pull),
        place=_place(pull, git, is_pull),
        author=git.get("author") or pull.get("sender"),
        note=_note(found, pull, is_open),
        is_open_pull=is_open,
        **_origin(found, str(pull["number"]) if is_pull else ""),
        **_acts(rows, is_open=is_open, is_fork=bool(pull.get("is_fork"))),
        rows=list(map(_module, rows)),
        deliveries=list(map(_delivery, found.get("deliveries") or [])),
        reports=list(map(_report, found.get("reports") or [])),
    )


def _origin(found: Row, number: str) -> dict[str, str]:
    """Name the repository and the commit, and where the provider shows them."""
    connection, commit = found.get("connection") or {}, str(found.get("commit") or "")
    return {
        "repository": connection.get("repository") or "",
        "head": commit[:7],
        "base": str((found.get("git") or {}).get("base_commit") or "")[:7] if number else "",
        "href": provider_href(connection, number, commit),
        "provider": PROVIDERS.get(str(connection.get("provider")), ""),
    }


def _acts(rows: list[Row], *, is_open: bool, is_fork: bool) -> dict[str, Any]:
    """Describe when its modules are applied, and decide what can be done with its plans now."""
    modes, planned = {row.get("apply") for row in rows}, [row for row in rows if is_open and _is_planned(row)]
    return {
        "modes": [words for mode, words in MODES.items() if mode in modes],
        "can_apply": any(row.get("apply") == "before_merge" for row in planned),
        "can_review": bool(planned) and not is_fork,
    }


def reviewable(answer: Row) -> list[int]:
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
    return read(
        ChangedModule,
        row,
        result=(row.get("result") or "waits").capitalize(),
        state=row.get("state") or "pending",
        counts=f"+{counts[0]} ~{counts[1]} −{counts[2]}" if any(counts) else "",
        began_at=row.get("started_at"),
        ended_at=row.get("finished_at"),
        note=" · ".join(note for note in notes if note),
    )


def _delivery(row: Row) -> ChangeEvent:
    words = " ".join(str(row.get(name) or "").replace("_", " ") for name in ("event", "action")).strip().capitalize()
    reason = row.get("reason") or "A runner reads the repository first."
    return read(ChangeEvent, row, key=row["id"], at=row.get("received_at"), words=reason, detail=words)


def _report(row: Row) -> ChangeEvent:
    is_sent = row.get("status") == "DELIVERED"
    detail = "Sent" if is_sent else f"Not sent yet: {row.get('note') or 'it waits'}"
    return read(ChangeEvent, row, key=row["title"], words=row["title"], detail=detail)


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
