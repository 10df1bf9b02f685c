"""Delivery: brings a tab what it is to show; what many tabs are sent is encoded once.

Reflex encodes each update for each tab, and hands it over in a task of its own. Tabs that look at the same are sent the same
nearly always: they hold the very same objects (`Held.make`, `Held.once`), so that their updates are recognised as the same
without a look into them. It happens while the tab's state is locked, so no answer to a click overtakes it.
"""

import asyncio
from collections.abc import Hashable, Mapping
from typing import Any

import reflex as rx
from engineio.packet import MESSAGE
from engineio.packet import Packet as Frame
from reflex.state import StateUpdate
from reflex_base.constants import SocketEvent
from socketio.packet import EVENT

# As many as there are pages and filters at a time. Where each tab is sent something else nothing is gained, and nothing is kept.
MOST_KEPT = 32
SCALARS = frozenset({str, int, float, bool, type(None)})

Delta = Mapping[str, Mapping[str, Any]]


class Delivery:
    """Sends tabs what their states have to tell."""

    def __init__(self, app: rx.App) -> None:
        self._sockets = app.sio
        self._namespace = app.event_namespace.namespace
        self._frames: dict[Hashable, tuple[Delta, Frame]] = {}

    def forget(self) -> None:
        """Encode again from now on, before any tab is shown something again: a list of its own may have grown since."""
        self._frames.clear()

    async def send(self, root: rx.State, socket: str) -> None:
        """Send what differs in a tab's states, which are locked, and count it as sent."""
        delta = await root._get_resolved_delta()
        root._clean()
        connection = self._sockets.manager.eio_sid_from_sid(socket, self._namespace)
        if delta and connection is not None:
            await self._sockets.eio.send_packet(connection, self._frame(delta))
            # Write it before the next tab is handled.
            await asyncio.sleep(0)

    def _frame(self, delta: Delta) -> Frame:
        key = _same(delta)
        if key not in self._frames:
            if len(self._frames) >= MOST_KEPT:
                self._frames.clear()
            # With what was encoded, so that no other object gets its id.
            self._frames[key] = delta, self._encode(delta)
        return self._frames[key][1]

    def _encode(self, delta: Delta) -> Frame:
        data = [str(SocketEvent.EVENT), StateUpdate(delta=delta)]
        # Never binary: bytes are nothing that a state's var is sent as.
        packet = self._sockets.packet_class(EVENT, data=data, namespace=self._namespace, binary=False)
        return Frame(MESSAGE, packet.encode())


def _same(delta: Delta) -> Hashable:
    """Key by which two updates are the same: the same vars with the very same objects. Equal ones may still be encoded differently."""
    return frozenset(
        (state, name, type(value), value if type(value) in SCALARS else id(value))
        for state, values in delta.items()
        for name, value in values.items()
    )
