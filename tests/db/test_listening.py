"""A process that waits for the database rests, and misses nothing."""

import asyncio
import selectors
from collections.abc import Awaitable, Callable

import psycopg
import pytest

from stack.listening import wait_notified

Story = Callable[[psycopg.AsyncConnection, psycopg.AsyncConnection], Awaitable[None]]


class CountingSelector(selectors.DefaultSelector):
    """Counts how often the loop looks at its sockets."""

    looks = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.looks += 1
        return super().select(timeout)


async def told(url: str, story: Story) -> None:
    connect = psycopg.AsyncConnection.connect
    async with await connect(url, autocommit=True) as listener, await connect(url, autocommit=True) as speaker:
        await listener.execute("listen news")
        await story(listener, speaker)


def test_a_waiting_process_sleeps_until_its_timeout(db_url: str) -> None:
    selector = CountingSelector()

    async def story(listener: psycopg.AsyncConnection, _: psycopg.AsyncConnection) -> None:
        before = selector.looks
        assert not await wait_notified(listener, 2)
        assert selector.looks - before < 10, "psycopg's own wait looks forty times"

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.run(told(db_url, story))


def test_a_notification_wakes_the_waiting_process(db_url: str) -> None:
    async def story(listener: psycopg.AsyncConnection, speaker: psycopg.AsyncConnection) -> None:
        waiting = asyncio.create_task(wait_notified(listener))
        await speaker.execute("notify news")
        assert await waiting

    asyncio.run(told(db_url, story))


def test_a_notification_that_came_with_an_answer_is_not_missed(db_url: str) -> None:
    async def story(listener: psycopg.AsyncConnection, speaker: psycopg.AsyncConnection) -> None:
        await speaker.execute("notify news")
        await listener.execute("select 1")
        assert await wait_notified(listener)

    asyncio.run(told(db_url, story))


async def read_to_the_end(listener: psycopg.AsyncConnection) -> None:
    """Read on after a notification: PostgreSQL may deliver one that was sent shortly before this connection listened."""
    async with asyncio.timeout(60):
        while await wait_notified(listener):
            pass


def test_a_connection_that_ends_is_an_error(db_url: str) -> None:
    async def story(listener: psycopg.AsyncConnection, speaker: psycopg.AsyncConnection) -> None:
        await speaker.execute("select pg_terminate_backend(%s)", [listener.info.backend_pid])
        with pytest.raises(psycopg.OperationalError):
            await read_to_the_end(listener)

    asyncio.run(told(db_url, story))
