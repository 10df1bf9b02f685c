"""An apply marks the resources of its plan as they begin, end and fail, in whatever its engine reports."""

import json
from typing import Any

import pytest

from worker.engines.apply_events import ApplyEvents, hcl_event, printed_event, pulumi_event

BOLD, PLAIN = "\x1b[0m\x1b[1m", "\x1b[0m"


def printed(address: str, words: str) -> str:
    return f"{BOLD}{address}: {words}{PLAIN}{PLAIN}"


def hcl(kind: str, address: str, action: str) -> str:
    return json.dumps({"type": kind, "hook": {"resource": {"addr": address}, "action": action}})


def pulumi(kind: str, urn: str, op: str) -> str:
    return json.dumps({kind: {"metadata": {"urn": urn, "op": op}}})


ONE_DONE_ONE_BEGUN = {
    printed_event: [
        printed("t.a", "Creating..."),
        printed("t.a", "Creation complete after 0s [id=1]"),
        printed('t.b["x y"]', "Destroying... [id=2]"),
        f'{BOLD}t.b["x y"] (local-exec):{PLAIN} t.c: Creation complete after 0s',
    ],
    hcl_event: [
        "no event",
        hcl("apply_start", "t.a", "create"),
        hcl("apply_complete", "t.a", "create"),
        hcl("apply_start", 't.b["x y"]', "delete"),
        hcl("provision_progress", "t.c", "create"),
    ],
    pulumi_event: [
        pulumi("resourcePreEvent", "t.a", "create"),
        pulumi("resOutputsEvent", "t.a", "create"),
        pulumi("resourcePreEvent", 't.b["x y"]', "delete"),
        pulumi("resOutputsEvent", "t.c", "same"),
    ],
}
FAILURE = {
    printed_event: '\x1b[31m│\x1b[0m \x1b[0m  with t.b["x y"],',
    hcl_event: hcl("apply_errored", 't.b["x y"]', "delete"),
    pulumi_event: pulumi("resOpFailedEvent", 't.b["x y"]', "delete"),
}
REPLACEMENT = {
    printed_event: [
        printed("t.a", "Creating..."),
        printed("t.a", "Creation complete after 1s [id=3]"),
        printed("t.a (deposed object 52c18340)", "Destroying... [id=1]"),
        printed("t.a", "Destruction complete after 0s"),
    ],
    hcl_event: [
        hcl("apply_start", "t.a", "delete"),
        hcl("apply_complete", "t.a", "delete"),
        hcl("apply_start", "t.a", "create"),
        hcl("apply_complete", "t.a", "create"),
    ],
    pulumi_event: [
        pulumi("resourcePreEvent", "t.a", "create-replacement"),
        pulumi("resOutputsEvent", "t.a", "create-replacement"),
        pulumi("resOutputsEvent", "t.a", "replace"),
        pulumi("resOutputsEvent", "t.a", "delete-replaced"),
    ],
}
ENGINES = pytest.mark.parametrize("parse", [printed_event, hcl_event, pulumi_event])


def following(parse: Any, *actions: tuple[str, str]) -> tuple[ApplyEvents, list[dict[str, Any]], list[int]]:
    resources = [{"address": address, "action": action} for address, action in actions]
    changes: list[int] = []
    return ApplyEvents({"resources": resources}, parse, lambda: changes.append(1)), resources, changes


def lines(*texts: str) -> bytes:
    return "".join(f"{text}\n" for text in texts).encode()


@ENGINES
def test_each_resource_is_marked_as_its_change_begins_and_ends(parse: Any) -> None:
    events, resources, changes = following(parse, ("t.a", "create"), ('t.b["x y"]', "delete"), ("t.c", "create"))
    data = lines(*ONE_DONE_ONE_BEGUN[parse])
    for at in range(0, len(data), 7):
        events.feed(data[at : at + 7])
    assert [each.get("status") for each in resources] == ["SUCCEEDED", "RUNNING", None]
    assert len(changes) == 3
    events.feed(lines(FAILURE[parse], FAILURE[parse].replace('t.b["x y"]', "t.a") if parse is printed_event else ""))
    assert [each.get("status") for each in resources] == ["SUCCEEDED", "FAILED", None]


@ENGINES
def test_a_replacement_is_done_when_both_its_parts_are(parse: Any) -> None:
    events, resources, _ = following(parse, ("t.a", "replace"))
    *most, last = REPLACEMENT[parse]
    events.feed(lines(*most))
    assert resources[0]["status"] == "RUNNING"
    events.feed(lines(last))
    assert resources[0]["status"] == "SUCCEEDED"
