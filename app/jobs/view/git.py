"""The commit and the pull request that a job came from."""

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
    options = (job.get("payload") or {}).get("options")
    found = options.get("git") if isinstance(options, Mapping) else None
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
