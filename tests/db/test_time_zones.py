"""The time zone of a session, which a caller of the API may choose, changes no hour, no quarter and no day."""

from collections.abc import Iterator

import pytest

from tests.db.world import World


@pytest.fixture
def kolkata(fresh_world: World) -> Iterator[World]:
    """A world whose owner's session is five and a half hours ahead."""
    fresh_world.owner.connection.execute("set time zone 'Asia/Kolkata'")
    yield fresh_world
    fresh_world.owner.connection.execute("reset time zone")


def test_hours_are_rolled_up_once(kolkata: World) -> None:
    kolkata.service.connection.execute("set time zone 'UTC'")
    kolkata.sweep()
    assert kolkata.owner.one("select count(*) from private.rolled_hours") == 24
    assert kolkata.owner.one("select private.roll_up()") in (0, 1), "a new hour may have begun, and no other"
    assert kolkata.owner.rows(
        "select distinct extract(minute from hour at time zone 'utc')::int from private.rolled_hours"
    ) == [0]


def test_quarters_of_an_hour_are_those_of_utc(kolkata: World) -> None:
    org = kolkata.organization()
    runner = org.runner("r1")
    # A new session: a function's constants are read once. Every zone of the map is ahead by whole quarters; this is not.
    again = kolkata.caller("worker", sub=runner.worker_id, sid=runner.session_id)
    again.connection.execute("set time zone '<near>-00:07'")
    again.call("worker_heartbeat", p_status="ONLINE", p_version="1.0.0")
    assert kolkata.owner.one(
        "select tick_at = date_bin('15 minutes', tick_at, '2000-01-01 00:00+00') from private.heartbeats"
    )


# 03:00 there is 21:30 of the day before in UTC, and the other way round in Los Angeles.
@pytest.mark.parametrize("zone", ["Asia/Kolkata", "Pacific/Kiritimati", "America/Los_Angeles"])
def test_the_day_of_a_log_is_that_of_utc(fresh_world: World, zone: str) -> None:
    world, org = fresh_world, fresh_world.organization()
    owner = world.owner.connection
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    for connection in (owner, runner.connection, world.service.connection):
        connection.execute("select set_config('TimeZone', %s, false)", [zone])
    job = org.enqueue("a/b")
    runner.claim_one()
    utc = "(now() at time zone 'utc')::date"
    assert world.owner.one(f"select log_day = {utc} from public.provision_jobs where id = %s", job)
    owner.execute(f"select private.ensure_log_partition({utc} - d) from generate_series(29, 32) as d")
    owner.execute("delete from private.clocks")
    assert world.sweep()["dropped_log_days"] == 2
    assert world.owner.rows(f"select {utc} - d from private.log_days() as d") == [30, 29, 0, -1, -2]
