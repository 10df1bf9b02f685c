"""Builds an engine through the Go module proxy, pinned by a committed go.mod and go.sum."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cli.engines.cache import cache_folder
from cli.engines.catalog import Engine, EngineError
from cli.engines.progress import Reporter
from cli.engines.toolchain import find_go

NEEDED_BYTES = 5 * 1024**3
FETCH_FROM, BUILD_FROM, BUILD_TO = 5, 40, 98
KEPT_LINES = 30


@contextmanager
def scratch() -> Iterator[Path]:
    """Make a folder for Go's caches (gigabytes) beside the cache, and remove it afterwards."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(cache_folder()).free
    if free < NEEDED_BYTES:
        raise EngineError(f"a build needs 5 GB in {cache_folder()}, there are {free / 1024**3:.1f}")
    with tempfile.TemporaryDirectory(prefix="build-", dir=cache_folder()) as name:
        yield Path(name)


def environment(go: Path, folder: Path) -> dict[str, str]:
    """Return Go's environment: own caches, no toolchain switch, a binary that runs anywhere."""
    return {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOCACHE": str(folder / "cache"),
        "GOMODCACHE": str(folder / "modules"),
        "GOTMPDIR": str(folder),
        # Without write permission the module cache could not be removed.
        "GOFLAGS": "-modcacherw -mod=readonly -buildvcs=false -trimpath",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "PATH": f"{go.parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }


@contextmanager
def built(engine: Engine, report: Reporter) -> Iterator[Path]:
    """Yield the built binary inside a folder that is removed afterwards."""
    go = find_go(engine, report)
    with scratch() as folder:
        env = environment(go, folder)
        packages = fetch_sources(engine, go, env, report)
        made = folder / "out" / engine.name
        compile_all(engine, go, env, made, packages, report)
        yield made


def fetch_sources(engine: Engine, go: Path, env: dict[str, str], report: Reporter) -> int:
    """Download what the package needs; return the number of packages to compile."""
    modules = len(re.findall(r"^\t?\S+\.\S+ v", (engine.recipe / "go.mod").read_text(encoding="utf-8"), re.MULTILINE))
    here = 0

    def watch(line: str) -> None:
        nonlocal here
        here += line.startswith("go: downloading")
        share = min(here / max(modules, 1), 1)
        words = f"Fetching sources of {engine.title}: {here} of about {modules} modules"
        report.say(FETCH_FROM + (BUILD_FROM - FETCH_FROM) * share, words)

    return len(run_go(engine, [str(go), "list", "-deps", engine.package], env, watch))


def compile_all(engine: Engine, go: Path, env: dict[str, str], made: Path, packages: int, report: Reporter) -> None:
    """Compile and link, counting the packages as they are done."""
    done = 0

    def watch(line: str) -> None:
        nonlocal done
        done += "/" in line or line.isidentifier()
        share = min(done / max(packages, 1), 1)
        words = f"Compiling {engine.title}: {done} of {packages} packages"
        report.say(BUILD_FROM + (BUILD_TO - BUILD_FROM) * share, words)

    command = [str(go), "build", "-v", "-ldflags", engine.ldflags, "-o", str(made), engine.package]
    run_go(engine, command, env, watch)


def run_go(engine: Engine, command: list[str], env: dict[str, str], watch: Callable[[str], None]) -> list[str]:
    """Run Go politely in the recipe's folder; hand on what it says, return what it prints."""
    polite = ["nice", "-n", "10", *command] if shutil.which("nice") else command
    tail: list[str] = []
    with (
        tempfile.TemporaryFile("w+") as out,
        subprocess.Popen(polite, cwd=engine.recipe, env=env, stdout=out, stderr=subprocess.PIPE, text=True) as process,
    ):
        for line in process.stderr or ():
            tail = [*tail, line.rstrip()][-KEPT_LINES:]
            watch(line.rstrip())
        code = process.wait()
        out.seek(0)
        printed = out.read().splitlines()
    if code != 0:
        reason = next(filter(None, reversed(tail)), f"go ended with code {code}")
        raise EngineError("\n".join([f"building {engine.title} failed: {reason}", *tail]))
    return printed
