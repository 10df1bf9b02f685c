"""The facts beside a job: its commit and pull request, the variables that it was given, its signed record."""

from collections.abc import Mapping
from typing import TypedDict

from app.ui.view import Row


class GitFacts(TypedDict):
    """The origin of a job in a repository; empty for a job that no repository started."""

    commit: str
    author: str
    pull_request: str
    commit_href: str
    pull_href: str


def git_facts(job: Row) -> GitFacts:
    """Read them from the options that the job was queued with; a pull request is known by its head."""
    found = ((job.get("payload") or {}).get("options") or {}).get("git")
    git: Row = found if isinstance(found, Mapping) else {}
    pull, place = git.get("pull_request"), f"/dashboard/changes/{git.get('connection_id')}"
    return {
        "commit": str(git.get("commit") or git.get("head_commit") or "")[:7],
        "author": str(git.get("author") or ""),
        "pull_request": f"#{pull}" if pull else "",
        # The head of a pull request is not a commit of its branch: its change is the pull request.
        "commit_href": f"{place}/{git['commit']}" if git.get("commit") else "",
        "pull_href": f"{place}/{pull}" if pull else "",
    }


class GivenView(TypedDict):
    name: str
    source: str
    note: str


def build_given(row: Row) -> GivenView:
    path = row.get("path")
    source = "given with the request" if path is None else f"{path or 'the organisation'}, version {row['version']}"
    marks = (("enforced", row.get("is_enforced")), ("sealed", row.get("is_sealed")))
    # A value of a request is never current; so that needs no mark.
    later = ["changed since"] if path is not None and not row.get("is_current") else []
    return {
        "name": str(row["name"]),
        "source": source,
        "note": ", ".join([word for word, is_so in marks if is_so] + later),
    }


class RecordView(TypedDict):
    """A run's record on its page; `tone` is empty where the run has none."""

    tone: str
    words: str
    since: str
    place: str


NO_RECORD: RecordView = {"tone": "", "words": "", "since": "", "place": ""}


def build_record(row: Row | None) -> RecordView:
    if not row:
        return NO_RECORD
    place = f"Record {row['sequence']} of this module"
    if row["broken_at"]:
        words = f"The chain is broken at record {row['broken_at']}"
        return {"tone": "broken", "words": words, "since": "", "place": place}
    if not row["signed_at"]:
        return {"tone": "waiting", "words": "Waits for its signature", "since": "", "place": place}
    return {"tone": "signed", "words": "Signed, chain complete since ", "since": str(row["since"]), "place": place}
