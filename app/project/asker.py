"""Asks the live queries of one organisation: once for everybody, again when they are old, and never more than a few at a time."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import structlog

from app.project.authorized_client import AuthorizedClient
from app.project.errors import AppError, Refused
from app.project.live_queries import Held, LiveQuery
from app.project.models import BrowserSession
from app.project.store import Link, OrgStore, version_of

AT_ONCE = 4
RETRY_SECONDS = 2.0
# In a storm of changes tabs always wait for something.
CALM_SECONDS = 0.15

log = structlog.get_logger(__name__)

Member = Callable[[], Awaitable[BrowserSession | None]]


class Turns:
    """Has the feeds of an organisation ask a few things at a time, and not while tabs wait for what is known already."""

    def __init__(self, calm: asyncio.Event) -> None:
        """`calm` is set while no tab waits to be shown something."""
        self._places = asyncio.Semaphore(AT_ONCE)
        self._calm = calm

    @contextlib.asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Wait for a turn, and have it."""
        async with self._places:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CALM_SECONDS):
                    await self._calm.wait()
            yield


class Asker:
    """Keeps the answers of an organisation's live queries true while its feed runs."""

    def __init__(self, store: OrgStore, authorized: AuthorizedClient, member: Member, turns: Turns) -> None:
        """Ask on behalf of the member that `member` names, when nobody in particular asks."""
        self._store = store
        self._authorized = authorized
        self._member = member
        self._turns = turns
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Ask old queries again until cancelled."""
        queries = self._store.live_queries
        try:
            while True:
                await queries.woken.wait()
                queries.woken.clear()
                for held in queries.old():
                    held.task = task = asyncio.create_task(self._renew(held))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
        finally:
            for task in tuple(self._tasks):
                task.cancel()

    async def answer(self, query: LiveQuery, session: BrowserSession) -> Held:
        """Answer a query: from what is held while changes arrive, else from the database."""
        held, began = self._store.live_queries.hold(query), time.monotonic()
        async with held.lock:
            is_watched = self._store.link is Link.LIVE
            if not held.is_answered or (not is_watched and held.asked_at < began):
                await self._ask(held, session)
        return held

    async def renew(self, query: LiveQuery, session: BrowserSession) -> None:
        """Ask the database for the answer of this moment."""
        held = self._store.live_queries.hold(query)
        async with held.lock:
            await self._ask(held, session)

    async def ask_all(self, session: BrowserSession, before_at: float) -> set[tuple[str, str]]:
        """Run every query on screen; returns rows that changed before `before_at` and of which nobody was notified."""
        missed: set[tuple[str, str]] = set()
        for held in self._store.live_queries.all():
            before = {str(row["id"]): row for row in held.rows()} if held.query.table else {}
            try:
                async with held.lock:
                    await self._ask(held, session)
            except Refused as error:
                # One page's link to a removed item must not end the feed of everybody else.
                log.info("live_query_refused", function=held.query.function, reason=error.message)
                continue
            missed |= {
                (held.query.table, str(row["id"]))
                for row in held.rows()
                if str(row["id"]) in before
                and version_of(before[str(row["id"])]) < version_of(row)
                and version_of(row).timestamp() < before_at
            }
        return missed

    async def _renew(self, held: Held) -> None:
        try:
            while held.is_old:
                await asyncio.sleep(held.pause(time.monotonic(), self._store.feeds))
                session = await self._member()
                if session is None:
                    return
                if not await self._is_answered(held, session):
                    await asyncio.sleep(RETRY_SECONDS)
        except Exception:
            log.exception("live_query_failed", function=held.query.function)
        finally:
            held.task = None

    async def _is_answered(self, held: Held, session: BrowserSession) -> bool:
        """Ask again; what was not answered stays old."""
        try:
            async with self._turns.take(), held.lock:
                await self._ask(held, session)
        except AppError as error:
            log.info("live_query_not_answered", function=held.query.function, reason=error.message)
            return False
        return True

    async def _ask(self, held: Held, session: BrowserSession) -> None:
        query, held.is_old, held.asked_at = held.query, False, time.monotonic()
        try:
            answer = await self._authorized.rpc(session, query.function, {"p_org": self._store.org_id, **query.named()})
        except AppError as error:
            held.is_old = True
            if isinstance(error, Refused) and not held.is_answered:
                self._store.live_queries.forget(query)
            raise
        finally:
            held.ended_at = time.monotonic()
        self._store.live_queries.take(held, answer)
