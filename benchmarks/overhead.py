"""The same module bare (`init`, `plan -out`, `show -json`) and through Runyard from request to result: with and without isolation,
and as `tofu plan` in a terminal whose code has `cloud {}`.

A trivial module, one with three providers from a mirror on this disk, and one with 2,000 resources. Bare runs and jobs take turns, so
that both meet the same machine. The providers are one provider under three addresses; without it (`python -m tests.support.providers`)
that module is left out. Takes about a minute on a quiet machine.
"""

import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.outcome import Outcome
from cli.engines.cache import find
from cli.engines.catalog import machine, system
from tests.integration.worker_bench import Bench, open_bench
from tests.support.cloud_terminal import CloudTerminal, personal_token
from tests.support.providers import PROVIDER
from tests.support.stack import start_stack

NAMES = ("one", "two", "three")
TRIVIAL = 'resource "terraform_data" "a" { input = "hello" }\n'
LARGE = 'resource "terraform_data" "a" {\n  count = 2000\n  input = count.index\n}\n'
SAMPLES = {"trivial": 5, "three providers": 3, "2,000 resources": 2}
# Request to result beyond the bare run, in seconds.
AIM_SECONDS = 0.35
AIM_INIT = 1.2
# `tofu plan` pauses half a second after its upload, and a second before it looks at the run.
AIM_TERMINAL = 1.0
MODES = {"isolated": "auto", "not isolated": "off"}


def three_providers() -> str:
    """Code that reads one data source of each provider."""
    needed = "\n".join(f'    {name} = {{ source = "mirror.example.com/bench/{name}" }}' for name in NAMES)
    data = "".join(
        f'data "external" "{name}" {{\n  provider = {name}\n  program  = ["echo", "{{}}"]\n}}\n' for name in NAMES
    )
    return f"terraform {{\n  required_providers {{\n{needed}\n  }}\n}}\n{data}"


def make_mirror(folder: Path) -> bool:
    """Lay out the mirror and the engine's configuration; whether the provider exists."""
    folder.mkdir()
    config = f'provider_installation {{\n  filesystem_mirror {{ path = "{folder}" }}\n}}\n'
    (folder / "cli.tfrc").write_text(config)
    if (binary := find(PROVIDER)) is None:
        return False
    for name in NAMES:
        place = folder / f"mirror.example.com/bench/{name}/{PROVIDER.version}/{system()}_{machine()}"
        place.mkdir(parents=True)
        shutil.copy2(binary, place / f"terraform-provider-{name}_v{PROVIDER.version}")
    return True


def bare(tofu: Path, code: str, environ: Mapping[str, str]) -> dict[str, float]:
    """Seconds of a plan as somebody runs it by hand, all of it and its `init`."""
    with tempfile.TemporaryDirectory(prefix="runyard-bare-") as folder:
        (Path(folder) / "main.tf").write_text(code)
        began = time.perf_counter()
        run(folder, environ, str(tofu), "init", "-input=false")
        initialised = time.perf_counter()
        run(folder, environ, str(tofu), "plan", "-input=false", "-out=plan")
        run(folder, environ, str(tofu), "show", "-json", "plan")
        return {"all": time.perf_counter() - began, "init": initialised - began}


def run(folder: str, environ: Mapping[str, str], *command: str) -> None:
    """Run one command and keep its output from the screen."""
    subprocess.run(command, cwd=folder, env=dict(environ), check=True, stdout=subprocess.DEVNULL)


def through(bench: Bench, module: str, worker: str) -> dict[str, float]:
    """Seconds from the request to the result, to the first step, and of the job's `init`, by the database's clock."""
    job = bench.finished("PLAN", module, pinned_worker_id=worker)
    steps = {step["name"]: step for step in job["steps"]}
    init, created = steps["init"], at(job["created_at"])
    return {
        "all": (at(job["finished_at"]) - created).total_seconds(),
        "first_step": (at(steps["prepare"]["started_at"]) - created).total_seconds(),
        "init": (at(init["finished_at"]) - at(init["started_at"])).total_seconds(),
    }


def make_terminal(bench: Bench, folder: Path, name: str, code: str, mirror: Path) -> CloudTerminal:
    """A folder with `cloud {}` and the code, initialised."""
    terminal = CloudTerminal(folder / name, bench.tofu, bench.project.url, personal_token(bench))
    settings = terminal.folder / ".terraformrc"
    settings.write_text(settings.read_text() + (mirror / "cli.tfrc").read_text())
    slug = bench.rows("organizations", id=bench.org)[0]["slug"]
    terminal.writes(slug, f'name = "terminal.{name}"', code)
    terminal.run("init", "-input=false")
    return terminal


