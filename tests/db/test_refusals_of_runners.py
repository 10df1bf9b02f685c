"""Refusals of runners that no other test covers: the request, the code, and the message in the log."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.db.world import Organization, Runner, refused, this

NOBODY = "5b0a7a52-0000-4000-8000-00000000dead"


RUNNERS: dict[str, tuple[str, str, Callable[[Runner, dict[str, Any]], Any]]] = {
    "a state of nothing": (
        "RY422",
        "There is no state to write.",
        lambda runner, job: runner.call("worker_state_put", **this(job, p_body=None)),
    ),
    "a serial without end": (
        "RY422",
        "The state is not JSON, or its serial is not a number.",
        lambda runner, job: runner.call("worker_state_put", **this(job, p_body='{"serial": 1e40}')),
    ),
    "no chunks": (
        "RY422",
        "Send 1 to 500 chunks at a time.",
        lambda runner, job: runner.append(job),
    ),
    "a chunk before the first": (
        "RY422",
        "A chunk needs a sequence number from 1 and a text of at most 64 KiB.",
        lambda runner, job: runner.append(job, (0, "x")),
    ),
    "an attempt of no job": (
        "RY422",
        "Running jobs are a list of at most 1,000 jobs with their attempts.",
        lambda runner, _: runner.call("worker_recover", p_running=[{"job": "x"}]),
    ),
    "a decision of many tasks": (
        "RY422",
        "That is not a decision.",
        lambda runner, _: runner.call("worker_scaling_decided", p_worker=NOBODY, p_decision={"desired": 1001}),
    ),
    "a decision that remembers too much": (
        "RY422",
        "That is not a decision.",
        lambda runner, _: runner.call(
            "worker_scaling_decided", p_worker=NOBODY, p_decision={"desired": 1, "memory": {"x": "y" * 65_600}}
        ),
    ),
    "a decision about nothing": (
        "RY422",
        "That is not a decision.",
        lambda runner, _: runner.call("worker_scaling_decided", p_worker=NOBODY, p_decision={"verdict": "UP"}),
    ),
    "an end that is none": (
        "RY422",
        "A job ends as SUCCEEDED, FAILED, CANCELLED or NEEDS_ATTENTION.",
        lambda runner, job: runner.finish(job, "PROCESSING"),
    ),
    "a want that is none": (
        "RY422",
        "A runner lacks disk, work_directory, dispatcher, image, engine, memory or rights, or has not begun.",
        lambda runner, job: runner.call("worker_return_job", **this(job, p_code="luck")),
    ),
    "an end of nothing": (
        "RY422",
        "A job ends as SUCCEEDED, FAILED, CANCELLED or NEEDS_ATTENTION.",
        lambda runner, _: runner.call("worker_finish", p_job=None, p_attempt=None, p_status="SUCCEEDED"),
    ),
    "a status that is none": (
        "RY422",
        "A runner reports ONLINE or DRAINING.",
        lambda runner, _: runner.heartbeat(status="ASLEEP"),
    ),
    "an endless log": (
        "RY422",
        "A log is announced by the number of its last chunk",
        lambda runner, job: runner.finish(job, p_log={"last_seq": 1_000_001}),
    ),
    "facts that are none": (
        "RY422",
        "The runner's facts about its host are not valid.",
        lambda runner, _: runner.heartbeat(p_facts={"capacity": "many"}),
    ),
    "an artifact without a name": (
        "RY422",
        "The artifact is too large, its name is not valid",
        lambda runner, job: runner.call(
            "worker_put_artifact",
            p_job=job["id"],
            p_attempt=1,
            p_name="../plan",
            p_body_base64="",
            p_sha256="e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ),
    ),
}


@pytest.mark.parametrize("what", RUNNERS)
def test_each_refusal_of_a_runner_has_its_code_and_message(org: Organization, what: str) -> None:
    code, words, ask = RUNNERS[what]
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    org.enqueue("a/b", "APPLY")
    job = runner.claim_one()
    with refused(code) as caught:
        ask(runner, job)
    assert str(caught.value.diag.message_primary).startswith(words)


def test_a_runner_that_accepts_no_jobs_about_runners_cannot_read_scaling_inputs(org: Organization) -> None:
    runner = org.runner("r1", accepted_job_types=["PLAN"])
    with refused("RY403", "This runner does not accept jobs about runners."):
        runner.call("worker_scaling_inputs")


def test_a_job_about_an_identity_has_no_state(org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    org.owner.call("verify_cloud_identity", p_identity=org.cloud_identity())
    with refused("RY422", "This job acts on no module, so it has no state."):
        runner.call("worker_state_get", **this(runner.claim_one()))


def test_an_executor_has_one_job(org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    claims = {"sub": runner.worker_id, "sid": runner.session_id, "job": "1", "att": "1"}
    with refused("RY403", "This credential is not for attempt 1 of job 2."):
        org.world.caller("executor", **claims).call("worker_state_get", p_job=2, p_attempt=1)
