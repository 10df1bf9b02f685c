"""`runyard`: start, stop, look at and reset the embedded Supabase."""

import asyncio
import contextlib
import json
import os
import shlex
import shutil
import signal
import sys
import time
from typing import Annotated, Any

import typer

from cli.admin import commands
from cli.admin.api import need_variables
from cli.dashboard.serve import run_dashboard
from cli.engines.commands import app as engine_commands
from cli.launcher.health import is_dashboard_healthy, is_functions_healthy, is_gateway_healthy
from cli.launcher.journal import Journal
from cli.launcher.runfiles import RunFiles
from cli.launcher.supervisor import Supervisor, Wanted
from stack.auth.outbox import Outbox
from stack.bootstrap import bootstrap
from stack.errors import StackError, Unhealthy
from stack.migrations import migrate as apply_migrations
from stack.postgres import Cluster, find_cluster
from stack.secrets import Secrets, load_secrets
from stack.settings import Settings

EXIT_CODES = """Exit codes: 0 done · 1 another problem · 2 wrong arguments · 3 something is missing on this machine ·
4 a port or folder is taken · 5 data of another PostgreSQL version · 6 a migration failed · 7 a part is not healthy ·
8 the project refused or did not answer"""
NOT_RUNNING = 7
DOWN_SECONDS = 90

cli = typer.Typer(
    help="The embedded Supabase: PostgreSQL, REST, Auth, Realtime and Functions behind one port.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
cli.add_typer(commands.runner, name="runner")
cli.add_typer(commands.service_account, name="service-account")
cli.add_typer(commands.shared, name="shared-runners")
cli.add_typer(engine_commands, name="engines")


@cli.command()
def up(
    with_dashboard: Annotated[
        bool, typer.Option("--dashboard/--no-dashboard", help="Also build and serve the dashboard.")
    ] = True,
    demo: Annotated[bool, typer.Option(help="Also make the demo organisation and start its runners.")] = True,
) -> None:
    """Start everything and stay in the foreground until Ctrl-C or `down`."""
    settings, secrets = _load()
    journal = Journal(settings.log_folder)
    asyncio.run(_supervise(settings, secrets, journal, Wanted(with_dashboard, demo)))


@cli.command()
def down() -> None:
    """Stop the stack that runs from this folder, from any terminal."""
    files = RunFiles(Settings())
    pid = files.holder()
    if pid is None:
        typer.echo("Nothing is running here.")
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + DOWN_SECONDS
    while files.holder() == pid:
        if time.monotonic() > deadline:
            raise Unhealthy(
                f"Process {pid} did not stop within {DOWN_SECONDS} s.", "Look at what it says in its terminal."
            )
        time.sleep(0.1)
    typer.echo("Stopped.")


@cli.command()
def status(as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False) -> None:
    """Show the URL, the keys and the health of each part; exit code 7 when something is not healthy."""
    settings, secrets = _load()
    parts = RunFiles(settings).read_state().get("parts", {})
    health = asyncio.run(_health(settings, secrets, parts))
    report = {"running": bool(parts), "health": health, "parts": parts, **_environment(settings, secrets)}
    typer.echo(json.dumps(report, indent=2) if as_json else _describe(settings, report))
    if not parts or not all(health.values()):
        raise typer.Exit(NOT_RUNNING)


@cli.command()
def env() -> None:
    """Print what clients need as shell exports: eval "$(runyard env)"."""
    settings, secrets = _load()
    for name, value in _environment(settings, secrets).items():
        typer.echo(f"export {name}={shlex.quote(value)}")


@cli.command()
def dashboard() -> None:
    """Serve the dashboard alone, for the project that SUPABASE_URL and SUPABASE_PUBLISHABLE_KEY name."""
    need_variables("SUPABASE_URL", "SUPABASE_PUBLISHABLE_KEY")
    run_dashboard(Settings())


@cli.command()
def migrate() -> None:
    """Apply the migrations that are not applied yet, whether the stack runs or not."""
    settings, secrets = _load()
    with _running_database(find_cluster(settings, secrets), settings, secrets):
        owner = settings.database_url("postgres", secrets.password("postgres"))
        applied = apply_migrations(owner, settings.supabase_folder)
    typer.echo("\n".join(applied) if applied else "Nothing to apply.")


@cli.command()
def mail() -> None:
    """Show the mails that were kept instead of sent, such as password recovery links; the newest come first."""
    settings, secrets = _load()
    with _running_database(find_cluster(settings, secrets), settings, secrets):
        address = settings.database_url("supabase_auth_admin", secrets.password("supabase_auth_admin"))
        mails = Outbox(secrets.jwt_secret).recent(address)
    lines = [f"{item.created_at:%Y-%m-%d %H:%M}  {item.kind} for {item.email}\n  {item.link}" for item in mails]
    typer.echo("\n".join(lines) if lines else "No mails.")


@cli.command()
def reset(yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False) -> None:
    """Delete the database, the secrets and the logs of this folder, and start from nothing next time."""
    settings, secrets = _load()
    if not yes and not typer.confirm(f"Delete everything in {settings.home}, all jobs and users included?"):
        raise typer.Exit(1)
    down()
    find_cluster(settings, secrets).remove()
    shutil.rmtree(settings.home, ignore_errors=True)
    typer.echo("Everything is gone; `make up` starts from nothing.")


def main() -> None:
    """Run the command line; a problem a person can act on is a sentence, not a traceback."""
    try:
        cli()
    except StackError as error:
        typer.echo(f"\nerror: {error}", err=True)
        sys.exit(error.exit_code)


async def _supervise(settings: Settings, secrets: Secrets, journal: Journal, wanted: Wanted) -> None:
    await Supervisor(settings, secrets, journal, wanted).run()


def _load() -> tuple[Settings, Secrets]:
    settings = Settings()
    return settings, load_secrets(settings.secrets_file)


def _environment(settings: Settings, secrets: Secrets) -> dict[str, str]:
    return {
        "SUPABASE_URL": settings.url,
        "SUPABASE_PUBLISHABLE_KEY": secrets.publishable_key,
        "SUPABASE_SECRET_KEY": secrets.secret_key,
        "SUPABASE_DB_URL": settings.database_url("postgres", secrets.password("postgres")),
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


def _describe(settings: Settings, report: dict[str, Any]) -> str:
    lines = ["running" if report["running"] else "not running (start it with `make up`)", ""]
    for name, value in report.items():
        if name.startswith("SUPABASE_"):
            lines.append(f"{name:<26}{value}")
    lines += [f"{'dashboard':<26}{settings.dashboard_url}", f"{'logs':<26}{settings.log_folder}", ""]
    for name, is_healthy in report["health"].items():
        part = report["parts"].get(name, {})
        restarts = f" (restarts: {part['restarts']})" if part.get("restarts") else ""
        lines.append(f"{name:<26}{'healthy' if is_healthy else 'not answering'}{restarts}")
    return "\n".join(lines)


@contextlib.contextmanager
def _running_database(cluster: Cluster, settings: Settings, secrets: Secrets) -> Any:
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
