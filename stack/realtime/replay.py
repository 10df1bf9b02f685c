"""Stored broadcasts that a private channel asks for when it joins."""

from datetime import UTC, datetime, timedelta

import psycopg

from stack.realtime.database import Database
from stack.realtime.errors import JoinRefused
from stack.realtime.joins import Replay
from stack.realtime.messages import StoredMessage
from stack.realtime.queries import QUERIES

MAX_MESSAGES = 25


async def stored_messages(database: Database, topic: str, replay: Replay) -> list[StoredMessage]:
    """The newest stored broadcasts since a time, oldest first."""
    if not 1 <= replay.limit <= MAX_MESSAGES:
        raise JoinRefused("UnableToReplayMessages", "Replay params are not valid")
    try:
        since = (datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=replay.since_ms)).replace(tzinfo=None)
    except OverflowError as error:
        raise JoinRefused("UnableToReplayMessages", "Replay params are not valid") from error
    try:
        async with database.connection() as connection, connection.transaction():
            await connection.execute(QUERIES["become_service"])
            found = await connection.execute(
                QUERIES["stored_messages"], {"topic": topic, "since": since, "limit": replay.limit}
            )
            rows = await found.fetchall()
    except psycopg.Error as error:
        raise JoinRefused("UnableToReplayMessages", "Realtime was unable to replay messages") from error
    return [StoredMessage(key, name, event, payload or "{}", is_private=True) for key, name, event, payload in rows][
        ::-1
    ]
