"""A runner's page shows of a job what it acts on, who runs it, and since when."""

from typing import Any

import pytest

from app.jobs.view.rows import span, target
from app.runners.view.jobs import runner_of


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ({"type": "RESOLVE", "target_name": "acme/live", "module_path": "a/b"}, "acme/live"),
        ({"type": "RESOLVE"}, "a repository"),
        ({"type": "PLAN", "module_path": "a/b", "target_name": "x"}, "a/b"),
        ({"type": "VERIFY_IDENTITY", "target_identity_id": "7", "target_name": "x"}, "a cloud identity"),
        ({"type": "DEPLOY_WORKER", "target_name": "prod-eu"}, "prod-eu"),
        ({"type": "DEPLOY_WORKER"}, "a runner"),
    ],
)
def test_a_job_names_its_target(job: dict[str, Any], words: str) -> None:
    assert target(job) == words


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("prod", "prod"), "prod"),
        (("prod", "one"), "prod / one"),
        (("prod", None), "prod"),
        ((None, "one"), "one"),
        ((None, None), "–"),
    ],
)
def test_a_runner_is_named_with_an_instance_of_another_name(names: tuple[str | None, str | None], words: str) -> None:
    assert runner_of({"worker_name": names[0], "instance_name": names[1]}) == words


@pytest.mark.parametrize(
    ("status", "since"),
    [("QUEUED", "queued"), ("PROCESSING", "started"), ("FAILED", "started")],
)
def test_a_status_has_its_own_time(status: str, since: str) -> None:
    times = {f"{each}_at": each for each in ("created", "queued", "claimed", "started")}
    assert span({"status": status, **times})[0] == since


@pytest.mark.parametrize(("known", "since"), [(["claimed", "created"], "claimed"), (["created"], "created"), ([], "")])
def test_a_time_that_is_missing_is_replaced_by_the_one_before(known: list[str], since: str) -> None:
    assert span({"status": "PROCESSING", **{f"{each}_at": each for each in known}})[0] == since
