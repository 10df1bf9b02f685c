"""What pg_cron does on hosted Supabase, where there is no pg_cron: lets time pass when no runner is left to send heartbeats."""

import psycopg

from cli.launcher.journal import Journal

# As the job that the migrations give to pg_cron.
SWEEP_EVERY_SECONDS = 10.0
_OPTIONS = "-c statement_timeout=30s -c lock_timeout=5s"
# Another project's database may have neither; one with pg_cron sweeps by itself.
_IS_OURS = """
  select to_regprocedure('private.sweep()') is not null
    and not exists (select from pg_catalog.pg_extension where extname = 'pg_cron')
"""
_SWEEP = "select private.sweep() where private.is_due('sweep', interval '5 seconds')"


class Sweeper:
    """Sweeps now and then, as the database's owner; a heartbeat that has just done so counts."""

    def __init__(self, url: str, journal: Journal) -> None:
        self._url = url
        self._journal = journal
        self._said = ""

    def poll(self) -> None:
        """Sweep if it is due; what goes wrong is written down once, and the next one tries again."""
        try:
            with psycopg.connect(self._url, autocommit=True, connect_timeout=5, options=_OPTIONS) as connection:
                is_ours = connection.execute(_IS_OURS).fetchone()
                if is_ours == (True,):
                    connection.execute(_SWEEP)
            self._said = ""
        except psycopg.Error as error:
            self._say(str(error).strip().split("\n", 1)[0])

    def _say(self, words: str) -> None:
        if words != self._said:
            self._said = words
            self._journal.note("sweep", f"not done, trying again: {words}")
