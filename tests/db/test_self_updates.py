"""Self-hosted runners that update themselves: the permission, their jobs, and the effects of a silent one."""

from typing import Any

import pytest

from tests.db.world import Organization, Runner, World, refused

FILE = "runyard-worker-linux-x86_64.pex"
ARTIFACT = {"name": FILE, "url": f"https://example.org/{FILE}", "sha256": "0" * 64}


def publish(world: World, version: str, *artifacts: dict[str, Any]) -> None:
    world.service.call("publish_release", p_spec={"version": version, "artifacts": list(artifacts)})


def permitted(org: Organization, name: str, instance: str = "one", **options: Any) -> Runner:
    """A runner whose process was started from its one file, with the permission."""
    return org.world.connect_runner(org.worker(name, **options), instance, self_update=FILE)


@pytest.fixture
def site(fresh_world: World) -> tuple[World, Organization, Runner]:
    """A runner at 1.0.0 that may update itself, and a release that has its file."""
    org = fresh_world.organization()
    runner = permitted(org, "self")
    publish(fresh_world, "1.1.0", ARTIFACT)
    return fresh_world, org, runner


def update(org: Organization, runner: Runner, **more: Any) -> dict[str, Any]:
    job: dict[str, Any] = org.owner.call("update_one_worker", p_worker=runner.worker_id, **more)
    return job


def test_the_update_of_a_runner_is_a_job_that_only_it_can_claim(site: tuple[World, Organization, Runner]) -> None:
    world, org, runner = site
    other = world.connect_runner(world.shared_worker(capacity=5))
    queued = update(org, runner)
    assert other.claim(5) == []
    job = runner.claim_one()
    assert (job["id"], job["type"]) == (queued["id"], "UPDATE_WORKER")
    spec = job["payload"]["lifecycle"]
    assert (spec["version"], spec["artifacts"], spec["is_own"], spec["allow_downgrade"]) == (
        "1.1.0",
        [ARTIFACT],
        True,
        False,
    )


@pytest.mark.parametrize(
    "options", [{}, {"is_assigned_to_all_modules": True}, {"accepted_job_types": ["PLAN"]}, {"labels": ["gpu"]}]
)
def test_a_runner_claims_its_own_update_whatever_else_it_serves(fresh_world: World, options: dict[str, Any]) -> None:
    org = fresh_world.organization()
    runner = permitted(org, "self", **options)
    publish(fresh_world, "1.1.0", ARTIFACT)
    job = update(org, runner)
    assert runner.claim_one()["id"] == job["id"]


def test_a_runner_with_eight_of_the_nine_types_finds_its_lane_again(fresh_world: World) -> None:
    org = fresh_world.organization()
    types = ["PLAN", "APPLY", "DESTROY", "OUTPUT", "DRIFT", "DEPLOY_WORKER", "UPDATE_WORKER", "REMOVE_WORKER"]
    runner = org.runner("choosy", capacity=2, is_assigned_to_all_modules=True, accepted_job_types=types)
    jobs = [org.enqueue(f"a/m{number}") for number in range(2)]
    assert [runner.claim_one()["id"] for _ in jobs] == jobs


def test_the_new_version_finishes_an_update_that_was_returned_for_the_restart(
    site: tuple[World, Organization, Runner],
) -> None:
    world, org, runner = site
    job = update(org, runner)["id"]
    first = runner.claim_one()
    runner.call("worker_return_job", p_job=job, p_attempt=first["attempt"], p_reason="Restarting as 1.1.0")
    runner.call("worker_close_session")
    newer = world.connect_runner(runner.worker_id, version="1.1.0", self_update=FILE)
    newer.heartbeat(version="1.1.0")
    second = newer.claim_one()
    assert (second["id"], second["attempt"]) == (job, 2)
    newer.finish(second)
    assert world.worker_row(runner.worker_id)["version"] == "1.1.0"
    with refused("RY409"):
        update(org, newer)


def test_every_instance_gets_its_own_update_one_after_the_other(fresh_world: World) -> None:
    org = fresh_world.organization()
    first = permitted(org, "pair", "a", allow_multiple_instances=True)
    second = fresh_world.connect_runner(first.worker_id, "b", self_update=FILE)
    publish(fresh_world, "1.1.0", ARTIFACT)
    update(org, first)
    assert second.claim(5) == []
    first.finish(first.claim_one())
    assert second.claim_one()["payload"]["lifecycle"]["version"] == "1.1.0"


@pytest.mark.parametrize("facts", [{}, {"self_update": None}, {"self_update": "runyard-worker-plan9-vax"}])
def test_an_update_without_permission_or_file_is_refused_with_a_hint(fresh_world: World, facts: dict[str, Any]) -> None:
    org = fresh_world.organization()
    runner = fresh_world.connect_runner(org.worker("plain"), **facts)
    publish(fresh_world, "1.1.0", ARTIFACT)
    with refused("RY422") as refusal:
        update(org, runner)
    assert "Update.Enabled" in (refusal.value.diag.message_hint or "")
    with refused("RY409"):
        org.owner.call("update_outdated_workers", p_org=org.id)


