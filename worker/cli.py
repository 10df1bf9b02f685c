"""`runyard-worker`: run, doctor, version, schema."""

import gc
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from worker import credential
from worker.children.hardening import step_aside_if_first, wipe_environment
from worker.errors import EXPLANATIONS, ExitCode
from worker.program import find_program
from worker.settings.load import forget_secrets, load_settings
from worker.settings.model import Settings
from worker.settings.sources import Problem, SettingsError
from worker.version import __version__

# Imported wherever they are installed: httpx' own command line, structlog's coloured tracebacks, and HTTP/2.
UNUSED = ("httpx._main", "rich", "h2")


@contextmanager
def light_imports() -> Iterator[None]:
    """Import as if the unused parts were not installed; what is loaded already stays, and later imports find all."""
    hidden = [name for name in UNUSED if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # none means "cannot be imported"
    # Modules and classes live as long as the process: a search for garbage among them, now or later, finds none.
    gc.disable()
    try:
        yield
        # httpx would import it, and h2 with it, when the first client is made.
        import_module("httpcore")
    finally:
        gc.freeze()
        gc.enable()
        for name in hidden:
            del sys.modules[name]


def exit_code_list(words: Mapping[int, str]) -> str:
    """Write exit codes as the list that ends a command's help; the mark in front keeps its lines apart."""
    return "\b\nExit codes:\n" + "\n".join(f"  {code:<4d}{text}" for code, text in words.items())


DOCTOR_CODES = {0: "the runner can work", 1: "something must be put right", 2: "settings are wrong"}

app = typer.Typer(
    name="runyard-worker",
    help="Runs Terraform, OpenTofu and Pulumi jobs for Runyard on this machine. "
    "It needs WORKER_ID, WORKER_TOKEN and SUPABASE_URL.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    # A traceback with its local variables could print a token.
    pretty_exceptions_enable=False,
)

File = Annotated[
    Path | None, typer.Option("--settings", help="Settings file, JSON or TOML.", envvar="RUNYARD_SETTINGS")
]
Secrets = Annotated[Path | None, typer.Option("--secrets", help="Directory with one file per variable.")]
Url = Annotated[str | None, typer.Option("--url", help="The project's URL (SUPABASE_URL).")]
Instance = Annotated[str | None, typer.Option("--instance", help="Name of this process (WORKER_INSTANCE).")]
Capacity = Annotated[int | None, typer.Option("--capacity", help="Jobs at a time.")]
Assignments = Annotated[
    list[str] | None, typer.Option("--set", metavar="SECTION.NAME=VALUE", help="Any setting; may be given again.")
]


def options_of(
    url: str | None, instance: str | None, capacity: int | None, assignments: Sequence[str]
) -> dict[str, Any]:
    """Gather the command line's layer of settings."""
    options: dict[str, Any] = {"Server.Url": url, "Runner.Instance": instance, "Capacity": capacity}
    for text in assignments:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise typer.BadParameter(f"{text!r} is not SECTION.NAME=VALUE", param_hint="--set")
        options[name] = value
    return options


def load_or_leave(file: Path | None, secrets: Path | None, options: dict[str, Any]) -> Settings:
    """Load the settings, or name every mistake and leave with exit code 2."""
    try:
        return load_settings(file=file, secrets_directory=secrets, options=options)
    except SettingsError as error:
        show_problems(error.problems)
        raise typer.Exit(ExitCode.SETTINGS) from None


def show_problems(problems: Sequence[Problem]) -> None:
    """Print every wrong setting with its place."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True)
    console.print(Text(f"{len(problems)} settings are wrong:", style="bold red"))
    for problem in problems:
        line = Text.assemble("  ", (problem.setting, "bold"), f": {problem.message} ", (f"({problem.place})", "dim"))
        console.print(line, soft_wrap=True)


def remember_places(file: Path | None, secrets: Path | None) -> None:
    """Note where settings and secrets were read from, as if variables had named it: jobs are kept away from there."""
    for name, place in (("RUNYARD_SETTINGS", file), ("RUNYARD_SECRETS", secrets)):
        if place is not None:
            os.environ[name] = str(place.expanduser().absolute())


app.add_typer(credential.app, name="credential")


@app.command(epilog=exit_code_list(EXPLANATIONS))
def run(
    file: File = None,
    secrets: Secrets = None,
    url: Url = None,
    instance: Instance = None,
    capacity: Capacity = None,
    assignments: Assignments = None,
    *,
    single: Annotated[bool, typer.Option("--single", help="Run one job, then leave.")] = False,
    self_update: Annotated[
        bool, typer.Option("--self-update", help="Replace this program when an update is requested (Update.Enabled).")
    ] = False,
    trial: Annotated[
        bool, typer.Option("--trial", help="Open a session, send one heartbeat and leave: shows that it can work.")
    ] = False,
) -> None:
    """Connect and run jobs until asked to leave.

    SIGTERM or SIGINT once: finish the current jobs, then leave. Twice: stop them gracefully.
    """
    options = options_of(url, instance, capacity, assignments or [])
    settings = load_or_leave(file, secrets, options | ({"Update.Enabled": True} if self_update else {}))
    may_update = settings.update.enabled and not single
    program = find_program(os.environ, sys.argv[1:]) if may_update else None
    wipe_environment(forget_secrets(os.environ))
    remember_places(file, secrets)
    if settings.executor.job_id is not None:
        with light_imports():
            from worker.executor import run_executor
        raise typer.Exit(run_executor(settings))
    with light_imports():
        from worker.main import run as run_worker
    raise typer.Exit(run_worker(settings, single=single, is_trial=trial, program=program))


@app.command(epilog=exit_code_list(DOCTOR_CODES))
def doctor(
    file: File = None,
    secrets: Secrets = None,
    url: Url = None,
    instance: Instance = None,
    assignments: Assignments = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Look at what the runner needs: URL, key, token, clock, engines, disk, permissions, Realtime, the dispatcher's place."""
    settings = load_or_leave(file, secrets, options_of(url, instance, None, assignments or []))
    from rich.console import Console

    from worker.doctor.check import Verdict
    from worker.doctor.examine import examine, show

    console = Console()
    if as_json or not console.is_terminal:
        checks = examine(settings)
    else:
        with console.status("Looking at this machine and the project…"):
            checks = examine(settings)
    if as_json:
        typer.echo(json.dumps([vars(check) for check in checks], indent=2, ensure_ascii=False))
    else:
        show(checks, console)
    raise typer.Exit(int(any(check.verdict is Verdict.FAIL for check in checks)))


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


@app.command()
def schema(
    *, reference: Annotated[bool, typer.Option("--reference", help="Print the reference page instead.")] = False
) -> None:
    """Print the JSON Schema of the settings file."""
    from worker.settings.schema import reference_text, schema_text

    sys.stdout.write(reference_text() if reference else schema_text())


def main() -> None:
    """Start the command line."""
    step_aside_if_first()
    app()


if __name__ == "__main__":
    main()
