"""The runner: how soon a job begins, how fast its log arrives, and what a waiting runner costs.

Real stack, real runner processes, real API. Every figure has another of the same run beside it, so that ratios mean
something on any machine. Takes about two and a half minutes.
"""

import os
import platform
import tempfile
from pathlib import Path

from benchmarks.outcome import Outcome
from benchmarks.runner import begin, idle, logs
from tests.support.stack import start_stack
from worker.runtime_log import configure_logging
from worker.settings.levels import LogLevelName

PARTS = {"begin": begin, "logs": logs, "idle": idle}


def measure(folder: Path, outcome: Outcome) -> None:
    """All parts on one stack, one after the other."""
    outcome.parts |= {"machine": f"{os.cpu_count()} cores, {platform.machine()}", "load_before": os.getloadavg()}
    # Two hundred simulated runners open their sessions from one address within a minute.
    with start_stack(folder / "stack", "--no-dashboard", "--no-demo", RUNYARD_SESSIONS_PER_ADDRESS="2000") as stack:
        for name, part in PARTS.items():
            (folder / name).mkdir()
            with outcome.part(name):
                outcome.parts[name] = part.measure(stack, folder / name)
                part.show(outcome.parts[name])
    for name in ("end_to_end", "redact_and_spool"):
        if found := outcome.parts.get("logs"):
            outcome.ratio(f"log, pipe per {name.replace('_', ' ')}", found[f"pipe_per_{name}"], is_less_better=True)
    outcome.parts["load_after"] = os.getloadavg()


def main() -> None:
    """Measure, show, keep."""
    configure_logging({"Default": LogLevelName.ERROR}, "pretty", str)
    outcome = Outcome("runner")
    with outcome.part("the stack"), tempfile.TemporaryDirectory(prefix="runyard-bench-") as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / "stack").mkdir(mode=0o755)
        measure(Path(folder), outcome)
    outcome.keep()


if __name__ == "__main__":
    main()
