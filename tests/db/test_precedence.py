"""Items 174 to 176 as a table: same group, nearest ancestor, all modules, shared; by runners that are available."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from tests.db.world import Organization, Runner, World

MODULE = "spectre/spaceship/engine/core"
# From the nearest to the farthest; each one's options at registration.
PLACES: dict[str, dict[str, object]] = {
    "module": {"assignments": [MODULE]},
    "group": {"assignments": ["spectre/spaceship/engine"]},
    "parent": {"assignments": ["spectre/spaceship"]},
    "grandparent": {"assignments": ["spectre"]},
    "all modules": {"is_assigned_to_all_modules": True},
    "shared": {},
}


def go_offline(world: World, org: Organization, runner: Runner) -> None:
    world.silence(runner)


def go_draining(world: World, org: Organization, runner: Runner) -> None:
    runner.heartbeat("DRAINING")


def be_told_to_drain(world: World, org: Organization, runner: Runner) -> None:
    org.owner.call("drain_worker", p_worker=runner.worker_id)


def be_disabled(world: World, org: Organization, runner: Runner) -> None:
    org.owner.call("set_worker_disabled", p_worker=runner.worker_id, p_disabled=True)


def be_full(world: World, org: Organization, runner: Runner) -> None:
    org.enqueue(f"elsewhere/{runner.instance}", pinned_worker_id=runner.worker_id)
    org.owner.call("assign_worker", p_worker=runner.worker_id, p_path="elsewhere")
    assert len(runner.claim()) == 1


def lose_assignment(world: World, org: Organization, runner: Runner) -> None:
    for path in org.owner.rows("select path from public.worker_assignments where worker_id = %s", runner.worker_id):
        org.owner.call("unassign_worker", p_worker=runner.worker_id, p_path=path)
    org.owner.call("update_worker", p_worker=runner.worker_id, p_options={"is_assigned_to_all_modules": False})


def say_goodbye(world: World, org: Organization, runner: Runner) -> None:
    runner.call("worker_close_session")


def be_removed(world: World, org: Organization, runner: Runner) -> None:
    org.owner.call("remove_worker", p_worker=runner.worker_id)


TROUBLES: dict[str, Callable[[World, Organization, Runner], None]] = {
    "offline": go_offline,
    "draining": go_draining,
    "told to drain": be_told_to_drain,
    "disabled": be_disabled,
    "full": be_full,
    "unassigned": lose_assignment,
    "gone": say_goodbye,
    "removed": be_removed,
}


@pytest.fixture
def fleet(fresh_world: World) -> tuple[World, Organization, dict[str, Runner]]:
    """One runner at every distance, all of them online and free."""
    org = fresh_world.organization()
    org.module(MODULE)
    runners: dict[str, Runner] = {}
    for place, options in PLACES.items():
        worker = fresh_world.shared_worker() if place == "shared" else org.worker(place, **options)
        runners[place] = fresh_world.connect_runner(worker, place.replace(" ", "-"))
    return fresh_world, org, runners


def winner(runners: dict[str, Runner]) -> str | None:
    """Return the place of the runner that gets the job when all of them try to claim it, the farthest first."""
    for place in reversed(PLACES):
        if place in runners and runners[place].claim():
            return place
    return None


def test_only_the_nearest_available_runner_gets_the_job(fleet: tuple[World, Organization, dict[str, Runner]]) -> None:
    _, org, runners = fleet
    org.enqueue(MODULE)
    assert winner(runners) == "module"


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_job_never_waits_for_a_runner_that_is_not_available(
    fleet: tuple[World, Organization, dict[str, Runner]], trouble: str
) -> None:
    world, org, runners = fleet
    org.module("elsewhere/none")
    places = list(PLACES)
    for nearest, next_one in pairwise(places):
        TROUBLES[trouble](world, org, runners.pop(nearest))
        job = org.enqueue(MODULE)
        assert winner(runners) == next_one, f"{nearest} was {trouble}"
        org.owner.call("cancel_job", p_job=job, p_kind="KILL")
        runners[next_one].finish({"id": job, "attempt": 1}, "CANCELLED")


def test_all_modules_by_path_is_as_near_as_by_flag(org: Organization) -> None:
    org.module(MODULE)
    by_path, by_flag = org.runner("by-path", assignments=[""]), org.runner("by-flag", is_assigned_to_all_modules=True)
    first, second = org.enqueue(MODULE), org.enqueue("spectre/other")
    assert {by_path.claim_one()["id"], by_flag.claim_one()["id"]} == {first, second}


def test_runners_at_the_same_distance_compete(org: Organization) -> None:
    org.module(MODULE)
    runners = [org.runner(f"r{n}", assignments=["spectre"]) for n in range(2)]
    org.enqueue(MODULE)
    assert [len(runner.claim()) for runner in runners] == [1, 0]


def test_an_assignment_elsewhere_does_not_matter(org: Organization) -> None:
    org.module(MODULE)
    org.module("spectre/spaceship-two/engine")
    far = org.runner("far", is_assigned_to_all_modules=True)
    org.runner("neighbour", assignments=["spectre/spaceship-two"])
    org.enqueue(MODULE)
    assert len(far.claim()) == 1


def test_a_nearer_runner_without_the_label_does_not_count(org: Organization) -> None:
    org.module(MODULE, labels=["gpu"])
    org.runner("near", assignments=[MODULE])
    far = org.runner("far", is_assigned_to_all_modules=True, labels=["gpu"])
    org.enqueue(MODULE)
    assert len(far.claim()) == 1


def test_a_nearer_runner_has_precedence_again_once_it_is_free(world: World, org: Organization) -> None:
    near_module = MODULE
    org.module(near_module)
    near, far = org.runner("near", assignments=["spectre"]), org.runner("far", is_assigned_to_all_modules=True)
    org.enqueue(near_module)
    busy = near.claim_one()
    org.enqueue("spectre/b/c")
    taken = far.claim_one()
    far.finish(taken)
    near.finish(busy)
    org.enqueue("spectre/b/c")
    assert far.claim() == []
    assert len(near.claim()) == 1


def test_a_runner_deeper_in_the_tree_is_nearer_as_soon_as_it_is_assigned(org: Organization) -> None:
    org.module(MODULE)
    far, near = org.runner("far", assignments=["spectre"]), org.runner("near")
    org.enqueue(MODULE)
    org.owner.call("assign_worker", p_worker=near.worker_id, p_path="spectre/spaceship/engine")
    assert far.claim() == []
    assert len(near.claim()) == 1


def test_a_job_about_a_runner_is_not_run_by_that_runner(fresh_world: World) -> None:
    org = fresh_world.organization()
    shared = fresh_world.connect_runner(fresh_world.shared_worker())
    made = org.owner.call(
        "deploy_worker",
        p_org=org.id,
        p_name="cloud",
        p_cloud_identity=org.cloud_identity(),
        p_region="eu-west-1",
        p_options={"is_assigned_to_all_modules": True},
    )
    deploy = shared.claim_one()
    shared.call(
        "worker_target_token", p_job=deploy["id"], p_attempt=1, p_token_hash="$2b$10$" + "b" * 53, p_token_hint="wxyz"
    )
    shared.finish(deploy)
    cloud = fresh_world.connect_runner(made["worker"]["id"])
    removal = org.owner.call("remove_cloud_worker", p_worker=made["worker"]["id"])
    org.owner.call("resume_worker", p_worker=made["worker"]["id"])
    assert cloud.claim() == []
    assert shared.claim_one()["id"] == removal["id"]


def test_a_runner_that_accepts_all_types_of_job_accepts_a_new_type(fresh_world: World) -> None:
    """Another one that was registered with a list of types does not."""
    org = fresh_world.organization()
    types = fresh_world.owner.one("select enum_range(null::public.job_type)::text[]")
    everything = org.runner("everything", is_assigned_to_all_modules=True, accepted_job_types=types)
    listed = org.runner("listed", is_assigned_to_all_modules=True, accepted_job_types=types[1:])
    fresh_world.owner.connection.execute("alter type public.job_type add value 'IMPORT'")
    job = org.enqueue(MODULE, "IMPORT")
    assert listed.claim() == []
    assert everything.claim_one()["id"] == job
    org.owner.call("update_worker", p_worker=listed.worker_id, p_options={"accepted_job_types": None})
    again = org.enqueue("other/module", "IMPORT")
    assert listed.claim_one()["id"] == again
