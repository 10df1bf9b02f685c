"""A durable PostgreSQL of the benchmark's own: fsync and synchronous_commit on, one database for each contestant."""

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

from benchmarks import processes
from stack.bootstrap import bootstrap
from stack.migrations import migrate
from stack.postgres import SUPERUSER, Cluster, find_cluster
from stack.secrets import Secrets, load_secrets
from stack.settings import PROJECT, Settings
from tests.support.ports import free_port

CROWD = Path(__file__).parent / "sql" / "crowd.sql"
TEMPLATE = "bench_template"


@dataclass(frozen=True)
class Bench:
    """The server, and how to get a database on it."""

    cluster: Cluster
    secrets: Secrets

    def url(self, database: str, role: str = SUPERUSER) -> str:
        return self.cluster.settings.database_url(role, self.secrets.password(role), database)

    def database(self, template: str = TEMPLATE) -> str:
        """A new database; `template0` for those who bring their own schema."""
        name = f"bench_{uuid.uuid4().hex[:12]}"
        self._execute(sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template)))
        return name

    def drop(self, name: str) -> None:
        self._execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))

    def connect(self, database: str) -> psycopg.Connection:
        return psycopg.connect(self.url(database), autocommit=True)

    def pgbench(self) -> Path | None:
        """The server's own pgbench, or another one on the PATH."""
        beside = self.cluster.binaries / "pgbench"
        found = shutil.which("pgbench")
        return beside if beside.exists() else Path(found) if found else None

    def cpu_seconds(self) -> float:
        """CPU time that the server and its processes have used."""
        assert self.cluster.pid
        return processes.cpu_seconds(processes.family(self.cluster.pid))

    def _execute(self, statement: sql.Composed) -> None:
        with self.connect("postgres") as connection:
            connection.execute(statement)


@contextmanager
def serve() -> Iterator[Bench]:
    """Start, migrate a template, stop, remove."""
    with tempfile.TemporaryDirectory(prefix="runyard-bench-") as folder:
        home = Path(folder)
        home.chmod(0o755)
        settings = Settings(home=home, postgres_base=free_port(), port_offset=0, pg_max_connections=200)
        secrets = load_secrets(settings.secrets_file)
        cluster = find_cluster(settings, secrets)
        cluster.prepare()
        cluster.start(home / "postgres.log")
        try:
            bench = Bench(cluster, secrets)
            _make_template(bench)
            yield bench
        finally:
            cluster.remove()


def load() -> list[float]:
    """The machine's load: how much to believe of what was measured."""
    return [round(value, 1) for value in os.getloadavg()]


def _make_template(bench: Bench) -> None:
    bootstrap(bench.cluster.url, bench.secrets)
    with bench.connect("postgres") as connection:
        connection.execute(sql.SQL("create database {} owner postgres").format(sql.Identifier(TEMPLATE)))
    bootstrap(bench.url(TEMPLATE), bench.secrets)
    migrate(bench.url(TEMPLATE, "postgres"), PROJECT / "supabase")
    with bench.connect(TEMPLATE) as connection:
        connection.execute(CROWD.read_bytes())
        connection.execute("select bench.add_runners(16, 256), bench.add_modules(1000), bench.add_log_days(30)")
