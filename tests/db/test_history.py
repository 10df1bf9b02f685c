"""History does not grow for ever: old jobs lose their large fields, then they and all events are deleted, a part at a time."""

from typing import Any

import pytest

from tests.db.bulk import add_finished_jobs, add_modules
from tests.db.world import Organization, Runner, World, refused, this

STATE = '{"serial": 1, "lineage": "x"}'


@pytest.fixture
def org(fresh_world: World) -> Organization:
    return fresh_world.organization()


@pytest.fixture
def runner(org: Organization) -> Runner:
    return org.runner("r1", is_assigned_to_all_modules=True)


def ended(org: Organization, runner: Runner, days: int, status: str = "FAILED") -> int:
    """A job that ended so many days ago, with everything that a job may leave."""
    number = org.enqueue("a/b")
    job = runner.claim_one()
    runner.report(job, "PLAN", p_steps=[{"name": "plan"}])
    runner.finish(job, status, p_result={"outputs": {}}, p_plan_summary={"update": 1}, p_error={"code": "x"})
    org.owner.call("comment_on_job", p_job=number, p_body="why?")
    org.world.owner.connection.execute(
        "update public.provision_jobs set finished_at = now() - make_interval(days => %s) where id = %s", [days, number]
    )
    return number


def keep_house(world: World) -> dict[str, Any]:
    world.owner.connection.execute("delete from private.clocks")
    answer = world.sweep()
    assert "failed" not in answer
    return answer


def test_after_90_days_a_job_keeps_only_the_fields_that_lists_show(
    fresh_world: World, org: Organization, runner: Runner
) -> None:
    old, young = ended(org, runner, 91), ended(org, runner, 89)
    assert keep_house(fresh_world)["slimmed_jobs"] == 1
    row = fresh_world.job(old)
    assert (row["payload"], row["steps"], row["plan_summary"], row["result"]) == ({}, [], None, None)
    assert (row["status"], row["error"], row["module_path"]) == ("FAILED", {"code": "x"}, "a/b")
    assert row["slimmed_at"] is not None
    assert "failed" in fresh_world.events(old)
    assert fresh_world.job(young)["payload"]["module"]
    assert keep_house(fresh_world)["slimmed_jobs"] == 0
    with refused("RY409", "The job ended more than 90 days ago"):
        org.owner.call("retry_job", p_job=old)
    org.owner.call("retry_job", p_job=young)


def test_a_reading_for_move_in_loses_its_payload_too(fresh_world: World, org: Organization, runner: Runner) -> None:
    source = {"group": "old", "url": "https://git.example.com/a/b"}
    made = org.owner.call("request_survey", p_org=org.id, p_source=source)
    runner.finish(runner.claim_one(), p_result={"roots": []})
    past = "update public.provision_jobs set finished_at = now() - interval '91 days' where id = %s"
    fresh_world.owner.connection.execute(past, [made["id"]])
    assert keep_house(fresh_world)["slimmed_jobs"] == 1
    with refused("RY404", "lists no root modules."):
        org.owner.call("survey", p_org=org.id, p_number=made["number"])


def test_after_400_days_a_job_is_deleted_with_its_events(fresh_world: World, org: Organization, runner: Runner) -> None:
    old, young = ended(org, runner, 401), ended(org, runner, 399)
    assert keep_house(fresh_world)["deleted_jobs"] == 1
    for table in ("provision_jobs where id", "job_events where job_id", "job_comments where job_id"):
        found = [fresh_world.owner.one(f"select count(*) from public.{table} = %s", job) for job in (old, young)]
        assert (found[0], found[1] > 0) == (0, True), table


def test_a_job_whose_state_waits_for_a_decision_stays(fresh_world: World, org: Organization, runner: Runner) -> None:
    number = org.enqueue("a/b", "APPLY")
    job = runner.claim_one()
    runner.report(job, "APPLY")
    fresh_world.lose(runner)
    org.owner.call("resolve_attention", p_job=number, p_action="mark_failed")
    runner.call("worker_state_keep", **this(job, p_number=1, p_body=STATE))
    fresh_world.owner.connection.execute("update public.provision_jobs set finished_at = now() - interval '500 days'")
    assert keep_house(fresh_world)["deleted_jobs"] == 0
    (kept,) = org.owner.call("kept_states", p_job=number)
    org.owner.call("discard_kept_state", p_id=kept["id"])
    assert keep_house(fresh_world)["deleted_jobs"] == 1


