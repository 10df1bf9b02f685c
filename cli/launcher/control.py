"""The embedded stack's switches: start, stop, show, migrate, reset."""

import asyncio
import contextlib
import os
import shlex
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cli.launcher.health import is_dashboard_healthy, is_functions_healthy, is_gateway_healthy
from cli.launcher.journal import Journal
from cli.launcher.runfiles import RunFiles
from cli.launcher.supervisor import Supervisor, Wanted
from stack.auth.outbox import Outbox
from stack.backup import archive
from stack.bootstrap import bootstrap
from stack.errors import Missing, Taken, Unhealthy
from stack.migrations import migrate as apply_migrations
from stack.postgres import Cluster, find_cluster
from stack.secrets import Secrets, load_secrets
from stack.settings import Settings, command

DOWN_SECONDS = 90
# The settings that lead to a stack: while one runs, its own count.
ADDRESSES = {"port_offset", "gateway_base", "postgres_base", "functions_base", "dashboard_base", "public_url"}
SECRET = {"SUPABASE_SECRET_KEY", "RUNYARD_FORWARDING_KEY", "SUPABASE_DB_URL"}


def start(with_dashboard: bool, demo: bool) -> None:
    """Start everything and stay until somebody ends it."""
    settings = Settings()
    secrets = load_secrets(settings.secrets_file)
    journal = Journal(settings.log_folder)
    asyncio.run(Supervisor(settings, secrets, journal, Wanted(with_dashboard, demo)).run())


def stop() -> bool:
    """Stop the stack that runs from this folder; whether there was one."""
    files = RunFiles(_settings())
    pid = files.holder()
    if pid is None:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + DOWN_SECONDS
    while files.holder() == pid:
        if time.monotonic() > deadline:
            raise Unhealthy(f"Process {pid} did not stop within {DOWN_SECONDS} s.", "Check its output in its terminal.")
        time.sleep(0.1)
    return True


def report(show_secrets: bool) -> dict[str, Any]:
    """Addresses, the health of each part and, where wanted, every key."""
    settings, secrets = _load()
    files = RunFiles(settings)
    is_running = files.holder() is not None
    parts = files.read_state().get("parts", {}) if is_running else {}
    health = asyncio.run(_health(settings, secrets, parts)) if is_running else {}
    found = _environment(settings, secrets)
    shown = {name: value for name, value in found.items() if show_secrets or name not in SECRET}
    return {"running": is_running, "health": health, "parts": parts, **shown, "logs": str(settings.log_folder)}


def is_well(report: dict[str, Any]) -> bool:
    """Whether everything that should run does."""
    return bool(report["parts"]) and all(report["health"].values())


def describe(report: dict[str, Any]) -> str:
    """The report for people."""
    lines = ["running" if report["running"] else f"not running (start it: `{command('up')}`)", ""]
    lines += [f"{name:<26}{value}" for name, value in report.items() if isinstance(value, str)] + [""]
    for name, is_healthy in report["health"].items():
        part = report["parts"].get(name, {})
        restarts = f" (restarts: {part['restarts']})" if part.get("restarts") else ""
        lines.append(f"{name:<26}{'healthy' if is_healthy else 'not answering'}{restarts}")
    return "\n".join(lines)


def exports() -> str:
    """Return the variables that clients need, as shell exports."""
    settings, secrets = _load()
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in _environment(settings, secrets).items())


def mails() -> list[str]:
    """The mails that were kept instead of sent, the newest first."""
    settings, secrets = _load()
    with _running_database(find_cluster(settings, secrets), settings, secrets):
        address = settings.database_url("supabase_auth_admin", secrets.password("supabase_auth_admin"))
        found = Outbox(secrets.jwt_secret).recent(address)
    return [f"{item.created_at:%Y-%m-%d %H:%M}  {item.kind} for {item.email}\n  {item.link}" for item in found]


def migrate() -> list[str]:
    """Apply the migrations that are not applied yet; their names."""
    settings, secrets = _load()
    with _running_database(find_cluster(settings, secrets), settings, secrets):
        owner = settings.database_url("postgres", secrets.password("postgres"))
        return list(apply_migrations(owner, settings.supabase_folder))


def back_up(target: Path, passphrase: str) -> int:
    """Write an encrypted backup, while the stack runs or not; its size."""
    settings = _settings()
    if not settings.secrets_file.exists():
        raise Missing(f"{settings.home} has no installation.", "RUNYARD_HOME names the folder of another one.")
    secrets = load_secrets(settings.secrets_file)
    cluster = find_cluster(settings, secrets)
    with _running_database(cluster, settings, secrets):
        return archive.back_up(settings, cluster, target, passphrase)


def restore(source: Path, passphrase: str) -> archive.Restored:
    """Make the installation of a backup here, where none is and nothing runs."""
    settings = Settings()
    with RunFiles(settings).hold():
        return archive.restore(settings, source, passphrase)


def home() -> Path:
    """The state folder."""
    return Settings().home


def reset() -> None:
    """Delete the database, the secrets and the logs."""
    settings, secrets = _load()
    stop()
    find_cluster(settings, secrets).remove()
    shutil.rmtree(settings.home, ignore_errors=True)


def _load() -> tuple[Settings, Secrets]:
    settings = _settings()
    return settings, load_secrets(settings.secrets_file)


def _settings() -> Settings:
    """The settings of the stack that runs from the state folder; the environment's while none runs."""
    here = Settings()
    running = RunFiles(here).running_settings()
    if running is None:
        return here
    different = [name for name in ADDRESSES & here.model_fields_set if getattr(here, name) != getattr(running, name)]
    if different:
        names = " and ".join(f"RUNYARD_{name.upper()}" for name in sorted(different))
        raise Taken(
            f"The stack that runs from {here.home} has its API at {running.url}; {names} here says otherwise.",
            f"Leave {names} out, or name the other stack's folder in RUNYARD_HOME.",
        )
    return running


def _environment(settings: Settings, secrets: Secrets) -> dict[str, str]:
    return {
        "SUPABASE_URL": settings.url,
        "SUPABASE_PUBLISHABLE_KEY": secrets.publishable_key,
        "SUPABASE_SECRET_KEY": secrets.secret_key,
        "RUNYARD_FORWARDING_KEY": secrets.forwarding_key,
        "SUPABASE_DB_URL": settings.database_url("postgres", secrets.password("postgres")),
        "RUNYARD_DASHBOARD_URL": settings.dashboard_url,
    }


async def _health(settings: Settings, secrets: Secrets, parts: dict[str, Any]) -> dict[str, bool]:
    health = {
        "gateway": await is_gateway_healthy(settings),
        "functions": await is_functions_healthy(settings),
        "postgres": await asyncio.to_thread(find_cluster(settings, secrets).is_ready),
    }
    if "dashboard" in parts:
        health["dashboard"] = await is_dashboard_healthy(settings)
    return health


@contextlib.contextmanager
def _running_database(cluster: Cluster, settings: Settings, secrets: Secrets) -> Iterator[None]:
    """The running server, or one for the time of this command."""
    if cluster.is_ready():
        yield
        return
    settings.log_folder.mkdir(parents=True, exist_ok=True)
    cluster.stop()
    cluster.prepare()
    cluster.start(settings.log_folder / "postgres.log")
    try:
        bootstrap(cluster.url, secrets)
        yield
    finally:
        cluster.stop()
