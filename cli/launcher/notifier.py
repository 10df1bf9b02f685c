"""What pg_net does on hosted Supabase: wakes the function that sends notifications when something is due."""

import httpx
import psycopg

from cli.launcher.journal import Journal

POLL_EVERY_SECONDS = 3.0
# The function sends for 40 s at most; whatever it could not finish is due again when its lease is over.
_TIMEOUT_SECONDS = 60.0
_OPTIONS = "-c statement_timeout=10s"
# Another project's database may not have it.
_IS_OURS = "select to_regprocedure('private.has_due_deliveries()') is not null"
_IS_DUE = "select private.has_due_deliveries()"


class Notifier:
    """Asks the function to send, while there is something to send."""

    def __init__(self, database_url: str, functions_url: str, journal: Journal) -> None:
        self._database_url = database_url
        self._functions_url = functions_url
        self._journal = journal
        self._said = ""

    def poll(self) -> None:
        """Wake the function if something is due; what goes wrong is written down once, and the next one tries again."""
        try:
            if self._is_due():
                answer = httpx.post(
                    f"{self._functions_url}/notify", json={"deliver": True}, timeout=_TIMEOUT_SECONDS, trust_env=False
                )
                answer.raise_for_status()
            self._said = ""
        except (psycopg.Error, httpx.HTTPError) as error:
            self._say(str(error).strip().split("\n", 1)[0])

    def _is_due(self) -> bool:
        with psycopg.connect(self._database_url, autocommit=True, connect_timeout=5, options=_OPTIONS) as connection:
            return connection.execute(_IS_OURS).fetchone() == (True,) and connection.execute(_IS_DUE).fetchone() == (
                True,
            )

    def _say(self, words: str) -> None:
        if words != self._said:
            self._said = words
            self._journal.note("notify", f"not sent, trying again: {words}")