def test_the_text_of_a_kept_state_that_was_stored_is_removed(
    fresh_world: World, org: Organization, runner: Runner
) -> None:
    number = org.enqueue("a/b", "APPLY")
    job = runner.claim_one()
    runner.report(job, "APPLY")
    fresh_world.lose(runner)
    org.owner.call("resolve_attention", p_job=number, p_action="mark_failed")
    runner.call("worker_state_keep", **this(job, p_number=1, p_body=STATE))
    (kept,) = org.owner.call("kept_states", p_job=number)
    org.owner.call("store_kept_state", p_id=kept["id"])
    stored = "update private.kept_states set stored_at = now() - make_interval(days => %s)"
    for days, body in ((89, STATE), (91, "")):
        fresh_world.owner.connection.execute(stored, [days])
        keep_house(fresh_world)
        assert fresh_world.owner.one("select body from private.kept_states") == body


def test_old_jobs_are_slimmed_and_deleted_a_thousand_at_a_time(fresh_world: World, org: Organization) -> None:
    add_modules(fresh_world, org, 10)
    add_finished_jobs(fresh_world, org, 1500)
    fresh_world.owner.connection.execute(
        "update public.provision_jobs set finished_at = now() - interval '500 days', payload = '{\"a\": 1}'"
    )
    assert [keep_house(fresh_world)["deleted_jobs"] for _ in range(3)] == [1000, 500, 0]
    add_finished_jobs(fresh_world, org, 1500)
    # All at one moment, as a set of jobs that was cancelled leaves them.
    fresh_world.owner.connection.execute("update public.provision_jobs set finished_at = now() - interval '100 days'")
    assert [keep_house(fresh_world)["slimmed_jobs"] for _ in range(3)] == [1000, 500, 0]


@pytest.mark.parametrize(("table", "days"), [("worker_events", 400), ("audit_events", 730)])
def test_old_events_are_deleted(fresh_world: World, org: Organization, runner: Runner, table: str, days: int) -> None:
    newest = fresh_world.owner.one(f"select max(id) from public.{table}")
    fresh_world.owner.connection.execute(
        f"update public.{table} set at = now() - make_interval(days => %s) where id < %s", [days + 1, newest]
    )
    fresh_world.owner.connection.execute(
        f"update public.{table} set at = now() - make_interval(days => %s) where id = %s", [days - 1, newest]
    )
    keep_house(fresh_world)
    assert fresh_world.owner.rows(f"select id from public.{table} where at < now() - interval '1 day'") == [newest]


def test_counts_of_ended_jobs_have_an_end(fresh_world: World, org: Organization) -> None:
    add_modules(fresh_world, org, 10)
    add_finished_jobs(fresh_world, org, 10_500)
    fresh_world.owner.connection.execute(
        "update public.provision_jobs set type = 'OUTPUT' where id = (select min(id) from public.provision_jobs)"
    )
    waiting = org.enqueue("a/b", "DRIFT")
    answer = org.owner.call("list_jobs", p_org=org.id)
    assert (answer["counts"], answer["total"]) == ({"SUCCEEDED": 10_000, "QUEUED": 1}, 10_001)
    assert answer["rows"][0]["id"] == waiting
    of_a_type = org.owner.call("list_jobs", p_org=org.id, p_filters={"type": ["DRIFT"]})
    assert of_a_type["counts"] == {"QUEUED": 1}
    oldest = org.owner.call("list_jobs", p_org=org.id, p_filters={"type": ["OUTPUT", "OUTPUT"]})
    assert (oldest["counts"], len(oldest["rows"])) == ({"SUCCEEDED": 1}, 1), "a rare type is counted as it is listed"
