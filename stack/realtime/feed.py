"""The one consumer of the WAL: reads, waits until visible, delivers; starts over when the stream breaks."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson
import psycopg
from psycopg import AsyncConnection

from stack.realtime.catalog import ReplicationCatalog
from stack.realtime.errors import StreamEnded
from stack.realtime.fanout import ChangeFanout, VisibilityGate
from stack.realtime.settings import RealtimeSettings
from stack.realtime.shape import Change, make_change
from stack.realtime.stream import TEXT_OPTIONS, Begin, Message, Relation, RowChange, WalStream, open_stream
from stack.realtime.subscriptions import PublishedTables, Subscriptions, published_tables


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A row of `realtime.messages`, to be broadcast."""

    id: str
    topic: str
    event: str
    payload: str
    is_private: bool

    def as_broadcast(self) -> dict[str, Any]:
        """The message that clients get; `meta` tells that it was stored."""
        return {
            "type": "broadcast",
            "event": self.event,
            "payload": orjson.Fragment(self.payload),
            "meta": {"id": self.id},
        }


log = logging.getLogger("stack.realtime")
MESSAGES = ("realtime", "messages")


@dataclass
class ReplicationFeed:
    """Runs for ever; `is_live` is true while changes arrive."""

    database_url: str
    replication_url: str
    settings: RealtimeSettings
    subscriptions: Subscriptions
    on_message: Callable[[StoredMessage], None]
    # The stream has started, or the publication is another one.
    on_tables: Callable[[], None]
    is_live: bool = False

    async def run(self) -> None:
        """Stream until cancelled, opening the stream again whenever it breaks."""
        while True:
            try:
                await self._stream_once()
            except (StreamEnded, psycopg.Error, OSError) as error:
                log.warning("WAL stream is down, trying again: %s", error)
            except Exception:
                log.exception("WAL stream failed, trying again")
            finally:
                self._set_live(is_live=False)
            await asyncio.sleep(self.settings.stream_retry_seconds)

    async def _stream_once(self) -> None:
        async with self._connection() as connection, open_stream(self.replication_url) as stream:
            backlog: asyncio.Queue[Message] = asyncio.Queue(self.settings.stream_backlog)
            session = FeedSession(connection, self)
            await session.refresh()
            self._set_live(is_live=True)
            await _until_first_failure(_fill(stream, backlog), stream.report_forever(), session.work(backlog))

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[AsyncConnection]:
        timeout = f"-c statement_timeout={int(self.settings.policy_timeout_seconds * 1000)}"
        connection = await AsyncConnection.connect(
            self.database_url,
            autocommit=True,
            options=f"{TEXT_OPTIONS} {timeout}",
            application_name="realtime_changes",
        )
        # A policy that fails is a warning of the database's: its author should find it here.
        connection.add_notice_handler(lambda notice: log.warning("%s", notice.message_primary))
        try:
            yield connection
        finally:
            await connection.close()

    def _set_live(self, *, is_live: bool) -> None:
        if is_live == self.is_live:
            return
        self.is_live = is_live
        # Nothing comes through while the stream is down, and nothing is replayed afterwards.
        (self.on_tables if is_live else self.subscriptions.clear)()


async def _until_first_failure(*parts: Coroutine[Any, Any, None]) -> None:
    """Run together; the first to end ends all, and its error is the one raised."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        await next(iter(done))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _fill(stream: WalStream, backlog: asyncio.Queue[Message]) -> None:
    """Reading stops while the backlog is full; the server then holds the WAL."""
    async for message in stream.messages():
        await backlog.put(message)


class FeedSession:
    """The parts that one stream needs while it lasts: relations as announced, the catalogue, the gate."""

    def __init__(self, connection: AsyncConnection, feed: ReplicationFeed) -> None:
        self._connection = connection
        self._feed = feed
        self._settings, self._subscriptions = feed.settings, feed.subscriptions
        self._catalog = ReplicationCatalog(connection)
        self._gate = VisibilityGate(connection)
        self._fanout = ChangeFanout(
            connection, self._gate, self._catalog, feed.subscriptions, feed.settings.max_record_bytes
        )
        self._relations: dict[int, Relation] = {}
        self._begin = Begin(0, 0)
        self._published: PublishedTables | None = None

    async def work(self, backlog: asyncio.Queue[Message]) -> None:
        """Take what has come, batch by batch; look at the publication now and then."""
        loop = asyncio.get_running_loop()
        refresh_at = loop.time() + self._settings.publication_seconds
        while True:
            if loop.time() >= refresh_at:
                await self.refresh()
                refresh_at = loop.time() + self._settings.publication_seconds
            try:
                async with asyncio.timeout_at(refresh_at):
                    first = await backlog.get()
            except TimeoutError:
                continue
            await self._batch(_take(first, backlog, self._settings.batch_changes))

    async def refresh(self) -> None:
        """Read what can change without an event in the stream: rights (a role's memberships), the publication.

        For the first time before clients learn that changes flow: anything published from then on is a change.
        """
        self._catalog.forget()
        published = await published_tables(self._connection)
        if self._published is not None and published != self._published:
            self._feed.on_tables()
        self._published = published

    async def _batch(self, messages: list[Message]) -> None:
        changes: list[Change] = []
        for message in messages:
            if isinstance(message, RowChange):
                change = await self._row(message)
                if change is not None:
                    changes.append(change)
            elif isinstance(message, Begin):
                self._begin = message
            elif isinstance(message, Relation):
                # The changes so far belong to the table as it was.
                await self._deliver(changes)
                changes = []
                self._relations[message.oid] = message
                self._catalog.forget(message.oid)
        await self._deliver(changes)

    async def _deliver(self, changes: list[Change]) -> None:
        """A batch that cannot be delivered is dropped and told: it must not stop the stream for everybody."""
        if not changes:
            return
        try:
            await self._fanout.deliver(changes)
        except psycopg.OperationalError:
            raise
        except Exception:
            log.exception("%d changes could not be delivered", len(changes))

    async def _row(self, message: RowChange) -> Change | None:
        relation = self._relations[message.relation_oid]
        if (relation.schema, relation.name) == MESSAGES:
            await self._gate.wait_for([self._begin.xid])
            self._announce(message, relation)
            return None
        if not self._subscriptions.interested(relation.schema, relation.name):
            return None
        if not self._catalog.knows(relation.oid):
            await self._gate.wait_for([self._begin.xid])
        table = await self._catalog.table(relation.oid, relation.schema, relation.name)
        return make_change(message, relation, table, self._begin)

    def _announce(self, message: RowChange, relation: Relation) -> None:
        if message.type != "INSERT" or message.new is None:
            return
        row = dict(zip((item.name for item in relation.fields), message.new, strict=True))
        stored = read_message(row)
        if stored is not None:
            self._feed.on_message(stored)


def read_message(row: Mapping[str, object]) -> StoredMessage | None:
    """A stored row as a broadcast; rows of other extensions are none."""
    topic, event, payload = row.get("topic"), row.get("event"), row.get("payload")
    if row.get("extension") != "broadcast" or not isinstance(topic, str) or not isinstance(event, str):
        return None
    if not isinstance(payload, str):
        return None
    return StoredMessage(str(row.get("id")), topic, event, payload, is_private=row.get("private") == "t")


def _take(first: Message, backlog: asyncio.Queue[Message], limit: int) -> list[Message]:
    messages = [first]
    while len(messages) < limit and not backlog.empty():
        messages.append(backlog.get_nowait())
    return messages
