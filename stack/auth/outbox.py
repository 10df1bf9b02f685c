"""Mails that were kept instead of sent, for whoever holds the stack's secrets."""

from dataclasses import dataclass
from datetime import datetime

import psycopg


@dataclass(frozen=True)
class Mail:
    """One mail: what it is, whom it is for, and the link in it."""

    kind: str
    email: str
    link: str
    code: str
    created_at: datetime


def recent_mails(database_url: str, limit: int = 20) -> list[Mail]:
    """The newest mails first; the URL must be the Auth service's or the superuser's."""
    query = "select kind, email, link, code, created_at from auth.runyard_outbox order by id desc limit %s"
    with psycopg.connect(database_url) as connection:
        return [Mail(*row) for row in connection.execute(query, [limit])]
