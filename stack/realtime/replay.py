"""Stored broadcasts that a private channel asks for when it joins."""

from datetime import UTC, datetime, timedelta

import psycopg

from stack.realtime.database import Database
from stack.realtime.errors import JoinRefused
from stack.realtime.feed import StoredMessage
from stack.realtime.joins import Replay

MAX_MESSAGES = 25
# Stored as a UTC timestamp without a zone. The rows are read as the service, as hosted does: that the reader may
# read the topic has been settled before.
STORED = """
  select id::text, topic, event, payload::text
  from realtime.messages
  where topic = %s and inserted_at >= %s and private and extension = 'broadcast' and event is not null
  order by inserted_at desc
  limit %s
"""
AS_SERVICE = "set local role service_role"


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
            await connection.execute(AS_SERVICE)
            rows = await (await connection.execute(STORED, [topic, since, replay.limit])).fetchall()
    except psycopg.Error as error:
        raise JoinRefused("UnableToReplayMessages", "Realtime was unable to replay messages") from error
    return [StoredMessage(key, name, event, payload or "{}", is_private=True) for key, name, event, payload in rows][
        ::-1
    ]
