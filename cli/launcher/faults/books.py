"""Reads the database: whether somebody's job is running, and the ledger."""

import contextlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg

from cli.launcher.demo.content import ORGANISATION
from cli.launcher.faults.content import PATHS

_OPTIONS = "-c statement_timeout=5s"
_OTHERS = """
  select count(*) from private.live_jobs as q join public.provision_jobs as j on j.id = q.job_id
  left join public.organizations as o on o.id = j.org_id
  where q.stage = 'RUNNING' and not coalesce(o.slug = %s and j.module_path = any(%s), false)
"""
_ORGANISATION = "select id from public.organizations where slug = %s"
LEDGER = Path(__file__).with_name("ledger.sql").read_text(encoding="utf-8")


class Books:
    """Reads as the database's owner."""

    def __init__(self, url: str, since: float) -> None:
        self._url = url
        self.since = since
        self._organisation = ""

    def count_others(self) -> int:
        """Count the running jobs that are not the demo's own."""
        return int(self._one(_OTHERS, [ORGANISATION[1], PATHS]))

    def organisation(self) -> str:
        """The demo organisation's id, once the database has told it."""
        with contextlib.suppress(psycopg.Error):
            self._organisation = self._organisation or str(self._one(_ORGANISATION, [ORGANISATION[1]]))
        return self._organisation

    def ledger(self) -> dict[str, int] | None:
        """The ledger since the start; nothing while the database is away."""
        try:
            since = datetime.fromtimestamp(self.since, UTC)
            organisation = self._one(_ORGANISATION, [ORGANISATION[1]])
            found: dict[str, int] = self._one(LEDGER, {"org": organisation, "since": since})
        except psycopg.Error:
            return None
        return found

    def _one(self, query: str, values: Sequence[Any] | Mapping[str, Any]) -> Any:
        with psycopg.connect(self._url, autocommit=True, connect_timeout=3, options=_OPTIONS) as connection:
            row = connection.execute(query, values).fetchone()
        if row is None:
            raise psycopg.DataError("there is no demo organisation")
        return row[0]
