"""The database beside other queues: ratios of one run on one server. `--full` takes the sizes that the aims speak of."""

import argparse
import dataclasses
import os
import platform
from collections.abc import Callable

from benchmarks.database import (
    breadth,
    depth,
    enqueue,
    fleet,
    history,
    keeping,
    pages,
    peers,
    queue,
    variables,
    visibility,
    wide,
    writes,
)
from benchmarks.database.figures import Report
from benchmarks.database.server import Bench, load, serve
from benchmarks.database.sizes import FULL, Sizes
from benchmarks.outcome import attempt, end, keep

GROUPS: dict[str, Callable[[Bench, Sizes, Report], None]] = {
    "queue": queue.measure,
    "enqueue": enqueue.measure,
    "depth": depth.measure,
    "breadth": breadth.measure,
    "writes": writes.measure,
    "keeping": keeping.measure,
    "fleet": fleet.measure,
    "pages": pages.measure,
    "history": history.measure,
    "variables": variables.measure,
    "visibility": visibility.measure,
    "wide": wide.measure,
}


def options() -> tuple[Sizes, list[str]]:
    """Sizes and groups from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", help=f"any of {', '.join(GROUPS)}; all when none is named")
    parser.add_argument("--full", action="store_true", default=bool(os.environ.get("RUNYARD_BENCH_FULL")))
    for field in dataclasses.fields(Sizes):
        if field.name != "workers":
            parser.add_argument(f"--{field.name.replace('_', '-')}", type=type(field.default), default=None)
    chosen = vars(parser.parse_args())
    groups, is_full = chosen.pop("groups") or list(GROUPS), chosen.pop("full")
    if unknown := set(groups) - set(GROUPS):
        parser.error(f"there is no group {', '.join(sorted(unknown))}")
    given = {name: value for name, value in chosen.items() if value is not None}
    return dataclasses.replace(FULL if is_full else Sizes(), **given), groups


def main() -> None:
    """Measure group by group; keep what there is after each."""
    sizes, groups = options()
    report = Report(facts={"sizes": dataclasses.asdict(sizes), "load_before": load(), "cores": os.cpu_count()})
    report.facts |= {"machine": platform.machine(), "peers": peers.versions()}
    with serve() as bench:
        with bench.connect("postgres") as connection:
            version = connection.execute("show server_version").fetchone()
        report.facts["postgresql"] = version[0] if version else ""
        for name in groups:
            print(f"\n{name} (load {load()[0]})", flush=True)
            with attempt(name, report.failed):
                GROUPS[name](bench, sizes, report)
            report.facts["load_after"] = load()
            keep("database", report.as_json())
    end(report.failed)


if __name__ == "__main__":
    main()