def test_one_instance_without_the_permission_is_enough_to_refuse(fresh_world: World) -> None:
    org = fresh_world.organization()
    first = permitted(org, "pair", "a", allow_multiple_instances=True)
    fresh_world.connect_runner(first.worker_id, "b")
    publish(fresh_world, "1.1.0", ARTIFACT)
    with refused("RY422"):
        update(org, first)


def test_a_drained_runner_gets_no_update(site: tuple[World, Organization, Runner]) -> None:
    _, org, runner = site
    org.owner.call("drain_worker", p_worker=runner.worker_id, p_reason="maintenance")
    with refused("RY409", '" takes no jobs, and its update is one.'):
        update(org, runner)
    with refused("RY409"):
        org.owner.call("update_outdated_workers", p_org=org.id)


def test_an_older_version_is_given_only_on_request(site: tuple[World, Organization, Runner]) -> None:
    world, org, runner = site
    publish(world, "0.9.0", ARTIFACT)
    world.service.call("withdraw_release", p_version="1.1.0", p_reason="broken")
    with refused("RY409"):
        update(org, runner)
    update(org, runner, p_version="0.9.0")
    assert runner.claim_one()["payload"]["lifecycle"]["allow_downgrade"] is True


@pytest.mark.parametrize("version", ["7.7.7", "1.1.0"])
def test_unknown_and_withdrawn_releases_are_refused(site: tuple[World, Organization, Runner], version: str) -> None:
    world, org, runner = site
    world.service.call("withdraw_release", p_version="1.1.0", p_reason="broken")
    with refused("RY404", ", or it was withdrawn."):
        update(org, runner, p_version=version)


def rollout(org: Organization) -> tuple[str, str | None]:
    row: tuple[str, str | None] = org.owner.one("select status, reason from public.rollouts")
    return row


def test_update_all_updates_self_hosted_runners_in_waves(site: tuple[World, Organization, Runner]) -> None:
    world, org, runner = site
    second = permitted(org, "self-2")
    org.owner.call("update_outdated_workers", p_org=org.id)
    assert second.claim(5) == []
    job = runner.claim_one()
    runner.call("worker_return_job", p_job=job["id"], p_attempt=1, p_reason="Restarting")
    assert second.claim(5) == []
    runner.finish(runner.claim_one())
    second.finish(second.claim_one(), "FAILED", p_error={"message": "put back"})
    status, reason = rollout(org)
    assert (status, "did not succeed" in (reason or "")) == ("PAUSED", True)
    assert world.events(job["id"]).count("returned") == 1


def test_a_runner_that_does_not_return_fails_its_update_and_pauses_the_rollout(
    site: tuple[World, Organization, Runner],
) -> None:
    world, org, runner = site
    org.owner.call("update_outdated_workers", p_org=org.id)
    job = runner.claim_one()
    runner.call("worker_return_job", p_job=job["id"], p_attempt=1, p_reason="Restarting")
    world.up_for_long()
    world.silence(runner, 120)
    world.sweep()
    assert world.status(job["id"]) == "QUEUED"
    ago = "update public.provision_jobs set queued_at = now() - interval '6 minutes' where id = %s"
    world.owner.connection.execute(ago, [job["id"]])
    world.sweep()
    assert world.job(job["id"])["error"]["code"] == "update_no_heartbeat"
    assert rollout(org)[0] == "PAUSED"


def test_a_resumed_rollout_skips_newer_and_drained_runners(
    site: tuple[World, Organization, Runner],
) -> None:
    _, org, runner = site
    newer, drained = permitted(org, "self-2"), permitted(org, "self-3")
    started = org.owner.call("update_outdated_workers", p_org=org.id)
    runner.finish(runner.claim_one(), "FAILED", p_error={"message": "put back"})
    newer.heartbeat(version="1.2.0")
    org.owner.call("drain_worker", p_worker=drained.worker_id, p_reason="maintenance")
    assert org.owner.call("resume_rollout", p_rollout=started["id"])["status"] == "SUCCEEDED"
    assert org.owner.rows("select status from public.provision_jobs") == ["FAILED"]


def test_withdrawing_a_release_stops_the_updates_to_it(site: tuple[World, Organization, Runner]) -> None:
    world, org, runner = site
    permitted(org, "self-2")
    started = org.owner.call("update_outdated_workers", p_org=org.id)
    world.service.call("withdraw_release", p_version="1.1.0", p_reason="broken")
    assert rollout(org) == ("PAUSED", "Release 1.1.0 was withdrawn.")
    assert runner.claim(5) == []
    assert org.owner.rows("select status from public.provision_jobs") == ["CANCELLED"]
    org.owner.call("resume_rollout", p_rollout=started["id"])
    assert rollout(org) == ("PAUSED", "Release 1.1.0 was withdrawn.")
