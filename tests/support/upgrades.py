"""Databases of released versions: dumped with what people do in them, and brought back under this version's stack.

`python -m tests.support.upgrades` (part of `make freeze`) makes a dump of the version that is about to be released and keeps
its runner's wheel: both are what the next versions are tested against.
"""

import gzip
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import httpx
import psycopg
from psycopg import sql

from stack.bootstrap import bootstrap
from stack.postgres import SUPERUSER, Cluster, find_cluster
from stack.secrets import load_secrets
from stack.settings import PROJECT, Settings
from tests.integration.worker_bench import Bench, find_tofu
from tests.support.ports import free_port
from tests.support.stack import Project, RunningStack, start_stack
from worker.version import __version__

RELEASES = PROJECT / "tests" / "upgrades"
OWNER = {"email": "owner@example.com", "password": "the owner of an older version's database"}
ORGANISATION, GREETING = "upgraded", "hello world"
# What names the machine that made the dump.
SCRUB = (
    "update public.worker_instances set hostname = 'build-host', facts = '{}'",
    "update auth.sessions set ip = null, user_agent = null",
    "update public.audit_events set address = null",
)


@dataclass(frozen=True)
class Release:
    """What is kept of a released version."""

    folder: Path

    @property
    def dump(self) -> Path:
        """Roles and database as SQL."""
        return self.folder / "database.sql.gz"

    def unpack_runner(self, target: Path) -> Path:
        """Unpack the runner's wheel, so that it can be started with `PYTHONPATH`."""
        [wheel] = self.folder.glob("runyard_worker-*.whl")
        with ZipFile(wheel) as archive:
            archive.extractall(target)
        return target


def kept_releases() -> list[Release]:
    """Every version whose database is kept."""
    return [Release(file.parent) for file in sorted(RELEASES.glob("*/database.sql.gz"))]


def keep(target: Path) -> Release:
    """Make what is kept of this version: the dump of a database with a history, and the runner."""
    release = Release(target)
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        home.chmod(0o755)
        with start_stack(home, "--no-dashboard", "--no-demo") as stack:
            live_there(stack, home / "bench")
            release.dump.write_bytes(gzip.compress(dump(stack).encode(), mtime=0))
    command = [sys.executable, "scripts/wheels.py", "--only", "runyard-worker", "--dist", str(target)]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True)
    return release


def live_there(project: Project, folder: Path) -> None:
    """Leave what an installation has: an owner, a module with state and a history, a runner, jobs done and waiting."""
    folder.mkdir()
    bench = open_as_owner(project, folder, is_new=True)
    try:
        bench.runner()
        module = bench.module()
        for kind in ("PLAN", "APPLY", "OUTPUT"):
            bench.finished(kind, module)
        for process in bench.processes:
            process.stop()
        bench.enqueue("PLAN", module)
    finally:
        bench.close()


def open_as_owner(project: Project, folder: Path, *, is_new: bool = False) -> Bench:
    """A bench whose person owns the organisation of the dump."""
    tofu = find_tofu()
    assert tofu is not None, "OpenTofu is not there; `make engines` provides it"
    bench = Bench(project, folder, tofu)
    path = "/auth/v1/signup" if is_new else "/auth/v1/token?grant_type=password"
    headers = {"apikey": project.publishable_key}
    answer = httpx.post(project.url + path, json=OWNER, headers=headers, timeout=30)
    bench.token = answer.raise_for_status().json()["access_token"]
    if is_new:
        bench.rpc("create_organization", p_name=ORGANISATION, p_slug=ORGANISATION)
    bench.org = bench.rows("organizations", slug=ORGANISATION)[0]["id"]
    return bench


def dump(stack: RunningStack) -> str:
    """Roles and database as SQL that names nobody's machine."""
    cluster = find_cluster(stack.settings, stack.secrets)
    with psycopg.connect(cluster.url, autocommit=True) as connection:
        for statement in SCRUB:
            connection.execute(statement.encode())
    roles = _call(cluster, "pg_dumpall", "--roles-only", "--no-role-passwords", "--dbname", cluster.url)
    text = _spared(roles) + _call(cluster, "pg_dump", "--dbname", cluster.url)
    for mark in (socket.gethostname(), str(PROJECT), str(stack.settings.home)):
        found = re.search(rf"^.*(?<!\w){re.escape(mark)}(?!\w).*$", text, re.MULTILINE)
        assert found is None, f"the dump names this machine: {found.group()[:300] if found else ''}"
    return text


def restore(home: Path, text: str) -> None:
    """Fill a fresh home's PostgreSQL with a dump, as an operator does; the next start migrates it."""
    settings = Settings(home=home, port_offset=0, postgres_base=free_port(), pg_fsync=False, gateway_base=1)
    secrets = load_secrets(settings.secrets_file)
    cluster = find_cluster(settings, secrets)
    cluster.prepare()
    cluster.start(home / "restore.log")
    try:
        bootstrap(cluster.url, secrets)
        other = settings.database_url(SUPERUSER, cluster.password, "template1")
        with psycopg.connect(other, autocommit=True) as connection:
            connection.execute("drop database postgres with (force)")
            connection.execute("create database postgres owner postgres template template0")
        fill(cluster, cluster.url, text)
    finally:
        cluster.stop()


def fill(cluster: Cluster, url: str, text: str) -> None:
    """Run a dump in an empty database."""
    _call(
        cluster, "psql", "--quiet", "--no-psqlrc", "--set", "ON_ERROR_STOP=1", "--output", "/dev/null", url, text=text
    )


@contextmanager
def upgraded(home: Path, text: str) -> Iterator[RunningStack]:
    """This version's stack on an older version's database."""
    restore(home, text)
    with start_stack(home, "--no-dashboard", "--no-demo") as stack:
        yield stack


def history(database_url: str) -> list[str]:
    """The migrations that a database says it has run."""
    with psycopg.connect(database_url) as connection:
        query = sql.SQL("select version from supabase_migrations.schema_migrations order by version")
        rows: list[Any] = connection.execute(query).fetchall()
    return [row[0] for row in rows]


def _spared(roles: str) -> str:
    """Roles that are there already are left as they are."""
    return re.sub(
        r"^CREATE ROLE (\S+);$",
        r"do $$ begin create role \1; exception when duplicate_object then null; end $$;",
        roles,
        flags=re.MULTILINE,
    )


def _call(cluster: Cluster, program: str, *arguments: str, text: str | None = None) -> str:
    command = [str(cluster.binaries / program), *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{program} ended with {done.returncode}: {done.stderr[-2000:]}"
    return done.stdout


def main() -> None:
    """Keep this version, in place of what was kept of it before."""
    target = RELEASES / __version__
    for old in (*target.glob("*.whl"), *target.glob("*.gz")):
        old.unlink()
    made = keep(target)
    for file in sorted(made.folder.iterdir()):
        sys.stdout.write(f"{file.relative_to(PROJECT)}: {file.stat().st_size >> 10} KiB\n")


if __name__ == "__main__":
    main()
