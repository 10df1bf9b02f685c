"""Keeps the demo at work: a job now and then, through the API, as the person who is signed in."""

import asyncio
import itertools
import os
from typing import Any

import httpx

from cli.admin.api import Api
from cli.launcher.demo.content import ORGANISATION
from stack.errors import StackError

EVERY_SECONDS = 45
BUSY = 3
ROUND = (
    ("platform/network/vpc", "PLAN"),
    ("data/warehouse", "APPLY"),
    ("platform/network/vpc", "APPLY"),
    ("data/warehouse", "OUTPUT"),
    ("data/pipeline", "PLAN"),
    ("platform/network/vpc", "DRIFT"),
)
ONCE = (("platform/cluster", "APPLY"), ("ml/training/cluster", "PLAN"))
OPEN = "in.(AWAITING_APPROVAL,QUEUED,CLAIMED,PROCESSING)"


async def run() -> None:
    """Enqueue for ever; a refusal is waited out, since the stack heals by itself."""
    for path, kind in itertools.chain(ONCE, itertools.cycle(ROUND)):
        try:
            await enqueue(path, kind)
        except (StackError, httpx.HTTPError) as problem:
            print(f"{kind} {path}: {problem}", flush=True)  # noqa: T201 - this process's log
        if (path, kind) not in ONCE:
            await asyncio.sleep(EVERY_SECONDS)


async def enqueue(path: str, kind: str) -> None:
    """Add one job unless the queue is busy or the job is there already."""
    async with httpx.AsyncClient(base_url=os.environ["SUPABASE_URL"], timeout=30) as http:
        key = os.environ["SUPABASE_PUBLISHABLE_KEY"]
        person = await Api(http, key, key).sign_in_only(os.environ["DEMO_EMAIL"], os.environ["DEMO_PASSWORD"])
        module = await find(person, path)
        if module is None or await is_busy(person, module, path, kind):
            return
        await person.call("enqueue_job", org=module["org_id"], type=kind, module=module["id"], options={})


async def find(person: Api, path: str) -> dict[str, Any] | None:
    """Find a module of the demo; a person may have removed it."""
    mine = await person.call("my_organizations")
    org = next((one["id"] for one in mine if one["slug"] == ORGANISATION[1]), None)
    rows = await person.rows("modules", select="id,org_id", org_id=f"eq.{org}", path=f"eq.{path}", deleted_at="is.null")
    return rows[0] if rows else None


async def is_busy(person: Api, module: dict[str, Any], path: str, kind: str) -> bool:
    """Tell whether enough waits already, or a job that is shown once has been asked for."""
    if (path, kind) in ONCE:
        return bool(await person.rows("provision_jobs", select="id", module_id=f"eq.{module['id']}", limit="1"))
    waiting = await person.rows(
        "provision_jobs", select="id", org_id=f"eq.{module['org_id']}", status=OPEN, limit=str(BUSY + len(ONCE))
    )
    return len(waiting) >= BUSY + len(ONCE)


if __name__ == "__main__":
    asyncio.run(run())
