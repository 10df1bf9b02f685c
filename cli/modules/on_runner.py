"""Root modules as a runner lists them: for a repository that this machine cannot reach."""

import base64
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cli.client.organization import Row
from cli.command import Here
from cli.errors import CommandError
from cli.modules.bringing import TAKEN, Proposal
from wire.discovery import Root

Follow = Callable[[Row], Row]


def read_on_runner(here: Here, place: str, ref: str | None, group: str, follow: Follow) -> tuple[int, list[Proposal]]:
    """List the root modules on a runner; the number of its job, and the proposals."""
    made = here.api.call("request_survey", org=here.org.id, source=_source(place, ref, group))
    ended = follow(made)
    if ended["status"] != "SUCCEEDED":
        raise CommandError(f"The runner could not read {place}.", f"`runyard jobs show {made['number']}` shows why.")
    found = here.api.call("survey", org=here.org.id, number=made["number"])
    return int(made["id"]), [_proposal(number, each) for number, each in enumerate(found["roots"], 1)]


def create_on_runner(here: Here, job: int, chosen: list[Proposal]) -> list[dict[str, Any]]:
    """Create the modules of a reading, all or none."""
    made = here.api.call("bring_modules", job=job, folders=[each.root.folder for each in chosen])
    ids = {each["path"]: each["id"] for each in made}
    return [{**each.row, "id": ids[each.path]} for each in chosen]


def _source(place: str, ref: str | None, group: str) -> dict[str, Any]:
    file = Path(place)
    if not file.is_file():
        return {"group": group, "url": place, "ref": ref or ""}
    body = file.read_bytes()
    packed = {"archive": base64.b64encode(body).decode(), "sha256": hashlib.sha256(body).hexdigest()}
    return {"group": group, "name": file.name, **packed}


def _proposal(number: int, root: dict[str, Any]) -> Proposal:
    read = Root(
        root["folder"], root["engine"], root["backend"], root["required_version"], workspaces=tuple(root["workspaces"]),
        problem=root["problem"], reads=tuple(root.get("reads") or ()),
    )  # fmt: skip
    return Proposal(number, read, root["path"], TAKEN if root["module_id"] else read.problem)
