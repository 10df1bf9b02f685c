"""The real supabase-js under Deno, driven line by line."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.stack import Project

SCRIPT = Path(__file__).parents[1] / "js" / "agent.ts"
PATIENCE = 180.0


@dataclass
class Agent:
    """One client in one process."""

    process: Process
    heard: list[dict[str, Any]] = field(default_factory=list)

    async def do(self, op: str, **arguments: Any) -> Any:
        """Give a command and return its result."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"op": op, **arguments}).encode() + b"\n")
        await self.process.stdin.drain()
        answer = await self.hear(lambda event: event["kind"] in ("done", "failed") and event["op"] == op)
        assert answer["kind"] == "done", answer
        return answer["result"]

    async def hear(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first event, past or next, that fulfils a condition; it is removed."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            while True:
                for event in self.heard:
                    if condition(event):
                        self.heard.remove(event)
                        return event
                line = await self.process.stdout.readline()
                assert line, "the client ended"
                self.heard.append(json.loads(line))

    async def kind(self, kind: str, name: str) -> dict[str, Any]:
        """The next event of one kind on one channel."""
        return await self.hear(lambda event: event["kind"] == kind and event.get("name") == name)

    async def subscribed(self, name: str, **arguments: Any) -> None:
        """Subscribe; with row changes, wait until they flow."""
        await self.do("subscribe", name=name, **arguments)
        event = await self.kind("status", name)
        assert event["status"] == "SUBSCRIBED", event
        if arguments.get("bindings"):
            message = (await self.kind("system", name))["message"]
            assert message["status"] == "ok", message


@asynccontextmanager
async def start_agent(project: Project) -> AsyncIterator[Agent]:
    """Run supabase-js against a project."""
    deno = Path(sys.prefix) / "bin" / "deno"
    process = await asyncio.create_subprocess_exec(
        deno, "run", "--quiet", "--frozen", "--allow-net", "--allow-env", SCRIPT,
        project.url, project.publishable_key,
        stdin=PIPE, stdout=PIPE, cwd=SCRIPT.parent, env=os.environ | {"DENO_NO_UPDATE_CHECK": "1"}, limit=8_000_000,
    )  # fmt: skip
    agent = Agent(process)
    try:
        await agent.hear(lambda event: event["kind"] == "ready")
        yield agent
    finally:
        if process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(10):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
