"""The embedded stack wakes the function that sends when something is due, at once, and only then."""

import asyncio
import io
import json
from pathlib import Path

import pytest

from cli.launcher import notifier as module
from cli.launcher.journal import Journal
from cli.launcher.notifier import Notifier
from tests.db.test_notifications import rule
from tests.db.world import World
from tests.support.receiver import Receiver, run_receiver
from tests.support.waiting import wait_until

URL = "https://project.example.com/functions/v1/notify"
HOSTED = """
  create schema net;
  create table net.calls (url text, body jsonb);
  create function net.http_post(url text, body jsonb, params jsonb default '{}', headers jsonb default '{}',
    timeout_milliseconds integer default 1000) returns bigint language sql as
    $$ insert into net.calls values (url, body) returning 1::bigint $$;
"""

# The first poll comes after LISTEN.
POLLED = """
  select exists (select from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database()
    and query like '%%has_due_deliveries%%')
"""


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path, io.StringIO())


async def poll(notifier: Notifier, times: int = 1) -> None:
    async with notifier.opened() as connection:
        for _ in range(times):
            await notifier.poll(connection)
            await asyncio.gather(*notifier.calls)


def calls(function: Receiver) -> list[tuple[str, object]]:
    return [(each.path, json.loads(each.body)) for each in function.received]


def test_the_function_is_woken_while_something_is_due(fresh_world: World, journal: Journal) -> None:
    org = fresh_world.organization()
    with run_receiver() as function:
        notifier = Notifier(fresh_world.database.url, function.url, journal)
        asyncio.run(poll(notifier))
        assert function.received == []
        org.owner.call("test_notification_rule", p_rule=rule(org))
        asyncio.run(poll(notifier))
        assert calls(function) == [("/notify", {"deliver": True})]
        function.status = 500
        asyncio.run(poll(notifier, 2))
    assert journal.tail("notify").count("500") == 1, "trouble is logged once"


def test_a_message_wakes_the_function_without_a_poll(
    fresh_world: World, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_EVERY_SECONDS", 3600.0)
    org = fresh_world.organization()
    made = rule(org)

    async def story(notifier: Notifier, function: Receiver) -> None:
        watching = asyncio.create_task(notifier.watch())
        await asyncio.to_thread(wait_until, lambda: fresh_world.owner.one(POLLED))
        await asyncio.to_thread(org.owner.call, "test_notification_rule", p_rule=made)
        await asyncio.to_thread(wait_until, lambda: calls(function))
        watching.cancel()

    with run_receiver() as function:
        asyncio.run(story(Notifier(fresh_world.database.url, function.url, journal), function))


def test_hosted_supabase_is_woken_by_the_message_itself_once_for_a_burst(fresh_world: World) -> None:
    org = fresh_world.organization()
    owner = fresh_world.owner
    owner.connection.execute(HOSTED)
    fresh_world.service.call("set_notifier_url", p_url=URL)
    first, second = rule(org), rule(org)
    org.owner.call("test_notification_rule", p_rule=first)
    assert owner.rows("select url, body from net.calls") == [(URL, {"deliver": True})]
    # However slow the machine is, the second one comes within a second.
    owner.connection.execute("update public.deliveries set created_at = now() + interval '1 hour'")
    org.owner.call("test_notification_rule", p_rule=second)
    assert owner.one("select count(*) from net.calls") == 1, "the first call sends both"
    owner.connection.execute("drop function net.http_post")
    owner.connection.execute("update public.deliveries set status = 'DELIVERED'")
    org.owner.call("test_notification_rule", p_rule=first)
