"""Following an apply, resource by resource: through the engine's event file, or the lines that it prints."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

_EVERY_SECONDS = 1.0
_LONGEST_LINE = 64 * 1024
_STATUS = {"apply_start": "RUNNING", "apply_complete": "SUCCEEDED", "apply_errored": "FAILED"}
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
# Printed since Terraform 0.12, in English only; a provisioner's output stands behind its resource's address.
_PRINTED = re.compile(
    r"(?P<address>.+?)(?: \(deposed object \w+\))?: "
    r"(?:(?P<verb>Creat|Modify|Destroy)ing\.\.\.|(?P<noun>Creation|Modifications|Destruction) complete after )"
)
_PRINTED_FAILURE = re.compile(r"│\s+with (?P<address>.+),$")
_VERBS = {
    "Creat": "create", "Modify": "update", "Destroy": "delete",
    "Creation": "create", "Modifications": "update", "Destruction": "delete",
}  # fmt: skip
_PULUMI = {"resourcePreEvent": "RUNNING", "resOutputsEvent": "SUCCEEDED", "resOpFailedEvent": "FAILED"}
_PULUMI_PARTS = {"create-replacement": "create", "delete-replaced": "delete", "discard-replaced": "delete"}


class Event(NamedTuple):
    """One change of one resource began, ended or failed."""

    address: str
    action: str
    status: str


def hcl_event(line: str) -> Event | None:
    """Read a machine event of OpenTofu."""
    event = json.loads(line)
    status = _STATUS.get(event.get("type"))
    return Event(event["hook"]["resource"]["addr"], event["hook"].get("action", ""), status) if status else None


def printed_event(line: str) -> Event | None:
    """Read a line that Terraform, which has no events beside its output, prints for people."""
    plain = _ANSI.sub("", line).rstrip()
    if failed := _PRINTED_FAILURE.match(plain):
        return Event(failed["address"], "", "FAILED")
    if not (found := _PRINTED.match(plain)):
        return None
    return Event(found["address"], _VERBS[found["verb"] or found["noun"]], "RUNNING" if found["verb"] else "SUCCEEDED")


def pulumi_event(line: str) -> Event | None:
    """Read an event of Pulumi; the one of a replacement between its two parts changes nothing."""
    event = json.loads(line)
    name = next((each for each in _PULUMI if each in event), None)
    metadata = event[name]["metadata"] if name else {"op": "same"}
    if not name or metadata["op"] in ("same", "replace"):
        return None
    return Event(metadata["urn"], _PULUMI_PARTS.get(metadata["op"], metadata["op"]), _PULUMI[name])


class ApplyEvents:
    """Marks the resources of a plan summary as their changes begin and end."""

    def __init__(
        self, summary: dict[str, Any], parse: Callable[[str], Event | None], on_change: Callable[[], None]
    ) -> None:
        self._parse = parse
        self._on_change = on_change
        self._tail = b""
        self._resources = {each["address"]: each for each in summary.get("resources", [])}
        # A replacement is done when both of its parts are.
        self._parts = {
            name: {"create", "delete"} for name, each in self._resources.items() if each["action"] == "replace"
        }

    def feed(self, data: bytes) -> None:
        """Read the whole lines of what came."""
        *lines, self._tail = (self._tail + data).split(b"\n")
        self._tail = self._tail[-_LONGEST_LINE:]
        changes = [self._take(line.decode(errors="replace")) for line in lines]
        if any(changes):
            self._on_change()

    def _take(self, line: str) -> bool:
        try:
            event = self._parse(line)
        except (ValueError, KeyError, TypeError, AttributeError):
            return False
        resource = self._resources.get(event.address) if event else None
        if event is None or resource is None:
            return False
        status = event.status
        if status == "SUCCEEDED" and (parts := self._parts.get(event.address)):
            parts.discard(event.action)
            status = "RUNNING" if parts else status
        # A warning names a resource as an error does: only one at work can fail.
        if resource.get("status") == status or (status == "FAILED" and resource.get("status") != "RUNNING"):
            return False
        resource["status"] = status
        return True


@asynccontextmanager
async def follow_file(read_from: Callable[[int], bytes | None], events: ApplyEvents) -> AsyncIterator[None]:
    """Read an event file while the block runs, and its rest afterwards; `read_from` takes an offset, and finds nothing at first."""
    offset = 0

    def read() -> None:
        nonlocal offset
        data = read_from(offset) or b""
        offset += len(data)
        events.feed(data)

    async def follow() -> None:
        while True:
            await asyncio.sleep(_EVERY_SECONDS)
            read()

    task = asyncio.create_task(follow())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        read()
