"""Cloud-hosted runners: deploy, update in waves, remove, scale; and cloud identities."""

from typing import Any

import pytest

from tests.db.world import ROLE, TOKEN_HASH, Organization, Runner, World, refused


def deploy(org: Organization, name: str, identity_id: str, **options: Any) -> dict[str, Any]:
    made: dict[str, Any] = org.owner.call(
        "deploy_worker",
        p_org=org.id,
        p_name=name,
        p_cloud_identity=identity_id,
        p_region="eu-west-1",
        p_options=options,
    )
    return made


@pytest.fixture
def site(fresh_world: World) -> tuple[World, Organization, Runner, str]:
    """An organisation with a cloud identity, and a shared runner that does the work."""
    org = fresh_world.organization()
    shared = fresh_world.connect_runner(fresh_world.shared_worker(capacity=20))
    return fresh_world, org, shared, org.cloud_identity()


def come_online(world: World, shared: Runner, worker: str, version: str) -> Runner:
    """Run the deploying job to its end and start the deployed process."""
    job = shared.claim_one()
    shared.call("worker_target_token", p_job=job["id"], p_attempt=1, p_token_hash=TOKEN_HASH, p_token_hint="wxyz")
    runner = world.connect_runner(worker, "task", version=version)
    runner.heartbeat(version=version)
    shared.finish(job)
    return runner


def test_deploying_queues_a_job_with_everything_frozen(site: tuple[World, Organization, Runner, str]) -> None:
    world, org, shared, aws = site
    world.service.call("publish_release", p_spec={"version": "1.4.0"})
    made = deploy(
        org, "fargate", aws, cpu=1024, memory=2048, capacity=2, is_assigned_to_all_modules=True, scaling={"min": 0}
    )
    job = shared.claim_one()
    spec = job["payload"]["lifecycle"]
    assert (job["type"], made["job"]["id"], made["worker"]["type"]) == ("DEPLOY_WORKER", job["id"], "cloud-hosted")
    assert (spec["worker"]["name"], spec["region"], spec["version"], spec["cpu"]) == (
        "fargate",
        "eu-west-1",
        "1.4.0",
        1024,
    )
    assert (spec["identity"]["role_arn"], spec["identity"]["account_id"]) == (ROLE, "123456789012")
    assert spec["identity"]["external_id"]
    with refused("RY409", "is already at work on this runner."):
        deploy(org, "fargate", aws)


def test_the_settings_of_a_task_are_kept_for_updates_and_the_next_deployment(
    site: tuple[World, Organization, Runner, str],
) -> None:
    world, org, shared, aws = site
    world.service.call("publish_release", p_spec={"version": "1.4.0"})
    image = "registry.test:5000/runyard-worker"
    made = deploy(org, "fargate", aws, cpu=1024, memory=2048, image=f"{image}:1.4.0", task_role_arn=ROLE)
    assert made["worker"]["capacity"] == 1, "jobs side by side in a task would not be isolated from each other"
    assert made["job"]["payload"]["lifecycle"]["image"] == f"{image}:1.4.0"
    come_online(world, shared, made["worker"]["id"], "1.4.0")
    world.service.call("publish_release", p_spec={"version": "1.5.0"})
    update = org.owner.call("update_one_worker", p_worker=made["worker"]["id"])
    spec = update["payload"]["lifecycle"]
    assert (spec["cpu"], spec["memory"], spec["image"], spec["task_role_arn"]) == (1024, 2048, image, ROLE)
    assert spec["version"] == "1.5.0"
    shared.finish(shared.claim_one())
    again = deploy(org, "fargate", aws, memory=4096)["job"]["payload"]["lifecycle"]
    assert (again["cpu"], again["memory"]) == (1024, 4096)


def test_a_deployed_runner_may_have_several_tasks_and_acts_on_no_other(
    site: tuple[World, Organization, Runner, str],
) -> None:
    _, org, _, aws = site
    worker = deploy(org, "fargate", aws)["worker"]
    assert worker["allow_multiple_instances"]
    assert worker["accepted_job_types"] == [
        "PLAN",
        "APPLY",
        "DESTROY",
        "OUTPUT",
        "DRIFT",
        "RESOLVE",
        "STATE",
        "POLICY_TEST",
    ]


