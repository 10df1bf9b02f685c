"""Jobs that count as work for a sleeping runner, and the runner that decides about it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.db.test_rows_read import FEW, jobs_of, rows_read
from tests.db.world import TOKEN_HASH, Organization, Runner, World, refused

Site = tuple[World, Organization, Runner, str]


@pytest.fixture
def site(fresh_world: World) -> Site:
    """A deployed runner that serves all modules and has no task, and the shared runner that deployed it."""
    org = fresh_world.organization()
    shared = fresh_world.connect_runner(fresh_world.shared_worker(capacity=20))
    made = org.owner.call(
        "deploy_worker",
        p_org=org.id,
        p_name="cloud",
        p_cloud_identity=org.cloud_identity(),
        p_region="eu-west-1",
        p_options={"is_assigned_to_all_modules": True, "scaling": {"max": 5}},
    )
    job = shared.claim_one()
    which = {"p_job": job["id"], "p_attempt": 1}
    shared.call("worker_target_token", **which, p_token_hash=TOKEN_HASH, p_token_hint="wxyz")
    shared.call("worker_target_update", **which, p_patch={"cloud": {"service_arn": "arn:x"}})
    shared.finish(job)
    return fresh_world, org, shared, made["worker"]["id"]


def load(world: World) -> dict[str, Any]:
    (entry,) = world.scaling_inputs()
    numbers: dict[str, Any] = entry["load"]
    return numbers


def queue(org: Organization, count: int) -> None:
    """Queue so many jobs that can be dispatched, each for a module of its own."""
    modules = [org.module(f"many/of-{count}-{number}") for number in range(count)]
    org.owner.one("select public.enqueue_jobs(%s, 'PLAN', %s::text[]::uuid[])", org.id, modules)


def test_a_job_that_can_be_dispatched_counts(site: Site) -> None:
    world, org, _, _ = site
    org.enqueue("a/b")
    assert load(world)["waiting"] == 1


def test_a_job_that_waits_for_an_approval_does_not_count_until_it_has_it(site: Site) -> None:
    world, org, _, _ = site
    job = org.enqueue("a/b", "APPLY", approvals_required=1)
    assert load(world)["waiting"] == 0
    org.member("operator").call("approve_job", p_job=job, p_decision="approve")
    assert load(world)["waiting"] == 1


def test_a_job_that_waits_for_its_modules_state_does_not_count(site: Site) -> None:
    world, org, shared, _ = site
    org.enqueue("a/b")
    org.enqueue("a/b")
    assert load(world)["waiting"] == 1
    running = shared.claim_one()
    assert load(world)["waiting"] == 0
    shared.finish(running)
    assert load(world)["waiting"] == 1


def test_a_job_in_its_pause_after_a_loss_does_not_count(site: Site) -> None:
    world, org, shared, _ = site
    job = org.enqueue("a/b")
    shared.claim_one()
    world.lose(shared)
    assert world.status(job) == "QUEUED"
    assert load(world)["waiting"] == 0
    world.end_backoff(job)
    assert load(world)["waiting"] == 1


def test_a_job_for_a_nearer_runner_does_not_count(site: Site) -> None:
    world, org, _, _ = site
    near = org.runner("near", is_assigned_to_all_modules=False)
    org.module("a/b")
    org.owner.call("assign_worker", p_worker=near.worker_id, p_path="a")
    org.enqueue("a/b")
    assert load(world)["waiting"] == 0


@pytest.mark.parametrize("call", ["drain_worker", "set_worker_disabled"])
def test_a_drained_or_disabled_runner_is_no_capacity(site: Site, call: str) -> None:
    world, org, _, worker = site
    more = {"p_reason": "maintenance"} if call == "drain_worker" else {"p_disabled": True}
    org.owner.call(call, p_worker=worker, **more)
    assert load(world)["takes_jobs"] is False


def test_one_runner_decides_at_a_time_and_another_replaces_it_after_its_lease(site: Site) -> None:
    world, _, shared, worker = site
    second = world.connect_runner(world.shared_worker("second"))
    assert [entry["worker_id"] for entry in shared.call("worker_scaling_inputs")["workers"]] == [worker]
    assert second.call("worker_scaling_inputs")["workers"] == []
    decision = {"desired": 2, "verdict": "UP", "reason": "a job waits", "memory": {}}
    with refused("RY409", "Another runner decides about this one now."):
        second.call("worker_scaling_decided", p_worker=worker, p_decision=decision)
    world.owner.connection.execute("update private.scaling_leases set held_until = now() - interval '1 second'")
    assert len(second.call("worker_scaling_inputs")["workers"]) == 1
    with refused("RY409"):
        shared.call("worker_scaling_decided", p_worker=worker, p_decision=decision)
    second.call("worker_scaling_decided", p_worker=worker, p_decision=decision)
    assert world.worker_row(worker)["desired_count"] == 2


def test_a_poll_reads_no_queue_of_an_organisation_that_another_decides_about(site: Site) -> None:
    world, org, _, _ = site
    own, other = org.runner("own"), world.organization()
    other.owner.call(
        "deploy_worker",
        p_org=other.id,
        p_name="cloud",
        p_cloud_identity=other.cloud_identity(),
        p_region="eu-west-1",
        p_options={"is_assigned_to_all_modules": True},
    )
    queue(other, 200)
    read = rows_read(own.connection, "select public.worker_scaling_inputs()", {})
    assert read["workers"], "the call must have read something, or this shows nothing"
    assert max(jobs_of(read).values(), default=0) <= FEW, read
    assert [entry["load"]["waiting"] for entry in world.scaling_inputs()] == [0, 200]


def test_precedence_is_computed_once_for_a_lane(site: Site) -> None:
    world, org, shared, _ = site
    queue(org, 200)
    read = rows_read(shared.connection, "select public.worker_scaling_inputs()", {})
    assert 0 < read["lane_workers"] <= FEW, read
    assert load(world)["waiting"] == 200


def test_every_change_is_in_the_ledger_with_its_reason_and_a_dry_run_changes_nothing(site: Site) -> None:
    world, org, shared, worker = site
    shared.call("worker_scaling_inputs")
    for desired, dry_run in ((3, True), (1, False), (0, False)):
        decision = {"desired": desired, "verdict": "UP", "reason": f"so that there are {desired}", "dry_run": dry_run}
        shared.call("worker_scaling_decided", p_worker=worker, p_decision=decision)
    assert world.worker_row(worker)["desired_count"] == 0
    rows = org.owner.rows("select to_count, dry_run, reason from public.scaling_decisions order by id")
    assert rows == [(3, True, "so that there are 3"), (0, False, "so that there are 0")]


MEMORY = {"surplus_since": None, "started_at": "2026-11-01T08:00:00.123456+00:00", "boot_failures": 2}


NO_MEMORY = "The planner's memory is not valid."
NO_DECISION = "That is not a decision."


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        *(
            ({"memory": {"started_at": time}}, NO_MEMORY)
            for time in ("x", "", 7, "infinity", "0044-03-15 BC", "20026-11-01T08:00:00+00:00")
        ),
        ({"memory": {"broken_until": "2026-02-30T08:00:00+00:00"}}, NO_MEMORY),
        *(({"memory": {"boot_failures": number}}, NO_MEMORY) for number in ("x", 1.5, -1, 1e9, True)),
        *((wrong, NO_DECISION) for wrong in ({"memory": []}, {"reason": None}, {"reason": ""})),
        ({"memory": {"other": 1}}, "Unknown option: other."),
        ({"reason": "x" * 1001}, "A reason has at most 1,000 characters."),
    ],
)
def test_a_decision_that_the_next_planner_could_not_read_is_refused(
    site: Site, wrong: dict[str, Any], words: str
) -> None:
    """The next may be a shared runner, which reads those of all organisations."""
    _, _, shared, worker = site
    right = {"desired": 2, "verdict": "UP", "reason": "a job waits", "memory": MEMORY}
    shared.call("worker_scaling_inputs")
    with refused("RY422", words):
        shared.call("worker_scaling_decided", p_worker=worker, p_decision=right | wrong)
    shared.call("worker_scaling_decided", p_worker=worker, p_decision=right)
    (entry,) = shared.call("worker_scaling_inputs")["workers"]
    assert entry["memory"] == MEMORY | {"broken_until": None}


def test_nothing_waits_for_a_task_while_there_is_maintenance(site: Site) -> None:
    world, org, _, _ = site
    org.enqueue("a/b")
    until = datetime.now(UTC) + timedelta(hours=1)
    org.owner.call("set_maintenance", p_org=org.id, p_until=until, p_reason="The network moves.")
    assert load(world)["waiting"] == 0
    org.owner.call("set_maintenance", p_org=org.id)
    assert load(world)["waiting"] == 1


def decides(runner: Runner) -> tuple[bool, int]:
    """Return whether a runner learns of a decision to make, and the number of runners that it decides about now."""
    answer = runner.call("worker_scaling_inputs")
    return answer["has_cloud"], len(answer["workers"])


def test_a_shared_runner_decides_nothing_for_an_organisation_that_wants_none(site: Site) -> None:
    _, org, shared, _ = site
    org.use_shared("NEVER")
    assert decides(shared) == (False, 0)
    assert decides(org.runner("own")) == (True, 1)
    org.use_shared("NONE_FITS")
    assert decides(shared) == (True, 0)


def test_a_shared_runner_that_is_kept_for_others_decides_nothing(site: Site) -> None:
    world, org, shared, _ = site
    other = world.organization()
    slugs = {who.id: who.owner.one("select slug from public.organizations") for who in (org, other)}
    world.shared_worker(organizations=[slugs[other.id]])
    assert decides(shared) == (False, 0)
    world.shared_worker(organizations=[slugs[other.id], slugs[org.id]])
    assert decides(shared) == (True, 1)


@pytest.mark.parametrize("call", ["drain_worker", "set_worker_disabled"])
def test_a_drained_or_disabled_runner_decides_nothing(site: Site, call: str) -> None:
    _, org, shared, _ = site
    own = org.runner("own")
    more = {"p_reason": "maintenance"} if call == "drain_worker" else {"p_disabled": True}
    org.owner.call(call, p_worker=own.worker_id, **more)
    assert decides(own) == (False, 0)
    assert decides(shared) == (True, 1)
