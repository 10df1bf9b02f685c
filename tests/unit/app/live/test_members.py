"""Membership is checked for as long as the process lives, whatever fails for one session."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.live import members
from app.project.hub import TabHub, View
from app.project.sessions import MemorySessions
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


async def test_a_view_that_cannot_be_ended_keeps_no_other_one_open(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    async def evict(_app: Any, view: View, _to: str) -> None:
        tried.append(view.tab)
        raise RuntimeError("no such state")

    hub = TabHub(cast("Any", SimpleNamespace(sessions=MemorySessions())), cast("Any", None))
    tabs = {tab: f"socket of {tab}" for tab in ("a", "b")}
    for tab, socket in tabs.items():
        hub.enter(View(tab, socket, f"sid of {tab}", "org", "page", frozenset()))
    monkeypatch.setattr(members, "runtime", lambda: SimpleNamespace(hub=hub, authorized=hub.authorized))
    monkeypatch.setattr(members, "evict", evict)
    monkeypatch.setattr(members, "PRUNE_SECONDS", 0.001)
    app = cast("Any", SimpleNamespace(event_namespace=SimpleNamespace(token_to_sid=tabs)))
    task = asyncio.create_task(members.check_members(app))

    async def are_all_tried() -> bool:
        return task.done() or set(tried) == set(tabs)

    await eventually(are_all_tried)
    assert not task.done()
    task.cancel()