def test_a_runner_without_rights_leaves_the_decisions_to_another(site: tuple[World, Organization, Runner, str]) -> None:
    world, org, shared, aws = site
    made = deploy(org, "fargate", aws, is_assigned_to_all_modules=True)
    come_online(world, shared, made["worker"]["id"], "1.4.0")
    world.owner.connection.execute('update public.workers set cloud = cloud || \'{"service_arn": "arn"}\'')
    other = world.connect_runner(world.shared_worker("another", capacity=1))
    without = "select public.worker_scaling_inputs(%s::uuid[])"
    assert shared.call("worker_scaling_inputs")["workers"]
    assert not other.call("worker_scaling_inputs")["workers"]
    assert not shared.one(without, [org.id])["workers"]
    world.owner.connection.execute("update private.scaling_leases set held_until = now() - interval '1 second'")
    assert not shared.one(without, [org.id])["workers"]
    assert other.call("worker_scaling_inputs")["workers"]


ARNS = "The cloud resources are an object of names and ARNs, of at most 16 KiB."
NO_COUNT = '"desired_count" is not a whole number from 0 to 1000.'


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ({"cloud": {"starting_at": "x"}}, ARNS),
        ({"cloud": {"is_gone": True}}, ARNS),
        ({"cloud": {"service_arn": 1}}, ARNS),
        ({"cloud": {f"a{number}_arn": "x" * 100 for number in range(200)}}, ARNS),
        ({"cloud": [1]}, ARNS),
        ({"cloud": "x"}, ARNS),
        ({"desired_count": "x"}, NO_COUNT),
        ({"desired_count": -1}, NO_COUNT),
        ({"is_draining": "perhaps"}, '"is_draining" is not true or false.'),
    ],
)
def test_invalid_reports_about_a_target_are_refused(
    site: tuple[World, Organization, Runner, str], patch: dict[str, Any], words: str
) -> None:
    _, org, shared, aws = site
    deploy(org, "fargate", aws)
    job = shared.claim_one()
    with refused("RY422", words):
        shared.call("worker_target_update", p_job=job["id"], p_attempt=1, p_patch=patch)


def test_the_size_limit_applies_to_the_sum_of_all_reports_about_a_target(
    site: tuple[World, Organization, Runner, str],
) -> None:
    _, org, shared, aws = site
    deploy(org, "fargate", aws)
    job = shared.claim_one()
    with refused("RY422", ARNS):
        for number in range(3):
            patch = {"cloud": {f"a{number}_arn": "x" * 7000}}
            shared.call("worker_target_update", p_job=job["id"], p_attempt=1, p_patch=patch)


def test_the_job_gives_its_target_a_token_and_records_its_resources(
    site: tuple[World, Organization, Runner, str],
) -> None:
    world, org, shared, aws = site
    worker = deploy(org, "fargate", aws)["worker"]["id"]
    job = shared.claim_one()
    which = {"p_job": job["id"], "p_attempt": 1}
    for _ in range(2):
        shared.call("worker_target_token", **which, p_token_hash=TOKEN_HASH, p_token_hint="wxyz")
    assert len(world.service.call("worker_token_hashes", p_worker=worker)) == 1
    status = shared.call("worker_target_update", **which, p_patch={"cloud": {"service_arn": "arn:x"}})
    assert (status["status"], status["cloud"]["service_arn"]) == ("OFFLINE", "arn:x")
    world.connect_runner(worker, "task")
    status = shared.call("worker_target_status", **which)
    assert (status["status"], status["versions"], status["instances"]) == ("ONLINE", ["1.0.0"], 1)
    shared.finish(job)
    assert org.owner.one("select verified_at is not null from public.cloud_identities")
    with refused("RY410"):
        shared.call("worker_target_status", **which)


def test_a_job_for_a_module_has_no_target(site: tuple[World, Organization, Runner, str]) -> None:
    _, org, shared, _ = site
    org.enqueue("a/b")
    job = shared.claim_one()
    with refused("RY422", "This job is not about a runner."):
        shared.call("worker_target_status", p_job=job["id"], p_attempt=1)


