"""The commit and the pull request of a job."""

from typing import Any

import pytest

from app.jobs.view.detail import build_view
from app.jobs.view.facts import git_facts

NONE = {"commit": "", "author": "", "pull_request": "", "commit_href": "", "pull_href": ""}


def job(git: Any) -> dict[str, Any]:
    return {"id": 1, "type": "PLAN", "status": "QUEUED", "payload": {"options": {"git": git}}}


def test_a_plan_of_a_push_shows_commit_and_author() -> None:
    commit = "8c41f2e" + "0" * 33
    found = build_view(job({"commit": commit, "author": "Ada", "connection_id": "c"}), {}, ())["git"]
    assert found == {**NONE, "commit": "8c41f2e", "author": "Ada", "commit_href": f"/dashboard/changes/c/{commit}"}


def test_a_plan_of_a_pull_request_shows_its_head_and_number() -> None:
    pull = {"pull_request": 412, "head_commit": "1d77c0b" + "0" * 33, "author": "ada", "connection_id": "c"}
    shown = {"commit": "1d77c0b", "author": "ada", "pull_request": "#412", "pull_href": "/dashboard/changes/c/412"}
    assert git_facts(job(pull)) == {**NONE, **shown}


@pytest.mark.parametrize("payload", [None, {}, {"options": None}, {"options": {"git": "text"}}, {"options": []}])
def test_a_job_that_no_repository_started_shows_neither(payload: Any) -> None:
    assert git_facts({"payload": payload}) == NONE
