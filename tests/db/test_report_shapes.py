"""Reports of runners have shapes that pages can read: objects and lists of limited size, refused with a message otherwise."""

from typing import Any

import pytest

from tests.db.world import Organization, Runner, World, refused

MIB = 1024 * 1024


@pytest.fixture
def runner(org: Organization) -> Runner:
    return org.runner("r1", is_assigned_to_all_modules=True)


@pytest.fixture
def job(org: Organization, runner: Runner) -> dict[str, Any]:
    org.enqueue("a/b", "APPLY")
    return runner.claim_one()


REPORTS: dict[str, tuple[dict[str, Any], str]] = {
    "a summary that is a list": ({"p_plan_summary": [1, 2]}, "A plan's summary is an object of at most 2 MiB."),
    "a summary without end": (
        {"p_plan_summary": {"x": "y" * 2 * MIB}},
        "A plan's summary is an object of at most 2 MiB.",
    ),
    "steps of text": ({"p_steps": ["x"]}, "Steps are a list of at most 500 objects and 256 KiB."),
    "steps that are none": ({"p_steps": {"name": "plan"}}, "Steps are a list of at most 500 objects and 256 KiB."),
    "too many steps": ({"p_steps": [{}] * 501}, "Steps are a list of at most 500 objects and 256 KiB."),
    "steps without end": (
        {"p_steps": [{"name": "x" * 262144}]},
        "Steps are a list of at most 500 objects and 256 KiB.",
    ),
}


@pytest.mark.parametrize("case", REPORTS)
def test_a_report_has_a_shape(world: World, runner: Runner, job: dict[str, Any], case: str) -> None:
    more, words = REPORTS[case]
    with refused("RY422", words):
        runner.report(job, "PLAN", **more)
    assert world.status(job["id"]) == "CLAIMED"


ERROR_WORDS = "An error is an object with code, message and hint as texts, of at most 64 KiB."
ENDS: dict[str, tuple[dict[str, Any], str]] = {
    "a summary that is a list": ({"p_plan_summary": [1]}, "A plan's summary is an object of at most 2 MiB."),
    "a result that is a list": ({"p_result": [1]}, "A result is an object of at most 4 MiB."),
    "a result without end": ({"p_result": {"x": "y" * 4 * MIB}}, "A result is an object of at most 4 MiB."),
    "an error that is a list": ({"p_error": [1]}, ERROR_WORDS),
    "an error whose message is a list": ({"p_error": {"message": [1]}}, ERROR_WORDS),
    "an error whose code is a number": ({"p_error": {"code": 7}}, ERROR_WORDS),
    "an error without end": ({"p_error": {"message": "x" * 65536}}, ERROR_WORDS),
}


@pytest.mark.parametrize("case", ENDS)
def test_an_end_has_a_shape(world: World, runner: Runner, job: dict[str, Any], case: str) -> None:
    more, words = ENDS[case]
    with refused("RY422", words):
        runner.finish(job, "FAILED", **more)
    assert world.status(job["id"]) == "CLAIMED"


def test_realistic_reports_are_accepted(world: World, runner: Runner, job: dict[str, Any]) -> None:
    step = {"name": "plan", "title": "Plan", "phase": "PLAN", "status": "RUNNING", "first_seq": 1}
    summary = {"create": 1, "resources": [{"address": f"a.b[{n}]", "action": "create"} for n in range(2000)]}
    runner.report(job, "PLAN", p_steps=[step] * 40, p_plan_summary=summary)
    error = {"code": "failed", "message": "It broke.", "hint": None}
    runner.finish(job, "FAILED", p_error=error, p_result={"outputs": {}}, p_plan_summary=None)
    row = world.job(job["id"])
    assert (row["error"], row["plan_summary"]["create"], len(row["steps"])) == (error, 1, 40)


def test_null_is_nothing(world: World, runner: Runner, job: dict[str, Any]) -> None:
    runner.report(job, "PLAN", p_plan_summary=None, p_steps=None)
    runner.finish(job, p_result=None, p_error=None, p_plan_summary=None)
    assert world.status(job["id"]) == "SUCCEEDED"


def test_the_size_limit_applies_to_the_sum_of_a_runners_facts(world: World, runner: Runner) -> None:
    with refused("RY422", "The runner's facts about its host are not valid."):
        for number in range(3):
            runner.heartbeat(p_facts={f"note{number}": "x" * 30_000})
    size = "select octet_length(facts::text) from public.worker_instances where id = %s"
    assert world.owner.one(size, runner.instance_id) <= 65536


def test_the_size_limit_on_facts_applies_across_sessions_of_a_process(world: World, runner: Runner) -> None:
    runner.heartbeat(p_facts={"note": "x" * 40_000})
    with refused("RY422", "The runner's facts about its host are not valid."):
        world.connect_runner(runner.worker_id, boot_id=runner.boot_id, other="x" * 40_000)


def test_names_and_versions_have_an_end(world: World, runner: Runner) -> None:
    world.service.call(
        "open_worker_session",
        p_worker=runner.worker_id,
        p_instance=runner.instance,
        p_boot_id=runner.boot_id,
        p_facts={"hostname": "h" * 2000, "version": "1" * 2000},
        p_token=runner.token_id,
    )
    said = world.owner.one(
        "select length(hostname), length(version) from public.worker_instances where id = %s", runner.instance_id
    )
    assert said == (255, 50)


@pytest.mark.parametrize("log", [[1], {"last_seq": 1_000_001}, {"last_seq": -1}, {"last_seq": 1, "bytes": "x"}])
def test_the_totals_of_a_log_have_a_shape(world: World, runner: Runner, job: dict[str, Any], log: Any) -> None:
    with refused("RY422", "A log is announced by"):
        runner.finish(job, p_log=log)
    assert world.status(job["id"]) == "CLAIMED"


def test_gaps_are_computed_from_stored_chunks_not_from_the_announced_number(
    world: World, runner: Runner, job: dict[str, Any]
) -> None:
    runner.append(job, (2, "b\n"), (3, "c\n"), (7, "g\n"))
    answer = runner.finish(job, p_log={"last_seq": 1_000_000, "bytes": 6, "sha256": "0" * 64})
    assert (answer["status"], answer["missing"]) == ("PROCESSING", [[1, 1], [4, 6], [8, 1_000_000]])
    rows = "explain (analyze, format json) select private.log_gaps(%s, 1, private.utc_day(), 1000000)"
    (plan,) = world.owner.one(rows, job["id"])
    assert plan["Plan"]["Actual Rows"] == 1
