"""Replaces hosted Supabase's pg_cron, which the embedded stack lacks: runs the sweep."""

import psycopg

from cli.launcher.journal import Journal

# As the job that the migrations give to pg_cron.
SWEEP_EVERY_SECONDS = 10.0
_OPTIONS = "-c statement_timeout=30s"
# Another project's database may have neither; one with pg_cron sweeps on its own.
_IS_OURS = """
  select to_regprocedure('private.sweep_in_parts(jsonb)') is not null
    and not exists (select from pg_catalog.pg_extension where extname = 'pg_cron')
"""
_SWEEP = "call private.sweep_in_parts()"


class Sweeper:
    """Sweeps now and then, as the database's owner."""

    def __init__(self, url: str, journal: Journal) -> None:
        self._url = url
        self._journal = journal
        self._said = ""
        self._connection: psycopg.Connection | None = None

    def poll(self) -> None:
        """Sweep; a failure is noted once, and the next sweep tries again."""
        try:
            self._say(self._sweep() or "")
        except psycopg.Error as error:
            self._say(str(error).strip().split("\n", 1)[0])

    def _sweep(self) -> str | None:
        """Sweep, and return which part failed and why, if any did."""
        connection = self._connected()
        if connection.execute(_IS_OURS).fetchone() != (True,):
            return None
        done = connection.execute(_SWEEP).fetchone()
        return done[0].get("failed") if done else None

    def _connected(self) -> psycopg.Connection:
        """Stay connected: a sweep in a new session costs the server forty times as much."""
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self._url, autocommit=True, connect_timeout=5, options=_OPTIONS)
        return self._connection

    def close(self) -> None:
        """Disconnect."""
        if self._connection is not None:
            self._connection.close()

    def _say(self, words: str) -> None:
        if words and words != self._said:
            self._journal.note("sweep", f"not done, trying again: {words}")
        self._said = words