def test_a_failed_deployment_shows_at_the_identity(site: tuple[World, Organization, Runner, str]) -> None:
    _, org, shared, aws = site
    deploy(org, "fargate", aws)
    shared.finish(shared.claim_one(), "FAILED", p_error={"code": "cloud_identity", "message": "The role refused us."})
    assert (
        org.owner.one("select verification_error from public.cloud_identities where id = %s", aws)
        == "The role refused us."
    )


def test_removal_drains_then_retires_the_record(site: tuple[World, Organization, Runner, str]) -> None:
    world, org, shared, aws = site
    worker = deploy(org, "fargate", aws)["worker"]["id"]
    come_online(world, shared, worker, "1.0.0")
    org.owner.call("remove_cloud_worker", p_worker=worker)
    assert world.worker_row(worker)["status"] == "DRAINING"
    with refused("RY409", "runners are deployed with it."):
        org.owner.call("remove_cloud_identity", p_identity=aws)
    shared.finish(shared.claim_one())
    world.sweep()
    assert world.worker_row(worker)["removed_at"] is not None
    org.owner.call("remove_cloud_identity", p_identity=aws)


def remove(org: Organization, shared: Runner, worker: str) -> None:
    """Take it down; its record is retired by the next sweep."""
    org.owner.call("remove_cloud_worker", p_worker=worker)
    shared.finish(shared.claim_one())


def test_a_runner_deployed_under_the_name_of_a_removed_one_stays(
    site: tuple[World, Organization, Runner, str],
) -> None:
    world, org, shared, aws = site
    old = deploy(org, "fargate", aws)["worker"]["id"]
    come_online(world, shared, old, "1.0.0")
    remove(org, shared, old)
    new = deploy(org, "Fargate", aws)["worker"]["id"]
    world.sweep()
    assert new != old
    assert [world.worker_row(worker)["removed_at"] is None for worker in (old, new)] == [False, True]


@pytest.mark.parametrize("is_swept", [False, True])
def test_retry_update_and_removal_of_a_removed_runner_are_refused(
    site: tuple[World, Organization, Runner, str], is_swept: bool
) -> None:
    world, org, shared, aws = site
    made = deploy(org, "fargate", aws)
    shared.finish(shared.claim_one(), "FAILED", p_error={"message": "no"})
    world.owner.connection.execute("update public.workers set version = '1.0.0' where name = 'fargate'")
    world.service.call("publish_release", p_spec={"version": "1.1.0"})
    remove(org, shared, made["worker"]["id"])
    if is_swept:
        world.sweep()
    with refused("RY409", '"fargate" was removed.'):
        org.owner.call("retry_job", p_job=made["job"]["id"])
    for function in ("remove_cloud_worker", "update_one_worker"):
        with refused("RY404", "There is no such runner."):
            org.owner.call(function, p_worker=made["worker"]["id"])
    with refused("RY409", "No runner is outdated that a job could update."):
        org.owner.call("update_outdated_workers", p_org=org.id)


def test_a_deployment_is_not_retried_beside_a_removal(site: tuple[World, Organization, Runner, str]) -> None:
    _, org, shared, aws = site
    made = deploy(org, "fargate", aws)
    shared.finish(shared.claim_one(), "FAILED", p_error={"message": "no"})
    org.owner.call("remove_cloud_worker", p_worker=made["worker"]["id"])
    with refused("RY409", "is already at work on this runner."):
        org.owner.call("retry_job", p_job=made["job"]["id"])


def test_an_update_is_retried_unless_its_release_was_withdrawn(site: tuple[World, Organization, Runner, str]) -> None:
    world, org, shared, _ = site
    (worker,) = fleet_of(site, 1)
    job = org.owner.call("update_one_worker", p_worker=worker)["id"]
    shared.finish(shared.claim_one(), "FAILED", p_error={"message": "no"})
    again = org.owner.call("retry_job", p_job=job)["id"]
    world.service.call("withdraw_release", p_version="1.10.0", p_reason="broken")
    assert world.status(again) == "CANCELLED"
    with refused("RY404", ", or it was withdrawn."):
        org.owner.call("retry_job", p_job=again)


