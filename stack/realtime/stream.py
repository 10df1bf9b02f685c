"""The WAL as a stream of decoded messages, through a slot that vanishes with the connection."""

import asyncio
import secrets
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
from psycopg import AsyncConnection, generators, pq

from stack.listening import wait_readable
from stack.realtime.errors import StreamEnded
from stack.realtime.pgoutput import EPOCH_MICROSECONDS, Message, decode

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
