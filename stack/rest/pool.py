"""A small pool of pipelined PostgreSQL connections: first come, first served, with a limit on the wait."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import psycopg
from psycopg import pq

PREPARED_LIMIT = 256
FAILED = (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.PIPELINE_ABORTED)


class Statement(NamedTuple):
    """SQL with its bound values, all in text form.

    Statements are prepared once for each `scope`, which names the role and the state of the schema. PostgreSQL checks
    the right to execute a function that it inlines when it plans, so a plan made for one role must never serve another;
    and it keeps the types that parameters had at first, so a column of another type needs a statement of its own.
    """

    sql: bytes
    values: Sequence[bytes | None] = ()
    scope: str = ""


Key = tuple[str, bytes]


class DatabaseGone(Exception):
    """The connection broke; what was sent may or may not have been committed."""


class DatabaseError(Exception):
    """PostgreSQL refused a statement."""

    def __init__(self, result: pq.abc.PGresult) -> None:
        self.code = _field(result, pq.DiagnosticField.SQLSTATE) or "XX000"
        self.message = _field(result, pq.DiagnosticField.MESSAGE_PRIMARY) or ""
        self.details = _field(result, pq.DiagnosticField.MESSAGE_DETAIL)
        self.hint = _field(result, pq.DiagnosticField.MESSAGE_HINT)
        super().__init__(self.message)


class Connection:
    """A connection that runs pipelines of prepared statements, one pipeline at a time: a transaction takes one round trip.

    psycopg's own pipeline costs about half a millisecond of Python per transaction; its `pq` layer, driven by
    the event loop directly, costs a tenth of that.
    """

    def __init__(self, connection: psycopg.AsyncConnection) -> None:
        self._connection = connection
        self._pg = connection.pgconn
        self._loop = asyncio.get_running_loop()
        self._prepared: OrderedDict[Key, bytes] = OrderedDict()
        self._serial = 0
        self._results: list[pq.abc.PGresult] = []
        self._waiter: asyncio.Future[None] | None = None
        self._is_writing = False
        self.is_broken = False
        self._pg.nonblocking = 1
        self._pg.enter_pipeline_mode()
        self._socket = self._pg.socket
        self._loop.add_reader(self._socket, self._on_readable)

    @classmethod
    async def connect(cls, url: str, timeout_seconds: int = 5) -> "Connection":
        """Open a connection; the caller closes it."""
        connection = await psycopg.AsyncConnection.connect(
            url, autocommit=True, connect_timeout=timeout_seconds, application_name="runyard-rest"
        )
        return cls(connection)

    async def run(self, statements: Sequence[Statement]) -> list[pq.abc.PGresult]:
        """Send all statements at once; the results, or the first refusal."""
        if self.is_broken:
            raise DatabaseGone("connection is closed")
        self._results = []
        self._waiter = self._loop.create_future()
        try:
            marks = self._send(statements)
            await self._waiter
        except psycopg.Error as error:
            self.close()
            raise DatabaseGone(str(error)) from error
        except BaseException:
            # Cancelled while the server works: the connection's state is unknown.
            self.close()
            raise
        finally:
            self._waiter = None
        return self._read(marks)

    async def recover(self) -> None:
        """Leave a failed or unfinished transaction behind."""
        if not self.is_broken and self._pg.transaction_status != pq.TransactionStatus.IDLE:
            await self.run((Statement(b"rollback"),))

    def close(self) -> None:
        """Drop the connection; whatever it was doing is rolled back by the server."""
        if not self.is_broken:
            self.is_broken = True
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._pg.finish()
            self._wake(DatabaseGone("connection was closed"))

    def _send(self, statements: Sequence[Statement]) -> list[Key | None]:
        """Queue the pipeline; per expected result, the statement it prepares, or None where it executes."""
        pg, prepared = self._pg, self._prepared
        marks = self._forget_oldest()
        for sql, values, scope in statements:
            key = (scope, sql)
            name = prepared.get(key)
            if name is None:
                self._serial += 1
                name = prepared[key] = b"s%d" % self._serial
                pg.send_prepare(name, sql)
                marks.append(key)
            else:
                prepared.move_to_end(key)
            pg.send_query_prepared(name, values)
            marks.append(None)
        pg.pipeline_sync()
        self._flush()
        return marks

    def _flush(self) -> None:
        if self._pg.flush():
            if not self._is_writing:
                self._is_writing = True
                self._loop.add_writer(self._socket, self._on_writable)
        elif self._is_writing:
            self._is_writing = False
            self._loop.remove_writer(self._socket)

    def _on_writable(self) -> None:
        try:
            self._flush()
        except psycopg.Error as error:
            self._fail(error)

    def _on_readable(self) -> None:
        pg = self._pg
        try:
            pg.consume_input()
            if self._waiter is None:
                return
            while not pg.is_busy():
                result = pg.get_result()
                if result is None:
                    if pg.status == pq.ConnStatus.BAD:
                        raise psycopg.OperationalError("server closed the connection")
                    continue
                if result.status == pq.ExecStatus.PIPELINE_SYNC:
                    self._wake(None)
                    return
                self._results.append(result)
        except psycopg.Error as error:
            self._fail(error)

    def _fail(self, error: psycopg.Error) -> None:
        self.close() if self._waiter is None else self._wake(error)

    def _wake(self, error: Exception | None) -> None:
        if self._waiter is None or self._waiter.done():
            return
        if error is None:
            self._waiter.set_result(None)
        else:
            self._waiter.set_exception(error)

    def _read(self, marks: list[Key | None]) -> list[pq.abc.PGresult]:
        failure: pq.abc.PGresult | None = None
        answers = []
        for key, result in zip(marks, self._results, strict=True):
            is_failed = result.status in FAILED
            if is_failed and failure is None:
                failure = result
            if key is None:
                answers.append(result)
            elif is_failed:
                self._prepared.pop(key, None)
        if failure is not None:
            raise DatabaseError(failure)
        return answers

    def _forget_oldest(self) -> list[Key | None]:
        marks: list[Key | None] = []
        while len(self._prepared) > PREPARED_LIMIT:
            key, name = self._prepared.popitem(last=False)
            self._pg.send_query_params(b"deallocate " + name, None)
            marks.append(key)
        return marks


def _field(result: pq.abc.PGresult, field: pq.DiagnosticField) -> str | None:
    raw = result.error_field(field)
    return None if raw is None else raw.decode("utf-8", "replace")


class PoolTimeout(Exception):
    """No connection became free in time."""


class Pool:
    """Opens connections when they are needed, up to `size`, and hands them out in turn."""

    def __init__(self, url: str, size: int = 10, wait_seconds: float = 10.0) -> None:
        self._url = url
        self._size = size
        self._wait_seconds = wait_seconds
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._opening = 0
        self._waiters: deque[asyncio.Future[Connection | None]] = deque()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Borrow a connection; it is returned outside any transaction."""
        connection = await self.take()
        try:
            yield connection
        finally:
            await self.give_back(connection)

    async def take(self) -> Connection:
        """Borrow a connection; the caller gives it back."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_broken:
                return connection
            self._open.discard(connection)
        if self._occupied() < self._size:
            return await self._connect()
        return await self._wait()

    async def give_back(self, connection: Connection) -> None:
        """Return a connection to the next one waiting, or to the idle ones."""
        try:
            await connection.recover()
        except (DatabaseError, DatabaseGone):
            connection.close()
        if connection.is_broken:
            self._open.discard(connection)
            self._pass_on(None)
        elif not self._pass_on(connection):
            self._idle.append(connection)

    def close(self) -> None:
        """Close every connection, borrowed ones included."""
        for connection in self._open:
            connection.close()
        self._open.clear()
        self._idle.clear()

    def _occupied(self) -> int:
        self._open = {connection for connection in self._open if not connection.is_broken}
        return len(self._open) + self._opening

    async def _connect(self) -> Connection:
        self._opening += 1
        try:
            connection = await Connection.connect(self._url)
        except psycopg.Error as error:
            self._pass_on(None)
            raise DatabaseGone(str(error)) from error
        finally:
            self._opening -= 1
        self._open.add(connection)
        return connection

    async def _wait(self) -> Connection:
        waiter: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(self._wait_seconds):
                connection = await waiter
        except TimeoutError as error:
            self._abandon(waiter)
            raise PoolTimeout from error
        except asyncio.CancelledError:
            self._abandon(waiter)
            raise
        # None means that a place became free, not a connection.
        return connection if connection is not None else await self.take()

    def _abandon(self, waiter: asyncio.Future[Connection | None]) -> None:
        """Hand on what the waiter may have got in the same moment."""
        if waiter in self._waiters:
            self._waiters.remove(waiter)
        elif waiter.done() and not waiter.cancelled():
            connection = waiter.result()
            if not self._pass_on(connection) and connection is not None:
                self._idle.append(connection)

    def _pass_on(self, connection: Connection | None) -> bool:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return True
        return False
