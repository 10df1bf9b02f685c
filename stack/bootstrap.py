"""Creates the things that a hosted project has before the first migration: roles, schemas, Auth tables, Realtime functions."""

from pathlib import Path

import psycopg
from psycopg import sql

from stack.secrets import LOGIN_ROLES, Secrets

FOLDER = Path(__file__).resolve().parent
# A part of the stack that needs database objects of its own keeps them in a `bootstrap` folder of its own.
SQL_FOLDERS = (FOLDER / "sql", *(FOLDER / part / "bootstrap" for part in ("rest", "auth", "realtime")))
LOCK_KEY = 5432154322


def bootstrap(superuser_url: str, secrets: Secrets) -> None:
    """Bring one database to what hosted offers; safe to run again and by two processes at once."""
    with psycopg.connect(superuser_url, options="-c client_min_messages=warning") as connection:
        connection.execute("select pg_advisory_xact_lock(%s)", [LOCK_KEY])
        for file in bootstrap_files():
            connection.execute(file.read_bytes())
        _set_passwords(connection, secrets)


def bootstrap_files() -> list[Path]:
    """The SQL files in the order they run."""
    return [file for folder in SQL_FOLDERS if folder.is_dir() for file in sorted(folder.glob("*.sql"))]


def _set_passwords(connection: psycopg.Connection, secrets: Secrets) -> None:
    """Hash here, so that no password can reach the server's log in clear."""
    for role in LOGIN_ROLES:
        verifier = connection.pgconn.encrypt_password(
            secrets.password(role).encode(), role.encode(), b"scram-sha-256"
        ).decode()
        statement = sql.SQL("alter role {} password {}").format(sql.Identifier(role), sql.Literal(verifier))
        connection.execute(statement)
