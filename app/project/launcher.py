"""Calls the launcher of the embedded stack, where there is one: it alone can break the demo, and answers one line of JSON."""

import asyncio
import json
from pathlib import Path
from typing import Any

from app.project.errors import NotThere, Refused, Unreachable

ANSWER_SECONDS = 20.0
LONGEST_ANSWER = 1024 * 1024


async def ask(socket: Path | None, question: dict[str, str]) -> dict[str, Any]:
    """Send a request, and return the answer; a refusal keeps its own message."""
    if socket is None:
        raise NotThere("There is no demo here.", "`make up` or `runyard up` starts one on its own machine.")
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            answer = json.loads(await _exchange(socket, json.dumps(question).encode() + b"\n"))
    except (OSError, ValueError, TimeoutError) as error:
        raise Unreachable("The demo's launcher does not answer.", "Its runners may be left out here.") from error
    if not isinstance(answer, dict) or "refused" in answer:
        said = answer if isinstance(answer, dict) else {}
        raise Refused(str(said.get("refused", "")), str(said.get("hint", "")))
    return answer


async def _exchange(socket: Path, line: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(socket, limit=LONGEST_ANSWER)
    try:
        writer.write(line)
        await writer.drain()
        return await reader.readline()
    finally:
        writer.close()
