"""Keeps the demo at work: a job now and then, through the API, as the person who is signed in."""

import itertools
import os
import time
from typing import Any

from cli.client import auth
from cli.client.api import Api
from cli.client.http import Connection
from cli.errors import CommandError
from cli.launcher.demo.prepare import ORGANISATION

EVERY_SECONDS = 45
NETWORK = "platform/network/vpc"
# Plans whose pages show what a person decides about: an approval, an override of a policy check.
REVIEWED = ("platform/cluster", "platform/registry")
ONCE = (*REVIEWED, "ml/training/cluster")
ROUND = (
    ("ml/training/cluster", "PLAN"),
    ("platform/registry", "PLAN"),
    (NETWORK, "APPLY"),
    ("platform/cluster", "PLAN"),
    ("data/warehouse", "APPLY"),
    (NETWORK, "PLAN"),
    ("data/warehouse", "OUTPUT"),
    ("data/pipeline", "PLAN"),
    (NETWORK, "DRIFT"),
)
MOST = 3 + len(ONCE)
APPLIED = {"type": "eq.APPLY", "status": "eq.SUCCEEDED"}
OPEN = "in.(AWAITING_APPROVAL,QUEUED,CLAIMED,PROCESSING)"


def run() -> None:
    """Enqueue for ever; wait after a refusal, since the stack recovers on its own."""
    for path, kind in itertools.cycle(ROUND):
        try:
            enqueue(path, kind)
        except CommandError as problem:
            print(f"{kind} {path}: {problem}", flush=True)
        if path not in ONCE:
            time.sleep(EVERY_SECONDS)


def enqueue(path: str, kind: str) -> None:
    """Add one job unless the queue is busy or the job exists already."""
    connection, key = Connection(os.environ["SUPABASE_URL"]), os.environ["SUPABASE_PUBLISHABLE_KEY"]
    session = auth.sign_in(connection, key, os.environ["DEMO_EMAIL"], os.environ["DEMO_PASSWORD"])
    person = Api(connection, key, session.access_token)
    module = find(person, path)
    if module is not None and not is_busy(person, module, path):
        options = {"confirm": True} if path in REVIEWED else {}
        person.call("enqueue_job", org=module["org_id"], type=kind, module=module["id"], options=options)
    connection.close()


def find(person: Api, path: str) -> dict[str, Any] | None:
    """Find a module of the demo; a person may have removed it."""
    mine = person.call("my_organizations")
    org = next((one["id"] for one in mine if one["slug"] == ORGANISATION[1]), None)
    rows = person.rows("modules", select="id,org_id", org_id=f"eq.{org}", path=f"eq.{path}", deleted_at="is.null")
    return rows[0] if rows else None


def is_busy(person: Api, module: dict[str, Any], path: str) -> bool:
    """Return whether enough jobs wait already, or a job that is shown once has been requested or needs another first."""

    def count(**filters: str) -> int:
        org = f"eq.{module['org_id']}"
        return len(person.rows("provision_jobs", select="id", org_id=org, limit=str(MOST), **filters))

    if path in ONCE:
        # The cluster is planned with outputs of the network.
        is_early = path == "platform/cluster" and not count(module_path=f"eq.{NETWORK}", **APPLIED)
        return is_early or count(module_id=f"eq.{module['id']}") > 0
    return count(status=OPEN) >= MOST


if __name__ == "__main__":
    run()
