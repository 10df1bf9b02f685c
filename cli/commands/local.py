"""`runyard up`, `down`, `status` and the rest of what runs here. The one place that reaches for the embedded stack."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer
from typer import Option

from cli.command import Yes, new_app
from cli.errors import CommandError, ExitCode, Missing, need_package

app = new_app("What runs on this machine.")


@contextmanager
def stack_control() -> Iterator[ModuleType]:
    """The embedded stack's switches; its errors become this program's."""
    try:
        from cli.launcher import control
        from stack.errors import StackError
    except ImportError as error:
        raise Missing(
            f"The embedded stack is not installed here ({error.name} is missing).",
            "This is the wheel runyard_cli: install the wheel runyard instead, or run this in a clone after scripts/setup.",
        ) from error
    try:
        yield control
    except StackError as error:
        raise CommandError(error.message, error.hint, error.exit_code) from error
    except OSError as error:
        home, path = control.home(), Path(str(error.filename or ""))
        if not path.is_relative_to(home) and not home.is_relative_to(path):
            raise
        hint = "RUNYARD_HOME names the state folder: choose one that you can write to."
        raise CommandError(f"The state folder {home} cannot be used: {path}: {error.strerror}.", hint) from error


@app.command("up")
def up(
    with_dashboard: Annotated[
        bool, Option("--dashboard/--no-dashboard", help="Also build and serve the dashboard.")
    ] = True,
    demo: Annotated[bool, Option(help="Also make the demo organisation and start its runners.")] = True,
) -> None:
    """Start everything and stay in the foreground until Ctrl-C or `down`."""
    with stack_control() as control:
        control.start(with_dashboard, demo)


@app.command("down")
def down() -> None:
    """Stop the stack that runs from this folder, from any terminal."""
    with stack_control() as control:
        typer.echo("Stopped." if control.stop() else "Nothing is running here.")


@app.command("status")
def status(
    as_json: Annotated[bool, Option("--json", help="For programs.")] = False,
    show_secrets: Annotated[
        bool, Option("--show-secrets", help="Also the secret key and the database's password.")
    ] = False,
) -> None:
    """Show the addresses and the health of each part; exit code 7 when something is not healthy."""
    with stack_control() as control:
        report = control.report(show_secrets)
        typer.echo(json.dumps(report, indent=2) if as_json else control.describe(report))
        if not control.is_well(report):
            raise typer.Exit(ExitCode.UNHEALTHY)


@app.command("env")
def env() -> None:
    """Print what clients need as shell exports: eval "$(runyard env)"."""
    with stack_control() as control:
        typer.echo(control.exports())


@app.command("mail")
def mail() -> None:
    """Show the mails that were kept instead of sent, such as password recovery links; the newest come first."""
    with stack_control() as control:
        typer.echo("\n".join(control.mails()) or "No mails.")


@app.command("migrate")
def migrate() -> None:
    """Apply the migrations that are not applied yet, whether the stack runs or not."""
    with stack_control() as control:
        typer.echo("\n".join(control.migrate()) or "Nothing to apply.")


@app.command("reset")
def reset(yes: Yes = False) -> None:
    """Delete the database, the secrets and the logs of this folder, and start from nothing next time."""
    with stack_control() as control:
        if not yes and not typer.confirm(f"Delete everything in {control.home()}, all jobs and users included?"):
            raise typer.Exit(1)
        control.reset()
        typer.echo("Everything was removed; the next start begins from nothing.")


@app.command("dashboard")
def dashboard(build: Annotated[bool, Option("--build", help="Only build the page, for an image.")] = False) -> None:
    """Serve the dashboard alone, for the project that SUPABASE_URL and SUPABASE_PUBLISHABLE_KEY name."""
    from cli.client.identity import need_variables

    need_package("reflex", "The dashboard")
    from cli.dashboard.serve import build_dashboard, run_dashboard
    from cli.dashboard.settings import DashboardSettings

    if build:
        build_dashboard(DashboardSettings())
        return
    need_variables("SUPABASE_URL", "SUPABASE_PUBLISHABLE_KEY")
    run_dashboard(DashboardSettings())
