"""`runyard engines ensure tofu|all`, `path tofu`, `list`."""

import re
import subprocess
import sys
from dataclasses import replace
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from typer import Argument, Option

from cli.command import new_app
from cli.engines.cache import binary_folder, cached, find, is_locked
from cli.engines.catalog import ENGINES, Engine, EngineError
from cli.engines.ladder import ensure
from cli.engines.progress import Progress, read_progress
from cli.output import Printer

NOT_THERE = 3
PLAIN_STEP = 10

app = new_app("Engine binaries: found, fetched or built.")


def chosen(name: str) -> list[Engine]:
    """Return the engines that a word means."""
    if name == "all":
        return list(ENGINES.values())
    base, _, version = name.partition("@")
    if base not in ENGINES:
        raise typer.BadParameter(f"choose from {', '.join(ENGINES)}, all")
    if not version:
        return [ENGINES[base]]
    if not re.fullmatch(r"\d+\.\d+\.\d+[0-9A-Za-z.+-]*", version):
        raise typer.BadParameter(f"{version} is not a whole version, such as 1.9.1")
    return [replace(ENGINES[base], version=version)]


@app.command("ensure")
def ensure_command(
    name: Annotated[
        str,
        Argument(
            help="tofu, terraform, terragrunt, pulumi, pulumi-language-yaml or all; tofu@1.9.1 for another version"
        ),
    ],
    *,
    background: Annotated[bool, Option("--background", help="Return at once.")] = False,
    pinned: Annotated[bool, Option("--pinned", help="This version exactly, whatever PATH has.")] = False,
) -> None:
    """Provide an engine: PATH, cache, official release, build. Exit codes: 0 there, 1 failed."""
    for engine in chosen(name):
        if found := cached(engine) if pinned or "@" in name else find(engine):
            typer.echo(f"{engine.name}: {found}")
        elif background:
            start_in_background(engine)
        else:
            provide_in_sight(engine)


def start_in_background(engine: Engine) -> None:
    """Start a process of its own that outlives this one, unless one is at it already."""
    if is_locked(engine):
        typer.echo(f"{engine.name}: is being prepared already")
        return
    folder = binary_folder(engine)
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "cli", "engines", "ensure", f"{engine.name}@{engine.version}"]
    with (folder / "ensure.log").open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    typer.echo(f"{engine.name}: being prepared by process {process.pid}, log in {log.name}")


def provide_in_sight(engine: Engine) -> None:
    """Provide an engine with a bar on a terminal, and a line now and then elsewhere."""
    try:
        path = with_bar(engine) if sys.stderr.isatty() else with_lines(engine)
    except EngineError as error:
        typer.echo(f"{engine.name}: {error}", err=True)
        raise typer.Exit(1) from error
    typer.echo(f"{engine.name}: {path}")


def with_bar(engine: Engine) -> str:
    """Show a progress bar."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %"),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(engine.title, total=100)
        return str(
            ensure(
                engine, lambda step: bar.update(task, completed=step.percent, description=step.words), is_pinned=True
            )
        )


def with_lines(engine: Engine) -> str:
    """Write a line for each new phase and each tenth."""
    last: tuple[str, int] | None = None

    def show(step: Progress) -> None:
        nonlocal last
        mark = (step.words.split(" ", 1)[0], step.percent // PLAIN_STEP)
        if mark != last:
            last = mark
            typer.echo(f"{engine.name}: {step.percent} % {step.words}", err=True)

    return str(ensure(engine, show, is_pinned=True))


@app.command("path")
def path_command(name: str) -> None:
    """Print where an engine is. Exit codes: 0 there, 3 not there."""
    for engine in chosen(name):
        found = find(engine)
        if found is None:
            step = read_progress(engine)
            typer.echo(step.note if step and not step.is_done else f"{name} is not there", err=True)
            raise typer.Exit(NOT_THERE)
        typer.echo(str(found))


@app.command("list")
def list_command() -> None:
    """Show every engine, its version here, and how far it is."""
    rows = []
    for engine in ENGINES.values():
        found = find(engine)
        step = read_progress(engine)
        note = step.note if step and not step.is_done and is_locked(engine) else "not there"
        version = engine.version if found and found == cached(engine) else None
        rows.append({"engine": engine.name, "version": version, "where": str(found or note)})
    Printer().rows(rows, ("engine", "version", "where"))
