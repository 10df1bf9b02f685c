"""Files that one job leaves for another: a saved plan, a folder that was sent to be planned."""

import base64
import hashlib

from worker.attempt.workspace import Workspace
from worker.errors import JobFailed


async def fetch_artifact(space: Workspace, name: str) -> bytes:
    """Read a file of the plan's job and compare its checksum."""
    reply = await space.context.server.get_artifact(space.ref, name)
    body = base64.b64decode(str(reply.get("body_base64") or ""))
    if reply.get("sha256") and hashlib.sha256(body).hexdigest() != reply["sha256"]:
        raise JobFailed(f"The saved {name} does not match its checksum.", code="checksum", hint="Plan again.")
    return space.keys.unseal(body)
