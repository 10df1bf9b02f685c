"""The doorbell: the messages that wake a loop."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.worker.fakes import HandClock
from worker.doorbell import Doorbell


def hear(event: str, message: Any) -> list[str]:
    """Return the events that the doorbell of the process `ours` notifies of a message."""
    heard: list[str] = []
    grant: Any = SimpleNamespace(instance_id="ours")
    Doorbell("http://localhost", lambda: grant, heard.append, HandClock())._notifier(event)(message)
    return heard


@pytest.mark.parametrize(("event", "payload"), [("wake", {"instance": "ours"}), ("directive", {})])
def test_a_message_for_this_process_or_for_all_of_its_runner_wakes(event: str, payload: dict[str, Any]) -> None:
    assert hear(event, {"type": "broadcast", "event": event, "payload": payload}) == [event]


def test_a_ring_for_another_process_of_the_runner_wakes_nobody_here() -> None:
    assert hear("wake", {"payload": {"instance": "theirs"}}) == []


@pytest.mark.parametrize("odd", [None, "x", {}, {"payload": None}, {"payload": {"again_ms": "soon"}}])
def test_an_odd_message_wakes_and_kills_nobody(odd: Any) -> None:
    assert hear("wake", odd) == ["wake"]
