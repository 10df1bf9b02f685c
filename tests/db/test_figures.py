"""Figures: of a span for members, of the installation for anyone who monitors it."""

import pytest

from tests.db.bulk import add_finished_jobs, add_modules, add_queued_jobs, add_workers
from tests.db.world import Organization, World, refused


@pytest.fixture
def busy(world: World, org: Organization) -> Organization:
    """A day with jobs: each waited three seconds, every tenth failed, two runners did them."""
    add_modules(world, org, 5)
    add_finished_jobs(world, org, 180)
    world.owner.connection.execute(
        "insert into public.provision_jobs (org_id, type, status, module_id, module_path, group_path, attempt, finished_at)"
        " select m.org_id, 'PLAN', 'FAILED', m.id, m.path, m.group_path, 1, now() - n * interval '5 seconds'"
        " from generate_series(1, 20) as n join public.modules as m on m.org_id = %s and m.name = 'm1'",
        [org.id],
    )
    world.owner.connection.execute(
        "update public.provision_jobs set queued_at = finished_at - interval '13 seconds',"
        " claimed_at = finished_at - interval '10 seconds', worker_name = 'runner-' || id %% 2 where org_id = %s",
        [org.id],
    )
    # The sweep may have closed those hours already, when they were empty.
    world.owner.connection.execute("delete from private.rolled_hours")
    return org


@pytest.mark.parametrize(("hours", "points"), [(1, 60), (24, 72), (168, 84)])
def test_a_span_is_drawn_in_so_many_points_and_counted_as_a_whole(busy: Organization, hours: int, points: int) -> None:
    figures = busy.owner.call("fleet_figures", p_org=busy.id, p_hours=hours)
    assert len(figures["points"]) == points
    assert sum(point["jobs"] for point in figures["points"]) == figures["whole"]["jobs"] == 200
    assert [figures["whole"][share] for share in ("p50", "p95", "p99")] == pytest.approx([3, 3, 3], rel=0.05)
    assert figures["whole"]["failed"] == sum(point["failed"] for point in figures["points"]) == 20


def test_releases_and_outages_of_the_time_are_marked(world: World, org: Organization) -> None:
    add_workers(world, org, 3)
    world.owner.connection.execute("update public.workers set version = '9.9.9' where org_id = %s", [org.id])
    world.owner.connection.execute(
        "update public.workers set version = '9.9.8' where name = (select min(name) from"
        " public.workers where org_id = %s)",
        [org.id],
    )
    world.owner.connection.execute("insert into public.worker_releases (version) values ('9.9.9')")
    world.owner.connection.execute("delete from private.outages")
    for gap in ("20 seconds", "10 minutes", "1 minute"):
        world.owner.connection.execute(
            "insert into private.outages (began_at) values (now() - %s::interval)"
            " on conflict ((true)) where ended_at is null do update set began_at = excluded.began_at",
            [gap],
        )
        world.service.call("sweep")
    marks = {mark["kind"]: mark for mark in org.owner.call("fleet_figures", p_org=org.id, p_hours=1)["marks"]}
    assert (marks["release"]["version"], marks["release"]["updated"], marks["release"]["runners"]) == ("9.9.9", 2, 3)
    assert world.owner.one("select count(*) from private.outages where ended_at is not null") == 1, "of ten minutes"
    assert marks["outage"]["until"] > marks["outage"]["at"]


def test_a_week_from_closed_hours_is_the_week_from_its_jobs(world: World, busy: Organization) -> None:
    world.owner.connection.execute(
        "update public.provision_jobs set finished_at = finished_at - interval '3 hours', queued_at = queued_at -"
        " interval '3 hours', claimed_at = claimed_at - interval '3 hours' where org_id = %s",
        [busy.id],
    )
    counted = busy.owner.call("fleet_figures", p_org=busy.id, p_hours=168)
    world.owner.one("select private.roll_up()")
    assert world.owner.one("select sum(jobs) from private.waits_hourly where org_id = %s", busy.id) == 200
    added_up = busy.owner.call("fleet_figures", p_org=busy.id, p_hours=168)
    assert (added_up["whole"], added_up["points"]) == (counted["whole"], counted["points"])
    assert added_up["whole"]["jobs"] == 200


def test_figures_are_for_members_and_for_three_spans(busy: Organization, other_org: Organization) -> None:
    assert busy.member("viewer").call("fleet_figures", p_org=busy.id)["hours"] == 24
    with refused("RY404"):
        other_org.owner.call("fleet_figures", p_org=busy.id)
    with refused("RY422", "Figures are for 1, 24 or 168 hours."):
        busy.owner.call("fleet_figures", p_org=busy.id, p_hours=5)


def test_the_installation_is_counted_across_organisations(
    world: World, busy: Organization, other_org: Organization
) -> None:
    add_queued_jobs(world, busy, 7)
    add_workers(world, other_org, 3)
    figures = world.service.call("installation_metrics")
    assert figures["jobs"]["QUEUED"] >= 7
    assert figures["runners"]["OFFLINE"] >= 3
    assert figures["waits"]["p95"] == 3
    world.owner.connection.execute(
        "update public.provision_jobs set queued_at = now() - interval '90 s' where org_id = %s", [busy.id]
    )
    assert world.service.call("installation_metrics")["oldest_queued_seconds"] >= 90
    assert figures["deliveries"] == {}
    world.service.call("sweep")
    world.owner.connection.execute("update private.clocks set ran_at = now() - interval '70 s' where name = 'swept'")
    assert world.service.call("installation_metrics")["sweep_lag_seconds"] >= 70
