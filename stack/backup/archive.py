"""The content of a backup: the files with secrets, the database's roles, and a dump of one snapshot of the database.

A logical dump and not a copy of the data folder: it also fits another machine type and a newer PostgreSQL.
"""

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from stack.backup.sealed import PIECE, read_facts, read_sealed, write_sealed
from stack.errors import Missing, StackError, Taken, WrongVersion
from stack.migrations import applied_versions, list_migrations
from stack.postgres import SUPERUSER, Cluster, find_cluster, major_version
from stack.secrets import Secrets, write_private
from stack.settings import Settings, command

DATABASE = "postgres"
LENGTH_BYTES = 8


@dataclass(frozen=True)
class Restored:
    """The result of a restore."""

    created_at: str


def back_up(settings: Settings, cluster: Cluster, target: Path, passphrase: str) -> int:
    """Write the backup whole or not at all; its size. The database answers all the while."""
    if target.exists():
        raise Taken(f"{target} exists already.", "Name another file, so that no backup is lost.")
    facts = {
        "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "postgres": major_version(cluster.binaries),
        "migrations": applied_versions(cluster.url),
    }
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with open(part, "wb", opener=_owner_alone) as file:
            write_sealed(file, passphrase, facts, _content(settings, cluster))
            file.flush()
            os.fsync(file.fileno())
        part.rename(target)
    except OSError as error:
        raise StackError(
            f"The backup could not be written to {target}: {error.strerror}.", "Nothing was kept."
        ) from error
    finally:
        part.unlink(missing_ok=True)
    return target.stat().st_size


def restore(settings: Settings, source: Path, passphrase: str) -> Restored:
    """Make the installation of a backup in a state folder that has no database yet."""
    try:
        file = source.open("rb")
    except OSError as error:
        raise Missing(f"{source} cannot be read: {error.strerror}.") from error
    with file:
        header, facts = read_facts(file)
        _check_migrations(settings, facts)
        content = read_sealed(file, passphrase, header, facts)
        document, rest = _split(content)
        secrets = Secrets.model_validate_json(document["files"][settings.secrets_file.name])
        cluster = find_cluster(settings, secrets)
        _check_target(cluster, facts)
        _load(cluster, document, rest)
    return Restored(str(facts.get("created_at")))


def _content(settings: Settings, cluster: Cluster) -> Iterator[bytes]:
    files = {path.name: path.read_text() for path in settings.private_files if path.exists()}
    # Passwords are in the secrets, and every start sets them again.
    roles = _run(cluster, "pg_dumpall", "--roles-only", "--no-role-passwords")
    document = json.dumps({"files": files, "roles": roles}).encode()
    yield len(document).to_bytes(LENGTH_BYTES, "big") + document
    with _tool(cluster, "pg_dump", "--format=custom", "--create", DATABASE, stdout=subprocess.PIPE) as process:
        yield from iter(lambda: _pipe(process.stdout).read(PIECE), b"")


def _split(content: Iterator[bytes]) -> tuple[dict[str, Any], Iterator[bytes]]:
    """The document at the beginning, and everything after it."""
    held = next(content)
    size = LENGTH_BYTES + int.from_bytes(held[:LENGTH_BYTES], "big")
    while len(held) < size:
        held += next(content)
    document: dict[str, Any] = json.loads(held[LENGTH_BYTES:size])
    return document, _after(held[size:], content)


def _after(first: bytes, content: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from content


def _check_migrations(settings: Settings, facts: dict[str, Any]) -> None:
    known = {migration.version for migration in list_migrations(settings.supabase_folder / "migrations")}
    newer = [version for version in facts.get("migrations", []) if version not in known]
    if newer:
        raise WrongVersion(
            f"The backup is of a newer Runyard: this one does not have its migration {newer[-1]}.",
            "Install the version that made the backup, or a later one. Nothing was changed.",
        )


def _check_target(cluster: Cluster, facts: dict[str, Any]) -> None:
    ours = major_version(cluster.binaries)
    if int(facts.get("postgres", 0)) > ours:
        raise WrongVersion(
            f"The backup is of PostgreSQL {facts['postgres']}; {cluster.binaries} is PostgreSQL {ours}.",
            "Set RUNYARD_PG_BIN to the bin folder of that version or a later one. Nothing was changed.",
        )
    if cluster.data.exists() and any(cluster.data.iterdir()):
        raise Taken(
            f"{cluster.data} has a database already; nothing was changed.",
            f"Restore into another folder (RUNYARD_HOME), or delete this one first: `{command('reset')}`.",
        )


def _load(cluster: Cluster, document: dict[str, Any], dump: Iterable[bytes]) -> None:
    """Fill a data folder beside the final one; only a complete one gets the name that a start looks for."""
    fresh = replace(cluster, data=cluster.data.with_name("postgres.restoring"))
    fresh.remove()
    try:
        fresh.prepare()
        with _served(fresh):
            # Without the one that initdb made already.
            roles = document["roles"].replace(f"CREATE ROLE {SUPERUSER};\n", "")
            _run(fresh, "psql", "--set=ON_ERROR_STOP=1", "--quiet", "template1", given=roles)
            _restore_database(fresh, dump)
        for path in cluster.settings.private_files:
            if path.name in document["files"]:
                write_private(path, document["files"][path.name])
        if cluster.data.exists():
            cluster.data.rmdir()
        fresh.data.rename(cluster.data)
    finally:
        fresh.remove()


@contextmanager
def _served(cluster: Cluster) -> Iterator[None]:
    log = cluster.settings.log_folder
    log.mkdir(parents=True, exist_ok=True)
    process = cluster.start(log / "postgres.log")
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def _restore_database(cluster: Cluster, dump: Iterable[bytes]) -> None:
    options = ("--create", "--clean", "--if-exists", "--exit-on-error", "--dbname=template1")
    with _tool(cluster, "pg_restore", *options, stdin=subprocess.PIPE) as process:
        target = _pipe(process.stdin)
        try:
            for piece in dump:
                target.write(piece)
            target.close()
        except BrokenPipeError:
            pass  # it ended early, and its own words are the reason


def _run(cluster: Cluster, name: str, *arguments: str, given: str = "") -> str:
    with tempfile.TemporaryFile() as typed:
        typed.write(given.encode())
        typed.seek(0)
        with _tool(cluster, name, *arguments, stdin=typed, stdout=subprocess.PIPE) as process:
            return _pipe(process.stdout).read().decode()


@contextmanager
def _tool(cluster: Cluster, name: str, *arguments: str, **streams: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """One of PostgreSQL's own programs, as the superuser; its failure is an error with its own words."""
    program = cluster.binaries / name
    if not program.exists():
        raise Missing(f"{cluster.binaries} has no {name}.", "Use a PostgreSQL with its client programs.")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PG")},
        "PGHOST": "127.0.0.1",
        "PGPORT": str(cluster.settings.postgres_port),
        "PGUSER": SUPERUSER,
        "PGPASSWORD": cluster.password,
    }
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen([str(program), *arguments], env=environment, stderr=said, **streams)
        try:
            yield process
        except BaseException:
            process.kill()
            raise
        finally:
            code = process.wait()
        if code != 0:
            said.seek(0)
            raise StackError(
                f"{name} ended with exit code {code}.", said.read().decode(errors="replace").strip()[-2000:]
            )


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def _owner_alone(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)
