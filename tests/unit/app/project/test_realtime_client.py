"""The Realtime client reads a message as the kind that its event names, without trying the other kinds."""

import json
import logging
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from realtime import AsyncRealtimeClient
from realtime.message import PostgresChangesMessage

import app.project.realtime_client  # noqa: F401 - it sets how the client reads

pytestmark = pytest.mark.anyio
TOPIC = "realtime:org:1"
CHANGE = {
    "schema": "public", "table": "workers", "type": "UPDATE", "commit_timestamp": "2026-11-19T20:00:00Z", "errors": None,
    "columns": [{"name": "id", "type": "uuid"}], "record": {"id": "1"}, "old_record": {},
}  # fmt: skip


async def arriving(client: AsyncRealtimeClient, *messages: dict[str, Any]) -> AsyncIterator[str]:
    for message in messages:
        yield json.dumps({"topic": TOPIC, "ref": None, **message})
    # As if we had closed it: the client is not to take it for a server that went away.
    client._ws_connection = None


class Heard:
    """A channel that keeps its messages."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    def _handle_message(self, message: Any) -> None:
        self.messages.append(message)


async def test_a_message_is_read_as_the_kind_that_it_names(caplog: pytest.LogCaptureFixture) -> None:
    client, heard = AsyncRealtimeClient("ws://project.test/realtime/v1", "key", auto_reconnect=False), Heard()
    client.channels[TOPIC] = cast("Any", heard)
    messages = (
        {"event": "postgres_changes", "payload": {"ids": ["not a number"], "data": CHANGE}},
        {"event": "unheard of", "payload": {}},
        {"event": "postgres_changes", "payload": {"ids": [7], "data": CHANGE}},
    )
    client._ws_connection = cast("Any", arriving(client, *messages))
    with caplog.at_level(logging.ERROR):
        await client._listen()
    assert [type(message) for message in heard.messages] == [PostgresChangesMessage]
    assert [record.getMessage().count("[type=") for record in caplog.records] == [1, 1]
