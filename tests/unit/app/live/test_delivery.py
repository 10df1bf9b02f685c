"""An update for many tabs is encoded once, and each tab gets the same message that Reflex itself would have sent."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import reflex as rx
from reflex.state import StateUpdate

from app.app import app
from app.live.delivery import MOST_KEPT, Delivery
from app.project.hub import TabHub, View
from app.project.live_queries import live_query
from app.project.store import Changed
from app.runners.state.runners import RunnersState
from tests.support.waiting import eventually

NAME = RunnersState.get_full_name()
UPGRADE = [(b"connection", b"upgrade"), (b"upgrade", b"websocket"), (b"host", b"localhost")]


@dataclass
class Tab:
    """A tab that is connected to the app's own socket server without a network."""

    token: str
    frames: list[str] = field(default_factory=list)
    inbox: asyncio.Queue[dict[str, Any]] = field(default_factory=asyncio.Queue)

    async def send(self, message: dict[str, Any]) -> None:
        if message.get("text"):
            self.frames.append(message["text"])

    def updates(self) -> list[str]:
        return [frame for frame in self.frames if frame.startswith("42/_event,")]


async def until(is_so: Callable[[], object]) -> None:
    async def answer() -> object:
        return is_so()

    await eventually(answer, every_seconds=0.001)


@asynccontextmanager
async def open_tabs(count: int) -> AsyncIterator[list[Tab]]:
    tabs = [Tab(f"tab-{uuid.uuid4()}") for _ in range(count)]
    served = []
    for tab in tabs:
        query = f"token={tab.token}&EIO=4&transport=websocket".encode()
        scope = {"type": "websocket", "path": "/_event/", "query_string": query, "headers": UPGRADE}
        tab.inbox.put_nowait({"type": "websocket.connect"})
        tab.inbox.put_nowait({"type": "websocket.receive", "text": "40/_event,"})
        served.append(asyncio.create_task(app.sio.eio.handle_request(scope, tab.inbox.get, tab.send)))
    await until(lambda: all(any(frame.startswith("40/_event") for frame in tab.frames) for tab in tabs))
    for tab in tabs:
        # Its first words are its own address.
        async with app.state_manager.modify_state(rx.BaseStateToken(ident=tab.token, cls=RunnersState)) as root:
            root._clean()
    yield tabs
    for tab in tabs:
        tab.inbox.put_nowait({"type": "websocket.disconnect"})
    await asyncio.gather(*served, return_exceptions=True)


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Record everything encoded for a socket since the list was last cleared."""
    found: list[Any] = []
    encode = app.sio.packet_class.encode
    monkeypatch.setattr(app.sio.packet_class, "encode", lambda packet: found.append(packet.data) or encode(packet))
    return found


async def show(delivery: Delivery, tab: Tab, **values: Any) -> None:
    """Change a tab's state and send the change, as the fan-out does."""
    token = rx.BaseStateToken(ident=tab.token, cls=RunnersState)
    async with app.modify_state(token) as root:
        state = await root.get_state(RunnersState)
        for name, value in values.items():
            setattr(state, name, value)
        await delivery.send(root, app.event_namespace.token_to_sid[tab.token])


def said(frame: str) -> dict[str, Any]:
    """Return the changes of the runners page in an update."""
    told: dict[str, Any] = json.loads(frame.removeprefix("42/_event,"))[1]["delta"][NAME]
    return told


@pytest.mark.anyio
async def test_an_update_for_every_tab_is_encoded_once(encoded: list[Any]) -> None:
    delivery, shared = Delivery(app), {"a": "ry-changed"}
    async with open_tabs(20) as tabs:
        encoded.clear()
        for tab in tabs:
            await show(delivery, tab, flashes=shared, match_count=7)
        await until(lambda: all(tab.updates() for tab in tabs))
        assert len(encoded) == 1
        assert {len(tab.updates()) for tab in tabs} == {1}
        assert all(said(tab.updates()[0]) == {"flashes_rx_state_": shared, "match_count_rx_state_": 7} for tab in tabs)


