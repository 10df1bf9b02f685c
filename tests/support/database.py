"""Databases for tests: a template with every migration applied, cloned for each test."""

import fcntl
import hashlib
import json
import subprocess
import sys
import uuid
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import psycopg.rows
from psycopg import sql
from psycopg.pq import TransactionStatus

from stack.bootstrap import bootstrap, bootstrap_files
from stack.migrations import migrate
from stack.postgres import SUPERUSER
from stack.secrets import LOGIN_ROLES, Secrets, load_secrets
from stack.settings import PROJECT, Settings
from tests.support.server import READY_FILE, server_settings
from tests.support.waiting import wait_until

# A session as it was after its login, but for what it has learnt of functions and tables.
FORGET = (
    "reset role; reset all; close all; unlisten *; select pg_advisory_unlock_all(); discard temp; discard sequences"
)
ROLE_SETTINGS = PROJECT / "stack" / "rest" / "sql" / "role_settings.sql"


@dataclass(frozen=True)
class Server:
    """The shared PostgreSQL of this test run."""

    settings: Settings
    secrets: Secrets

    def url(self, database: str, role: str = "postgres") -> str:
        """A URL for a login role; `postgres` owns the schema as on hosted and is not a superuser."""
        return self.settings.database_url(role, self.secrets.password(role), database)

    def template(self) -> str:
        """The name of a database with all of `supabase/migrations/`, made once per test run."""
        return self._make_once(f"template_{_fingerprint()}", with_migrations=True)

    def bare_template(self) -> str:
        """The name of a database with hosted's own objects and no migration."""
        return self._make_once("template_bare", with_migrations=False)

    def create_database(self, template: str) -> str:
        """Clone a template and return the clone's name."""
        name = f"test_{uuid.uuid4().hex[:16]}"
        self._execute(sql.SQL("create database {} template {} owner postgres strategy file_copy"), name, template)
        return name

    def drop_database(self, name: str) -> None:
        """Remove a clone, no matter who is still connected to it."""
        self._execute(sql.SQL("drop database if exists {} with (force)"), name)

    def _make_once(self, name: str, *, with_migrations: bool) -> str:
        with locked(self.settings.home / "template.lock"):
            if not self._has_database(name):
                building = f"{name}_building"
                self.drop_database(building)
                self._execute(sql.SQL("create database {} owner postgres"), building)
                bootstrap(self.url(building, SUPERUSER), self.secrets)
                if with_migrations:
                    migrate(self.url(building), PROJECT / "supabase")
                self._execute(sql.SQL("alter database {} rename to {}"), building, name)
        return name

    def _has_database(self, name: str) -> bool:
        with psycopg.connect(self.url("postgres", SUPERUSER)) as connection:
            return connection.execute("select from pg_database where datname = %s", [name]).fetchone() is not None

    def _execute(self, statement: sql.SQL, *names: str) -> None:
        with psycopg.connect(self.url("postgres", SUPERUSER), autocommit=True) as connection:
            connection.execute(statement.format(*map(sql.Identifier, names)))


class IdleConnections:
    """Sessions that the tests of a file with a shared database pass on: one that knows the functions is several times as quick."""

    def __init__(self) -> None:
        """Begin without any."""
        self._by_login: dict[str, list[psycopg.Connection]] = defaultdict(list)

    def take(self, login: str) -> psycopg.Connection | None:
        """One of this login role, if there is any."""
        found = self._by_login[login]
        return found.pop() if found else None

    def give(self, connection: psycopg.Connection) -> None:
        """Keep one for the next test, as if it were new; close it if it is in the middle of something."""
        if connection.closed or connection.info.transaction_status != TransactionStatus.IDLE:
            connection.close()
            return
        connection.autocommit = True
        connection.row_factory = psycopg.rows.tuple_row
        connection._notice_handlers.clear()
        connection.execute(FORGET)
        self._by_login[connection.info.user].append(connection)

    def close(self) -> None:
        """Close all."""
        for connection in (each for found in self._by_login.values() for each in found):
            connection.close()


@dataclass
class Database:
    """One test's own database, or its part of one."""

    server: Server
    name: str
    idle: IdleConnections | None = None
    opened: list[psycopg.Connection] = field(default_factory=list)

    @property
    def url(self) -> str:
        """The owner's URL."""
        return self.server.url(self.name)

    def url_as(self, role: str) -> str:
        """The URL of another login role."""
        return self.server.url(self.name, role)

    def connect(self, role: str = "postgres", claims: dict[str, Any] | None = None) -> psycopg.Connection:
        """Connect as a login role, or as an API role in the way REST does, with a token's claims."""
        login = role if role in LOGIN_ROLES else "authenticator"
        found = self.idle.take(login) if self.idle else None
        connection = found or psycopg.connect(self.url_as(login), autocommit=True)
        self.opened.append(connection)
        if login != role:
            become(connection, role, claims)
        return connection

    def close(self) -> None:
        """Close every connection this object opened, or leave it to others."""
        for connection in self.opened:
            if self.idle:
                self.idle.give(connection)
            else:
                connection.close()


def become(connection: psycopg.Connection, role: str, claims: dict[str, Any] | None = None) -> None:
    """Switch an `authenticator` connection to an API role and a token's claims, with the role's settings as REST does."""
    connection.execute("reset role")
    connection.execute("reset all")
    for owner, name, value in connection.execute(ROLE_SETTINGS.read_bytes()).fetchall():
        # Durations depend on the machine, so there are no time limits.
        if owner == role and not name.endswith("_timeout"):
            connection.execute("select set_config(%s, %s, false)", [name, value])
    connection.execute(sql.SQL("set role {}").format(sql.Identifier(role)))
    token = json.dumps({"role": role, **(claims or {})})
    connection.execute("select set_config('request.jwt.claims', %s, false)", [token])


def shared_server(folder: Path, owner_pid: int) -> Server:
    """The run's server; whichever test process comes first starts it."""
    with locked(folder / "server.lock"):
        if not (folder / READY_FILE).exists():
            _spawn(folder, owner_pid)
    port = json.loads((folder / READY_FILE).read_text())["port"]
    settings = server_settings(folder, port)
    return Server(settings, load_secrets(settings.secrets_file))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file lock; other test processes wait."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _spawn(folder: Path, owner_pid: int) -> None:
    log = folder / "server.log"
    command = [sys.executable, "-m", "tests.support.server", str(folder), str(owner_pid)]
    with log.open("ab") as output:
        process = subprocess.Popen(command, cwd=PROJECT, stdout=output, stderr=output, start_new_session=True)

    def is_ready() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"the test server ended with {process.returncode}:\n{log.read_text()}")
        return (folder / READY_FILE).exists()

    wait_until(is_ready, timeout_seconds=300)


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for file in [*bootstrap_files(), *sorted((PROJECT / "supabase" / "migrations").glob("*.sql"))]:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
