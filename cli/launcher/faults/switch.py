"""The socket for the dashboard's requests: one line of JSON in, one out. It is in the folder that only this user opens."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cli.errors import CommandError, Refused
from cli.launcher.faults.breaker import Breaker
from cli.launcher.faults.work import Work

ANSWER_SECONDS = 15.0
LONGEST_LINE = 65536
# A socket's name may be no longer than this, on every system.
LONGEST_PATH = 100


class Switch:
    """Listens while the demo runs. Anyone who asks to break something shows their own token, and the database judges it."""

    def __init__(self, path: Path, breaker: Breaker, work_of: Callable[[str], Work]) -> None:
        self._path = path
        self._breaker = breaker
        self._work_of = work_of
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen; what an earlier start left there goes."""
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, self._path, limit=LONGEST_LINE)
        self._path.chmod(0o600)

    async def close(self) -> None:
        """Undo what is broken and stop listening."""
        if self._server is not None:
            self._server.close()
        await self._breaker.close()
        self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await self._answer(await reader.readline())
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        except (OSError, TimeoutError, ValueError):
            pass  # the caller disconnected, or sent more than fits
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            asked = json.loads(line)
            if not isinstance(asked, dict) or asked.get("do") not in ("read", "break"):
                raise Refused(
                    "That is not a question.", 'Ask {"do": "read"} or {"do": "break", "kind": …, "token": …}.'
                )
            if asked["do"] == "break":
                await self._breaker.begin(str(asked.get("kind")), self._work_of(str(asked.get("token"))))
            return await self._breaker.read()
        except CommandError as error:
            return {"refused": error.message, "hint": error.hint}
        except ValueError:
            return {"refused": "That is not JSON.", "hint": "Send one line."}


def socket_path(folder: Path) -> Path | None:
    """Return the path of the socket; None when the folder's name is too long for one."""
    path = folder / "faults.sock"
    return path if len(os.fsencode(path)) <= LONGEST_PATH else None
