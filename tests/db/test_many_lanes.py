"""Many lanes at once: an organisation with many groups, each with runners of its own, and runners that serve all of them."""

from typing import Any

import pytest

from tests.db.calls import calls_of, count_calls
from tests.db.test_rows_read import rows_read
from tests.db.world import Caller, Organization, Runner, World

GROUPS, RUNNERS, MODULES = 40, 5, 3


def add_groups(world: World, org: Organization) -> None:
    """Groups with modules, and runners for each, of which none was ever started."""
    world.owner.connection.execute(
        """with made as (
          insert into public.groups (org_id, path) select %(org)s, 'team-' || n from generate_series(1, %(groups)s) as n
          returning id, path
        ), module as (
          insert into public.modules (org_id, group_id, group_path, name, path)
          select %(org)s, m.id, m.path, 'm' || n, m.path || '/m' || n from made as m, generate_series(1, %(modules)s) as n
        ), runner as (
          insert into public.workers (org_id, name)
          select %(org)s, m.path || '-' || n from made as m, generate_series(1, %(runners)s) as n returning id, name
        )
        insert into public.worker_assignments (org_id, worker_id, path)
        select %(org)s, r.id, regexp_replace(r.name, '-[0-9]+$', '') from runner as r""",
        {"org": org.id, "groups": GROUPS, "modules": MODULES, "runners": RUNNERS},
    )


@pytest.fixture
def site(fresh_world: World) -> tuple[World, Organization, Runner]:
    """An organisation of many groups, and a connected runner that serves all of its modules."""
    count_calls(fresh_world)
    org = fresh_world.organization()
    add_groups(fresh_world, org)
    fresh_world.owner.connection.execute("analyze")
    world = World.open(fresh_world.database)
    owner = world.caller("authenticated", sub=org.owner.id, email=org.owner.email)
    org.owner.connection = owner.connection
    return world, org, world.connect_runner(org.worker("all", is_assigned_to_all_modules=True, capacity=2))


def start(org: Organization) -> Any:
    return org.owner.call("start_set", p_org=org.id, p_type="PLAN", p_path="")


def test_a_set_over_many_groups_fits_its_lanes_together(site: tuple[World, Organization, Runner]) -> None:
    """One by one, each new lane read every runner: seconds for 200 groups with 5,000 runners."""
    world, org, _ = site
    read = rows_read(org.owner.connection, "select public.start_set(%(org)s, 'PLAN', '')", {"org": org.id})
    everybody = GROUPS * RUNNERS + 1
    assert read["workers"] <= 6 * everybody, read
    assert start(org)["waiting"] == GROUPS * MODULES
    serving = (
        "select count(*) from private.lane_workers as lw join private.lanes as l on l.id = lw.lane_id and l.scope <> ''"
    )
    assert world.owner.one(serving) == GROUPS * (RUNNERS + 1)


def test_a_set_of_two_thousand_modules_is_placed_by_its_call(fresh_world: World) -> None:
    org = fresh_world.organization()
    add_groups(fresh_world, org)
    fresh_world.owner.connection.execute(
        """insert into public.modules (org_id, group_id, group_path, name, path)
        select g.org_id, g.id, g.path, 'more-' || n, g.path || '/more-' || n
        from public.groups as g, generate_series(1, 2000 / %s - %s) as n where g.org_id = %s""",
        [GROUPS, MODULES, org.id],
    )
    assert start(org)["total"] == 2000
    assert fresh_world.owner.one("select count(*) from private.live_jobs where stage = 'READY'") == 2000


def enqueue(caller: Caller, org: Organization, name: str) -> Any:
    """A plan for the module of this name in every group."""
    modules = caller.rows("select id::text from public.modules where org_id = %s and name ~ %s", org.id, name)
    return caller.one("select public.enqueue_jobs(%s, 'PLAN', %s::uuid[])", org.id, modules)


def test_two_people_who_need_the_same_new_lanes_share_them(site: tuple[World, Organization, Runner]) -> None:
    """The second waits for the first, finds the lanes, and adds no runner twice."""
    world, org, _ = site
    other = world.caller("authenticated", sub=org.owner.id, email=org.owner.email)
    answer = world.during(other, lambda: enqueue(other, org, "m1"), lambda: enqueue(org.owner, org, "m2"))
    assert len(answer.result()) == GROUPS
    assert world.owner.one("select count(*) from private.lanes") == GROUPS
    assert world.owner.one("select count(*) from private.live_jobs where stage = 'READY'") == 2 * GROUPS


def test_many_modules_are_enqueued_under_one_lock(site: tuple[World, Organization, Runner]) -> None:
    """The server's table of locks has room for a few thousand; a single job of one of them still comes after."""
    world, org, _ = site
    other = world.caller("authenticated", sub=org.owner.id, email=org.owner.email)
    held = "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"

    def enqueue_all() -> None:
        assert len(enqueue(other, org, "m[123]")) == GROUPS * MODULES > 100
        assert other.one(held) <= GROUPS + 5, "a wake-up for each lane, and the routing's"

    module = org.owner.one("select id from public.modules where path = 'team-1/m1' and org_id = %s", org.id)
    answer = world.during(
        other, enqueue_all, lambda: org.owner.call("enqueue_job", p_org=org.id, p_type="PLAN", p_module=module)
    )
    first = world.owner.one("select min(id) from public.provision_jobs where module_id = %s", module)
    assert answer.result()["id"] > first
    waits = "select stage::text from private.live_jobs where job_id = %s"
    assert world.owner.one(waits, answer.result()["id"]) == "WAITING"


def test_a_claim_from_many_lanes_evaluates_each_nearer_runner_once(site: tuple[World, Organization, Runner]) -> None:
    """One statement finds the first runner for all lanes, and no version is compared where none is required."""
    world, org, runner = site
    nearer = [org.runner(f"near-{n}", assignments=[f"team-{n}"]) for n in range(1, GROUPS + 1)]
    start(org)
    world.owner.connection.execute("analyze")
    calls = calls_of(runner, runner.claim)
    assert len(nearer) == GROUPS
    assert calls["shortfall"] == 2 * GROUPS, "its own and the nearer runner's, for each lane"
    assert calls["meets_requirement"] == 0
    assert calls.total() <= 2 * GROUPS + 20, calls
    assert runner.claim() == [], "a nearer runner is available for each lane"
    assert nearer[0].claim_one()


def test_a_claim_looks_at_nearer_runners_of_no_more_lanes_than_it_takes(
    site: tuple[World, Organization, Runner],
) -> None:
    """Each lane has five nearer runners that were never started: reading them for all lanes took 76 ms with 200 lanes."""
    world, org, runner = site
    start(org)
    world.owner.connection.execute("analyze")
    read = rows_read(runner.connection, "select public.worker_claim(gen_random_uuid(), 2)", {})
    assert 0 < read["workers"] <= 5 * (RUNNERS + 1), "lanes of two jobs, and three whose runners it wakes"
    assert len(runner.claim(2)) == 2
