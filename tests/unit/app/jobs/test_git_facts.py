"""The commit and the pull request of a job."""

from typing import Any

import pytest

from app.jobs.view.detail import build_view
from app.jobs.view.git import git_facts

NONE = {"commit": "", "author": "", "pull_request": ""}


def job(git: Any) -> dict[str, Any]:
    return {"id": 1, "type": "PLAN", "status": "QUEUED", "payload": {"options": {"git": git}}}


def test_a_plan_of_a_push_shows_commit_and_author() -> None:
    found = build_view(job({"commit": "8c41f2e" + "0" * 33, "branch": "main", "author": "Ada"}), {}, ())["git"]
    assert found == {"commit": "8c41f2e", "author": "Ada", "pull_request": ""}


def test_a_plan_of_a_pull_request_shows_its_head_and_number() -> None:
    found = git_facts(job({"pull_request": 412, "head_commit": "1d77c0b" + "0" * 33, "author": "ada"}))
    assert found == {"commit": "1d77c0b", "author": "ada", "pull_request": "#412"}


@pytest.mark.parametrize("payload", [None, {}, {"options": None}, {"options": {"git": "text"}}, {"options": []}])
def test_a_job_that_no_repository_started_shows_neither(payload: Any) -> None:
    assert git_facts({"payload": payload}) == NONE
