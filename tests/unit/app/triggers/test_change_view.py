"""The page of a change, built from the database's answer."""

from typing import Any

import pytest

from app.triggers.view.change import build, provider_href, reviewable

CONNECTION = {
    "id": "c",
    "provider": "github",
    "repository": "github.com/infra/edge",
    "url": "git@github.com:infra/edge",
}
PLANNED = {
    "path": "net/vpc", "job": 12, "job_id": 99, "result": "planned", "state": "success", "to_add": 3, "to_change": 1,
    "to_destroy": 0, "apply": "before_merge", "reviews": 2, "is_locked": True,
}  # fmt: skip
PULL: dict[str, Any] = {
    "connection": CONNECTION, "commit": "a" * 40, "git": {"pull_request": 7, "base_commit": "b" * 40}, "rows": [PLANNED],
    "pull": {"number": 7, "title": "Raise", "base": "main", "head_branch": "raise", "is_open": True, "sender": "ann"},
    "report": {"state": "success", "description": "1 module"}, "is_behind": True,
}  # fmt: skip


def test_a_pull_request_is_reviewed_and_applied_while_it_is_open() -> None:
    view = build(PULL)
    assert (view["title"], view["place"], view["head"], view["base"]) == (
        "Pull request #7 · Raise", "raise into main", "aaaaaaa", "bbbbbbb",
    )  # fmt: skip
    assert (view["can_review"], view["can_apply"], reviewable(PULL)) == (True, True, [99])
    assert view["note"].startswith("main has moved")
    (row,) = view["rows"]
    assert (row["counts"], row["note"]) == ("+3 ~1 −0", "Locked to this pull request · 2 reviews")
    closed = build({**PULL, "pull": {**PULL["pull"], "is_open": False}})
    assert (closed["can_review"], closed["can_apply"], closed["note"]) == (False, False, "")
    fork = build({**PULL, "pull": {**PULL["pull"], "is_fork": True}})
    assert (fork["can_review"], "never applied" in fork["note"]) == (False, True)


def test_a_commit_names_the_pull_request_that_it_merged() -> None:
    git = {"commit": "a" * 40, "branch": "main", "subject": "Raise", "author": "Ann"}
    view = build({**PULL, "git": git, "deliveries": [{"id": 1, "event": "push"}], "reports": [{"title": "Status"}]})
    assert (view["title"], view["place"]) == ("aaaaaaa · Raise", "main, which merged #7")
    assert (view["author"], view["can_review"]) == ("Ann", False)
    assert view["deliveries"][0]["words"] == "A runner reads the repository first."
    assert view["reports"][0]["detail"] == "Not sent yet: it waits"


def test_nothing_is_shown_before_the_answer() -> None:
    assert build(None)["title"] == ""


@pytest.mark.parametrize(
    ("provider", "number", "expected"),
    [
        ("github", "7", "https://h/a/pull/7"),
        ("gitea", "", "https://h/a/commit/c"),
        ("gitlab", "7", "https://h/a/-/merge_requests/7"),
        ("generic", "7", ""),
    ],
)
def test_the_provider_shows_the_change(provider: str, number: str, expected: str) -> None:
    assert provider_href({"provider": provider, "repository": "h/a", "url": "ssh://h/a"}, number, "c") == expected
