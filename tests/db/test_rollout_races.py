"""A rollout that somebody stops while one of its jobs ends: both lock the job's state before the rollout's row."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.db.test_self_updates import ARTIFACT, FILE, permitted, publish
from tests.db.world import Organization, Runner, World
from tests.support.waiting import wait_until

GATE = 4712
GATED = f"""
alter function private.advance_rollout(uuid) rename to advance_rollout_as_it_is;
create function private.advance_rollout(p_rollout uuid) returns void language plpgsql set search_path = '' as $$ begin
  if current_setting('test.stops', true) = 'on' then perform pg_advisory_xact_lock({GATE}); end if;
  perform private.advance_rollout_as_it_is(p_rollout);
end $$;
"""


@pytest.fixture
def site(fresh_world: World) -> tuple[World, Organization, dict[str, list[Runner]]]:
    """A wave of two runners with two processes each, so that each has an update that runs and one that waits behind it."""
    org = fresh_world.organization()
    publish(fresh_world, "1.1.0", ARTIFACT)
    runners = {}
    for name in ("b", "c"):
        first = permitted(org, name, "one", allow_multiple_instances=True)
        runners[first.worker_id] = [first, fresh_world.connect_runner(first.worker_id, "two", self_update=FILE)]
    made = fresh_world.owner.one(
        "insert into public.rollouts (org_id, version, wave, waves) values (%s, '1.1.0', 0, %s) returning id",
        org.id,
        Jsonb([list(runners)]),
    )
    fresh_world.owner.one("select private.advance_rollout(%s)::text", made)
    return fresh_world, org, runners


@contextmanager
def finish_at_the_rollout(world: World, runner: Runner, job: dict[str, Any]) -> Iterator[Callable[[], Any]]:
    """A job's end that has its state, and stops before the rollout's row until the body requests its answer."""
    world.owner.connection.execute(GATED.encode())
    runner.connection.execute("set test.stops = 'on'")
    with psycopg.connect(world.database.url) as gate, ThreadPoolExecutor(1) as pool:
        gate.execute("select pg_advisory_lock(%s)", [GATE])
        ended = pool.submit(lambda: runner.finish(job))

        def go_on() -> Any:
            gate.execute("select pg_advisory_unlock(%s)", [GATE])
            return ended.result()

        try:
            wait_until(world.is_anybody_waiting)
            yield go_on
        finally:
            gate.execute("select pg_advisory_unlock_all()")


@pytest.mark.parametrize("stop", ["abort_rollout", "withdraw_release"])
def test_stopping_a_rollout_while_one_of_its_jobs_ends_is_no_deadlock(
    site: tuple[World, Organization, dict[str, list[Runner]]], stop: str
) -> None:
    world, org, runners = site
    last = max(runners)
    one = next(runner for runner in runners[last] if (claimed := runner.claim()))
    rollout = org.owner.one("select id from public.rollouts")

    def call() -> Any:
        if stop == "abort_rollout":
            return org.owner.call("abort_rollout", p_rollout=rollout)
        return world.service.call("withdraw_release", p_version="1.1.0", p_reason="It is broken.")

    waiting = "select count(*) from pg_locks where not granted"
    with finish_at_the_rollout(world, one, claimed[0]) as go_on, ThreadPoolExecutor(1) as pool:
        stopped = pool.submit(call)
        wait_until(lambda: world.owner.one(waiting) == 2)
        assert go_on()["status"] == "SUCCEEDED"
        stopped.result()
    left = "select count(*) from public.provision_jobs where status in ('QUEUED', 'CLAIMED')"
    assert org.owner.one(left) == 0
    assert org.owner.one("select status::text from public.rollouts") in ("ABORTED", "PAUSED")
