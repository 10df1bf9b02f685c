"""The WAL as a stream of decoded messages, through a slot that vanishes with the connection."""

import asyncio
import secrets
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import psycopg
from psycopg import AsyncConnection, generators, pq

from stack.listening import wait_readable
from stack.realtime.errors import StreamEnded

EPOCH_MICROSECONDS = 946_684_800_000_000  # 2000-01-01, PostgreSQL's zero, in Unix time


class Missing(Enum):
    """A large value that an UPDATE did not touch and therefore did not send."""

    UNCHANGED = "unchanged"


Value = str | None | Missing
Row = tuple[Value, ...]


class Field(NamedTuple):
    """A column as the stream announces it."""

    name: str
    is_key: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """A table as it is from here on; sent again after any change of its definition."""

    oid: int
    schema: str
    name: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Begin:
    """Start of a committed transaction."""

    xid: int
    committed_at_us: int


@dataclass(frozen=True, slots=True)
class RowChange:
    """One inserted, updated or deleted row."""

    type: str
    relation_oid: int
    new: Row | None
    old: Row | None
    has_key_only: bool


Message = Relation | Begin | RowChange


def decode(data: bytes) -> Message | None:
    """Read one message; kinds that carry nothing for subscribers are None."""
    kind = data[:1]
    if kind == b"I":
        return RowChange("INSERT", _relation_oid(data), _read_row(data, 6)[0], None, has_key_only=False)
    if kind == b"U":
        return _decode_update(data)
    if kind == b"D":
        return RowChange("DELETE", _relation_oid(data), None, _read_row(data, 6)[0], has_key_only=data[5:6] == b"K")
    if kind == b"B":
        _lsn, microseconds, xid = struct.unpack_from(">QqI", data, 1)
        return Begin(xid, microseconds + EPOCH_MICROSECONDS)
    if kind == b"R":
        return _decode_relation(data)
    return None


def _decode_update(data: bytes) -> RowChange:
    position, old, key_only = 5, None, False
    if data[position : position + 1] in (b"K", b"O"):
        key_only = data[position : position + 1] == b"K"
        old, position = _read_row(data, position + 1)
    new, _ = _read_row(data, position + 1)
    return RowChange("UPDATE", _relation_oid(data), new, old, key_only)


def _relation_oid(data: bytes) -> int:
    return int.from_bytes(data[1:5], "big")


def _read_row(data: bytes, position: int) -> tuple[Row, int]:
    count = int.from_bytes(data[position : position + 2], "big")
    position += 2
    values: list[Value] = []
    for _ in range(count):
        kind = data[position]
        position += 1
        if kind == 0x74:  # t: text follows
            size = int.from_bytes(data[position : position + 4], "big")
            values.append(data[position + 4 : position + 4 + size].decode())
            position += 4 + size
        else:
            values.append(Missing.UNCHANGED if kind == 0x75 else None)
    return tuple(values), position


def _read_text(data: bytes, position: int) -> tuple[str, int]:
    end = data.index(0, position)
    return data[position:end].decode(), end + 1


def _decode_relation(data: bytes) -> Relation:
    schema, position = _read_text(data, 5)
    name, position = _read_text(data, position)
    count = int.from_bytes(data[position + 1 : position + 3], "big")
    position += 3
    fields = []
    for _ in range(count):
        is_key = bool(data[position] & 1)
        column, position = _read_text(data, position + 1)
        fields.append(Field(column, is_key))
        position += 8
    return Relation(_relation_oid(data), schema or "pg_catalog", name, tuple(fields))


PUBLICATIONS = ("supabase_realtime", "supabase_realtime_messages_publication")
# The walsender writes values with these; the other connections parse them with the same.
TEXT_OPTIONS = "-c datestyle=ISO -c intervalstyle=postgres -c timezone=UTC -c extra_float_digits=1"
STATUS_SECONDS = 10.0
DATA_HEADER_BYTES = 25


@asynccontextmanager
async def open_stream(url: str) -> AsyncIterator["WalStream"]:
    """Connect, make a temporary slot and start streaming from now."""
    connection = await AsyncConnection.connect(
        url, autocommit=True, replication="database", options=TEXT_OPTIONS, application_name="realtime_replication"
    )
    try:
        slot = f"realtime_{secrets.token_hex(8)}"
        await _command(connection, f"CREATE_REPLICATION_SLOT {slot} TEMPORARY LOGICAL pgoutput NOEXPORT_SNAPSHOT")
        names = ",".join(PUBLICATIONS)
        await _command(
            connection,
            f"START_REPLICATION SLOT {slot} LOGICAL 0/0 (proto_version '1', publication_names '{names}')",
        )
        yield WalStream(connection)
    finally:
        await connection.close()


async def _command(connection: AsyncConnection, text: str) -> None:
    connection.pgconn.send_query(text.encode())
    for result in await connection.wait(generators.execute(connection.pgconn)):
        if result.status == pq.ExecStatus.FATAL_ERROR:
            raise StreamEnded(result.get_error_message())


class WalStream:
    """Reads decoded messages and keeps the server informed that somebody listens."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._pgconn = connection.pgconn
        self._pgconn.nonblocking = 1
        self._position = 0

    async def messages(self) -> AsyncIterator[Message]:
        """Every message from now on, until the connection breaks."""
        while True:
            size, data = self._pgconn.get_copy_data(1)
            if size > 0:
                message = self._handle(bytes(data))
                if message is not None:
                    yield message
            elif size == 0:
                await self._wait_readable()
            else:
                raise StreamEnded(self._pgconn.get_error_message() or "the server ended the stream")

    async def report_forever(self) -> None:
        """Send the position now and then: an unheard listener is dropped after wal_sender_timeout."""
        while True:
            await asyncio.sleep(STATUS_SECONDS)
            self._report()

    async def _wait_readable(self) -> None:
        await wait_readable(self._pgconn.socket)
        try:
            self._pgconn.consume_input()
        except psycopg.OperationalError as error:
            raise StreamEnded(str(error)) from error

    def _handle(self, data: bytes) -> Message | None:
        if data[:1] == b"w":
            self._position = max(self._position, struct.unpack_from(">Q", data, 9)[0])
            return decode(data[DATA_HEADER_BYTES:])
        if data[:1] == b"k":
            self._position = max(self._position, struct.unpack_from(">Q", data, 1)[0])
            if data[17]:
                self._report()
        return None

    def _report(self) -> None:
        """Nothing is ever resumed, so what was received counts as done."""
        now = int(time.time() * 1_000_000) - EPOCH_MICROSECONDS
        position = self._position
        try:
            self._pgconn.put_copy_data(struct.pack(">cQQQqB", b"r", position, position, position, now, 0))
            self._pgconn.flush()
        except psycopg.OperationalError as error:
            raise StreamEnded(str(error)) from error