def fleet_of(site: tuple[World, Organization, Runner, str], count: int) -> list[str]:
    world, org, shared, aws = site
    workers = []
    for number in range(count):
        worker = deploy(org, f"cloud-{number:02}", aws)["worker"]["id"]
        come_online(world, shared, worker, "1.9.0")
        workers.append(worker)
    world.service.call("publish_release", p_spec={"version": "1.10.0"})
    return workers


def test_a_rollout_updates_one_runner_then_a_quarter_then_the_rest(
    site: tuple[World, Organization, Runner, str],
) -> None:
    _, org, shared, _ = site
    fleet_of(site, 9)
    org.runner("self-hosted")
    rollout = org.owner.call("update_outdated_workers", p_org=org.id)
    assert [len(wave) for wave in rollout["waves"]] == [1, 2, 6]
    with refused("RY409", "A rollout is under way already."):
        org.owner.call("update_outdated_workers", p_org=org.id)
    sizes = []
    while jobs := shared.claim(20):
        sizes.append(len(jobs))
        assert all(job["payload"]["lifecycle"]["version"] == "1.10.0" for job in jobs)
        for job in jobs:
            shared.finish(job)
    assert sizes == [1, 2, 6]
    assert org.owner.one("select status, wave from public.rollouts") == ("SUCCEEDED", 3)
    asked = "select distinct created_by_label from public.provision_jobs where rollout_id is not null"
    assert org.owner.rows(asked) == [org.owner.email], "later waves begin in a runner's call"


def test_a_failure_pauses_the_rollout_and_a_person_decides(site: tuple[World, Organization, Runner, str]) -> None:
    _, org, shared, _ = site
    fleet_of(site, 5)
    rollout = org.owner.call("update_outdated_workers", p_org=org.id)["id"]
    shared.finish(shared.claim_one(), "FAILED", p_error={"message": "no"})
    assert org.owner.one("select status from public.rollouts") == "PAUSED"
    assert shared.claim(9) == []
    org.owner.call("resume_rollout", p_rollout=rollout)
    assert len(shared.claim(9)) == 1
    org.owner.call("pause_rollout", p_rollout=rollout)
    aborted = org.owner.call("abort_rollout", p_rollout=rollout)
    assert (aborted["status"], aborted["finished_at"] is not None) == ("ABORTED", True)
    with refused("RY409", "The rollout is not in a state for that."):
        org.owner.call("resume_rollout", p_rollout=rollout)


@pytest.mark.parametrize("how", ["removed", "updated"])
@pytest.mark.parametrize("gone", [[1], [2], [1, 2]])
def test_a_wave_without_a_runner_that_needs_it_does_not_stop_the_rollout(
    site: tuple[World, Organization, Runner, str], gone: list[int], how: str
) -> None:
    world, org, shared, _ = site
    fleet_of(site, 3)
    waves = [wave[0] for wave in org.owner.call("update_outdated_workers", p_org=org.id)["waves"]]
    job = shared.claim_one()
    for number in gone:
        if how == "removed":
            remove(org, shared, waves[number])
        else:
            later = "update public.workers set version = '1.10.0' where id = %s"
            world.owner.connection.execute(later, [waves[number]])
    shared.finish(job)
    rest = shared.claim(9)
    assert [each["payload"]["lifecycle"]["worker"]["id"] for each in rest] == [
        worker for number, worker in enumerate(waves) if number not in (0, *gone)
    ]
    for each in rest:
        shared.finish(each)
    assert org.owner.one("select status from public.rollouts") == "SUCCEEDED"


def test_no_wave_is_larger_than_one_call_should_queue(world: World) -> None:
    ids = "array(select gen_random_uuid() from generate_series(1, 1000))"
    given, waves = world.owner.one(f"select i.ids::text[], private.plan_waves(i.ids) from (select {ids} as ids) as i")
    assert [len(wave) for wave in waves] == [1, 200, 50, 200, 200, 200, 149]
    assert [worker for wave in waves for worker in wave] == given


def test_aborting_cancels_jobs_that_have_not_begun(site: tuple[World, Organization, Runner, str]) -> None:
    _, org, shared, _ = site
    fleet_of(site, 3)
    rollout = org.owner.call("update_outdated_workers", p_org=org.id)["id"]
    org.owner.call("abort_rollout", p_rollout=rollout)
    assert shared.claim(9) == []
    assert org.owner.rows("select status from public.provision_jobs where rollout_id = %s", rollout) == ["CANCELLED"]


