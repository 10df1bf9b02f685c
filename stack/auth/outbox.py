"""Mails that were kept instead of sent, for anyone who holds the stack's secrets; sealed, as a way in is in each."""

from dataclasses import dataclass
from datetime import datetime

import orjson
import psycopg

from stack.auth.sealing import Seal
from stack.auth.store import Transaction


@dataclass(frozen=True)
class Mail:
    """One mail: what it is, whom it is for, and the link in it."""

    kind: str
    email: str
    link: str
    code: str
    created_at: datetime


class Outbox:
    """Seals and opens mails with a key that is made of the stack's own secret."""

    def __init__(self, secret: str) -> None:
        self._seal = Seal("outbox", secret)

    async def keep(self, tx: Transaction, kind: str, email: str, link: str, code: str) -> None:
        """Add a mail; the oldest ones go."""
        content = self._seal.close(orjson.dumps({"link": link, "code": code}))
        await tx.do("insert_outbox", kind=kind, email=email, content=content)
        await tx.do("trim_outbox")

    def recent(self, database_url: str, limit: int = 20) -> list[Mail]:
        """The newest mails first; the URL must be the Auth service's or the superuser's."""
        query = "select kind, email, content, created_at from auth.runyard_outbox order by id desc limit %s"
        with psycopg.connect(database_url) as connection:
            rows = connection.execute(query, [limit]).fetchall()
        return [Mail(kind, email, **self._open(content), created_at=made) for kind, email, content, made in rows]

    def _open(self, content: str) -> dict[str, str]:
        opened: dict[str, str] = orjson.loads(self._seal.open(content))
        return opened
