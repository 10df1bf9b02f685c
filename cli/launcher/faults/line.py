"""The way from one runner to the API, which can be cut as a network is: nothing passes, nothing is closed."""

import asyncio
import contextlib

PIECE = 65536


class Line:
    """Hands on every connection to a port of this machine; while it is cut, bytes wait, as packets do on a dead link."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._whole = asyncio.Event()
        self._whole.set()
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The address at which the runner reaches the API; only after `open`."""
        if self._server is None:
            raise RuntimeError("the line is not open")
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def open(self) -> None:
        """Listen, on any free port of the loopback address."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def close(self) -> None:
        """Release everything."""
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def cut(self) -> None:
        """Let nothing pass."""
        self._whole.clear()

    def mend(self) -> None:
        """Let everything pass, what waited first."""
        self._whole.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._open.add(task)
            task.add_done_callback(self._open.discard)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await self._hand_on(reader, writer)
        writer.close()

    async def _hand_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._whole.wait()
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        ways = [asyncio.ensure_future(self._pump(*way)) for way in ((reader, far_writer), (far_reader, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            far_writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(PIECE):
                await self._whole.wait()
                writer.write(data)
                await writer.drain()
