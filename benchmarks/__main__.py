"""`python -m benchmarks [name …] [--full] [--baseline]`: run the benchmarks one after the other; each writes JSON and prints a table.

`--full` takes the sizes that the aims speak of, where a benchmark is smaller by default; that can take an hour. The ratios are compared
with `baseline.json`, those of the last whole run that was kept; `--baseline` keeps the ratios of this run there.
"""

import os
import subprocess
import sys
from pathlib import Path

from benchmarks import baseline

FOLDER = Path(__file__).resolve().parent
HELPERS = {"__init__", "__main__", "baseline", "load", "outcome", "processes"}


def names() -> list[str]:
    """Every benchmark: a module of this folder that is not a helper, or a folder that can be run."""
    modules = {path.stem for path in FOLDER.glob("*.py")} | {path.parent.name for path in FOLDER.glob("*/__main__.py")}
    return sorted(modules - HELPERS)


def main() -> int:
    """Run the named programs, or all; continue after one that lacks a figure, and list it at the end."""
    given = sys.argv[1:]
    if "--full" in given:
        os.environ["RUNYARD_BENCH_FULL"] = "1"
    chosen = [name for name in given if name not in {"--full", "--baseline"}] or names()
    unknown = [name for name in chosen if name not in names()]
    if unknown:
        print(f"There is no benchmark named {', '.join(unknown)}; choose from {', '.join(names())}.", file=sys.stderr)
        return 2
    failed = []
    for name in chosen:
        print(f"\n==> {name}", flush=True)
        (FOLDER / "results" / f"{name}.json").unlink(missing_ok=True)
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], cwd=FOLDER.parent, check=False).returncode:
            failed.append(name)
    found = baseline.ratios(chosen)
    baseline.show(found)
    if "--baseline" in given:
        baseline.keep(found)
    print(f"\nResults are in {FOLDER / 'results'}.")
    if failed:
        print(f"Some figures are missing, see above: {', '.join(failed)}.", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