@pytest.mark.anyio
async def test_a_tab_that_is_sent_something_else_gets_its_own() -> None:
    delivery, shared = Delivery(app), {"a": "ry-changed"}
    async with open_tabs(3) as (first, second, third):
        await show(delivery, first, flashes=shared, match_count=1)
        await show(delivery, second, flashes=shared, match_count=2)
        await show(delivery, third, flashes=dict(shared), is_filtered=True)
        await until(lambda: all(tab.updates() for tab in (first, second, third)))
        assert [said(tab.updates()[0]).get("match_count_rx_state_") for tab in (first, second, third)] == [1, 2, None]
        assert said(third.updates()[0]) == {"flashes_rx_state_": shared, "is_filtered_rx_state_": True}


@pytest.mark.anyio
async def test_true_and_one_are_sent_as_different_values() -> None:
    delivery = Delivery(app)
    async with open_tabs(2) as (first, second):
        await show(delivery, first, match_count=1)
        await show(delivery, second, match_count=True)
        await until(lambda: first.updates() and second.updates())
        assert [said(tab.updates()[0])["match_count_rx_state_"] for tab in (first, second)] == [1, True]
        assert second.updates()[0].count("true") == 1


@pytest.mark.anyio
async def test_a_list_that_has_grown_is_encoded_anew_after_the_round() -> None:
    delivery, own = Delivery(app), {"a": "ry-changed"}
    async with open_tabs(1) as (tab,):
        await show(delivery, tab, flashes=own)
        own["b"] = "ry-changed"
        delivery.forget()
        await show(delivery, tab, flashes=own)
        await until(lambda: len(tab.updates()) == 2)
        assert said(tab.updates()[1])["flashes_rx_state_"] == {"a": "ry-changed", "b": "ry-changed"}


@pytest.mark.anyio
async def test_little_is_kept_where_each_tab_is_sent_something_else() -> None:
    delivery = Delivery(app)
    async with open_tabs(1) as (tab,):
        for count in range(MOST_KEPT + 1):
            await show(delivery, tab, match_count=count + 1)
        assert len(delivery._frames) <= MOST_KEPT


@pytest.mark.anyio
async def test_a_tab_gets_the_very_frame_that_reflex_sends_and_gets_it_once() -> None:
    """The one that fails when an upgrade of Reflex or of its socket libraries sends updates in another way."""
    delivery, values = Delivery(app), {"flashes": {"ü": "ry-changed"}, "search": "„x“"}
    async with open_tabs(1) as (tab,):
        await show(delivery, tab, **values)
        await show(delivery, tab)
        delta = {NAME: {f"{name}_rx_state_": value for name, value in sorted(values.items())}}
        await app.event_namespace.emit_update(StateUpdate(delta=delta), tab.token)
        await until(lambda: len(tab.updates()) == 2)
        ours, theirs = tab.updates()
        assert said(ours) == said(theirs)
        assert (len(ours), sorted(ours)) == (len(theirs), sorted(theirs))


@pytest.mark.anyio
async def test_a_closed_tab_delays_nobody() -> None:
    delivery = Delivery(app)
    async with open_tabs(1) as (tab,):
        token = rx.BaseStateToken(ident=tab.token, cls=RunnersState)
        async with app.modify_state(token) as root:
            (await root.get_state(RunnersState)).match_count = 3
            await delivery.send(root, "nobody's socket")
        assert tab.updates() == []


def test_a_change_is_matched_once_for_all_tabs_with_the_same_view(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hub, asked = TabHub(None, None), []  # type: ignore[arg-type]
    view = View("", "", "", "org", NAME, frozenset({"counts"}), frozenset({live_query("list_runners", ("workers",))}))
    for number in range(20):
        hub.enter(replace(view, tab=f"same-{number}"))
    hub.enter(replace(view, tab="other", topics=frozenset({"log"}), queries=frozenset()))
    hears = View.hears
    monkeypatch.setattr(View, "hears", lambda view, changed: asked.append(view.tab) or hears(view, changed))
    found = list(hub.hearers("org", Changed({"counts": frozenset()})))
    assert (len(found), len(asked)) == (20, 2)
    assert [view.tab for view in hub.hearers("org", Changed({"log": frozenset()}))] == ["other"]
    assert list(hub.hearers("another", Changed({"counts": frozenset()}))) == []