def test_only_outdated_cloud_runners_are_updated(site: tuple[World, Organization, Runner, str]) -> None:
    world, org, shared, _ = site
    with refused("RY409", "No runner is outdated that a job could update."):
        org.owner.call("update_outdated_workers", p_org=org.id)
    (worker,) = fleet_of(site, 1)
    assert org.owner.call("update_one_worker", p_worker=worker)["type"] == "UPDATE_WORKER"
    with refused("RY409"):
        org.owner.call("update_one_worker", p_worker=worker)
    with refused("RY422", '" does not update itself to'):
        org.owner.call("update_one_worker", p_worker=org.worker("self"))
    shared.finish(shared.claim_one())
    world.owner.connection.execute("update public.workers set version = '1.10.0' where id = %s", [worker])
    with refused("RY409", '" already runs'):
        org.owner.call("update_one_worker", p_worker=worker)


def test_a_planner_gets_numbers_and_writes_its_decision(site: tuple[World, Organization, Runner, str]) -> None:
    world, org, shared, aws = site
    worker = deploy(
        org,
        "fargate",
        aws,
        is_assigned_to_all_modules=True,
        capacity=2,
        scaling={"min": 0, "max": 4, "idle_seconds": 60},
    )["worker"]["id"]
    runner = come_online(world, shared, worker, "1.0.0")
    for number in range(5):
        org.enqueue(f"a/m{number}")
    runner.claim(2)
    (inputs,) = world.scaling_inputs()
    assert inputs["limits"] == {"minimum": 0, "maximum": 4, "jobs_per_task": 2, "idle_seconds": 60}
    assert inputs["load"] == {
        "desired": 1,
        "connected": 1,
        "waiting": 3,
        "running": 2,
        "busy_tasks": 1,
        "takes_jobs": True,
    }
    world.decide_scaling(worker, 3, "5 jobs", is_dry=True)
    assert world.worker_row(worker)["desired_count"] == 1
    runner.call("worker_close_session")
    world.decide_scaling(worker, 0, "idle")
    row = world.worker_row(worker)
    assert (row["desired_count"], row["is_scaled_to_zero"], row["status_reason"]) == (
        0,
        True,
        "Scaled to zero: starts when a job needs it",
    )
    assert org.owner.rows("select to_count, dry_run from public.scaling_decisions order by id") == [
        (3, True),
        (0, False),
    ]
    world.decide_scaling(worker, 1, "a job waits")
    world.connect_runner(worker, "task")
    assert world.worker_row(worker)["is_scaled_to_zero"] is False


@pytest.mark.parametrize(
    "spec",
    [
        {"name": "x", "role_arn": "nonsense", "regions": ["eu-west-1"]},
        {"name": "x", "role_arn": ROLE, "regions": []},
        {"role_arn": ROLE, "regions": ["eu-west-1"]},
        {"name": "x", "role_arn": ROLE, "regions": ["eu-west-1"], "secret": "no"},
    ],
)
def test_identities_are_checked(org: Organization, spec: dict[str, Any]) -> None:
    with refused("RY422"):
        org.owner.call("create_cloud_identity", p_org=org.id, p_spec=spec)


def test_identities_are_the_admins_own(org: Organization, other_org: Organization) -> None:
    aws = org.cloud_identity()
    with refused("RY409", 'There is already a cloud identity "'):
        org.cloud_identity()
    with refused("RY404", "There is no such cloud identity, or it does not allow that region."):
        deploy(org, "x", other_org.cloud_identity())
    for caller, code in ((org.member("operator"), "RY403"), (other_org.owner, "RY404")):
        with refused(code):
            caller.call("update_cloud_identity", p_identity=aws, p_spec={"regions": ["eu-west-2"]})
        with refused(code):
            caller.call("remove_cloud_identity", p_identity=aws)
    changed = org.owner.call("update_cloud_identity", p_identity=aws, p_spec={"regions": ["eu-west-2"]})
    assert changed["regions"] == ["eu-west-2"]