def typed(terminal: CloudTerminal) -> dict[str, float]:
    """Seconds of `tofu plan`, by the terminal's clock."""
    began = time.perf_counter()
    terminal.run("plan", "-input=false")
    return {"all": time.perf_counter() - began}


def at(text: str) -> datetime:
    """A moment of the database's or the runner's."""
    return datetime.fromisoformat(text)


def measure(
    bench: Bench, runners: dict[str, str], environ: Mapping[str, str], code: str, samples: int, terminal: CloudTerminal
) -> dict[str, Any]:
    """Take turns: bare, a job on each runner, and the terminal, after one round that does not count."""
    module = bench.module(source={"files": {"main.tf": code}})
    ways = {"bare": lambda: bare(bench.tofu, code, environ)}
    ways |= {mode: lambda worker=worker: through(bench, module, worker) for mode, worker in runners.items()}
    ways["terminal"] = lambda: typed(terminal)
    rounds = [{way: sample() for way, sample in ways.items()} for _ in range(samples + 1)][1:]
    return {
        way: {part: round(median(each[way][part] for each in rounds), 3) for part in rounds[0][way]} for way in ways
    }


def show(name: str, found: dict[str, Any]) -> None:
    """Print one module: what Runyard adds, and its ratios to the bare run."""
    plain = found["bare"]
    print(f"{name}: bare {plain['all']:.2f} s, of it init {plain['init']:.2f} s  load {os.getloadavg()[0]:.1f}")
    for mode in MODES:
        seen = found[mode]
        added, init = seen["all"] - plain["all"], seen["init"] / plain["init"]
        marks = ("" if added <= AIM_SECONDS else " ✗", "" if init <= AIM_INIT else " ✗")
        print(
            f"  {mode:<13} {seen['all']:.2f} s, × {seen['all'] / plain['all']:.2f}, added {added:+.2f} s "
            f"(aim ≤ {AIM_SECONDS}){marks[0]}, init × {init:.2f} (aim ≤ {AIM_INIT}){marks[1]}, "
            f"first step after {seen['first_step'] * 1000:.0f} ms",
            flush=True,
        )
    added = found["terminal"]["all"] - plain["all"]
    mark = "" if added <= AIM_TERMINAL else " ✗"
    print(
        f"  {'terminal':<13} {found['terminal']['all']:.2f} s, added {added:+.2f} s (aim ≤ {AIM_TERMINAL}){mark}",
        flush=True,
    )


def main() -> None:
    """Measure, show, keep."""
    outcome = Outcome("overhead")
    outcome.parts |= {"machine": f"{os.cpu_count()} cores, {platform.machine()}", "load_before": os.getloadavg()}
    with tempfile.TemporaryDirectory(prefix="runyard-bench-") as name, outcome.part("the stack"):
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "stack").mkdir(mode=0o755)
        modules = {"trivial": TRIVIAL, "2,000 resources": LARGE}
        if make_mirror(folder / "mirror"):
            modules["three providers"] = three_providers()
        else:
            print("three providers: left out, the provider is not there (python -m tests.support.providers)")
        environ = {**os.environ, "TF_CLI_CONFIG_FILE": str(folder / "mirror" / "cli.tfrc"), "CHECKPOINT_DISABLE": "1"}
        with start_stack(folder / "stack", "--no-dashboard", "--no-demo") as stack, open_bench(stack, folder) as bench:
            runners = {mode: start_runner(bench, folder / "mirror", setting) for mode, setting in MODES.items()}
            for title in sorted(modules, key=list(SAMPLES).index):
                with outcome.part(title):
                    terminal = make_terminal(
                        bench, folder, title.replace(" ", "-").replace(",", ""), modules[title], folder / "mirror"
                    )
                    found = measure(bench, runners, environ, modules[title], SAMPLES[title], terminal)
                    outcome.parts[title] = found
                    show(title, found)
                    for way in (*MODES, "terminal"):
                        outcome.ratio(f"{title}, {way}", found[way]["all"] / found["bare"]["all"], is_less_better=True)
    outcome.keep()


def start_runner(bench: Bench, mirror: Path, mode: str) -> str:
    """Start a runner that finds the providers in the mirror; its id."""
    worker = bench.register()
    bench.start_worker(
        worker,
        RUNYARD__ENGINE__ISOLATION__MODE=mode,
        RUNYARD__ENGINE__ISOLATION__READONLYPATHS=str(mirror),
        TF_CLI_CONFIG_FILE=str(mirror / "cli.tfrc"),
    )
    bench.online(worker)
    return worker[0]


if __name__ == "__main__":
    main()
