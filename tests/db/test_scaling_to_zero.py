"""Falling asleep and waking up, as the page shows it."""

import pytest

from tests.db.world import TOKEN_HASH, Organization, Runner, World


@pytest.fixture
def site(fresh_world: World) -> tuple[World, Organization, str, Runner]:
    """A deployed runner whose task sends heartbeats."""
    org = fresh_world.organization()
    shared = fresh_world.connect_runner(fresh_world.shared_worker(capacity=20))
    made = {"p_org": org.id, "p_name": "cloud", "p_cloud_identity": org.cloud_identity(), "p_region": "eu-west-1"}
    worker = org.owner.call("deploy_worker", **made, p_options={"desired_count": 1})["worker"]["id"]
    job = shared.claim_one()
    shared.call("worker_target_token", p_job=job["id"], p_attempt=1, p_token_hash=TOKEN_HASH, p_token_hint="wxyz")
    task = fresh_world.connect_runner(worker, "task")
    task.heartbeat()
    shared.finish(job)
    return fresh_world, org, worker, task


def test_a_task_that_drains_on_its_way_out_is_asleep_afterwards_and_starting_when_woken(
    site: tuple[World, Organization, str, Runner],
) -> None:
    world, _, worker, task = site
    world.decide_scaling(worker, 0, "nothing to run")
    assert world.worker_row(worker)["status"] == "ONLINE"
    task.heartbeat("DRAINING")
    world.sweep()
    task.call("worker_close_session", p_reason="process exited")
    asleep = world.worker_row(worker)
    assert (asleep["status"], asleep["is_scaled_to_zero"]) == ("OFFLINE", True)
    assert asleep["status_reason"].startswith("Scaled to zero")

    with world.database.connect("postgres") as connection:
        connection.execute(
            "update public.workers set cloud = cloud || jsonb_build_object('starting_at', now()) where id = %s",
            [worker],
        )
    world.decide_scaling(worker, 1, "1 job waiting")
    waking = world.worker_row(worker)
    assert (waking["status"], waking["is_scaled_to_zero"], waking["status_reason"]) == ("OFFLINE", False, "Starting")


def test_a_task_that_stopped_before_the_decision_was_written_down_is_asleep_too(
    site: tuple[World, Organization, str, Runner],
) -> None:
    world, _, worker, task = site
    task.call("worker_close_session", p_reason="process exited")
    assert world.worker_row(worker)["status_reason"].startswith("Stopped")
    world.decide_scaling(worker, 0, "nothing to run")
    assert world.worker_row(worker)["status_reason"].startswith("Scaled to zero")
