"""The ledger of SECURITY.md: after a fault run, what was promised and what came of it.

What the database knows it counts itself (ledger.sql); what only the engine knows, by its own book, is added here.
"""

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.integration.worker_bench import TERMINAL, Bench

LEDGER = Path(__file__).with_name("ledger.sql").read_text(encoding="utf-8")
COUNTED = (
    "zombie_accepted", "log_gaps", "state_lost", "kept_aside", "called_failed", "eaten", "stuck", "unreplayable",
)  # fmt: skip


@dataclass
class Ledger:
    """One line for each promise; all but the first three must be 0."""

    enqueued_acked: int
    terminal: int
    waiting: int
    lost: int
    unexpected: int
    double_applied: int
    zombie_accepted: int
    log_gaps: int
    log_lines_lost: int
    state_lost: int
    kept_aside: int
    called_failed: int
    eaten: int
    stuck: int
    unreplayable: int
    statuses: dict[str, int] = field(default_factory=dict)

    def check(self) -> None:
        """Print the ledger and fail unless every promise was kept."""
        sys.stdout.write("\n" + "".join(f"  {name:<16}{value}\n" for name, value in asdict(self).items()))
        broken = {
            name: value
            for name, value in asdict(self).items()
            if name not in {"enqueued_acked", "terminal", "waiting", "statuses"} and value
        }
        assert not broken, broken
        assert self.terminal + self.waiting == self.enqueued_acked


def close_ledger(
    bench: Bench, acked: list[int], runs: Path | None = None, printed: Mapping[int, Path] | None = None
) -> Ledger:
    """Read the ledger of a bench's organisation: what was enqueued, and what the engine counted and printed itself."""
    rows = {int(row["id"]): row for row in bench.rows("provision_jobs", org_id=bench.org, limit="10000")}
    statuses = Counter(str(rows[job]["status"]) for job in acked if job in rows)
    terminal = sum(count for status, count in statuses.items() if status in TERMINAL)
    follow_ups = {job for job, row in rows.items() if row["created_by"] is None}
    counted = _counted(bench)
    return Ledger(
        enqueued_acked=len(acked),
        terminal=terminal,
        waiting=sum(statuses.values()) - terminal,
        lost=counted["lost"] + len([job for job in acked if job not in rows]),
        unexpected=len(rows.keys() - set(acked) - follow_ups),
        double_applied=counted["double_applied"] + _double_applied(runs),
        log_lines_lost=sum(_lines_lost(bench, job, book) for job, book in (printed or {}).items()),
        statuses=dict(statuses),
        **{name: counted[name] for name in COUNTED},
    )


def _counted(bench: Bench) -> dict[str, int]:
    """Return the database's counts over everything that the bench's organisation ever did."""
    with bench.database() as database:
        row = database.execute(LEDGER, {"org": bench.org, "since": "-infinity"}).fetchone()
    assert row is not None
    return dict(row["ledger"])


def _lines_lost(bench: Bench, job: int, book: Path) -> int:
    """Count lines that a job's engine printed, by its own book, and that are not in the job's log."""
    log = bench.log_of(job)
    return sum(line not in log for line in (book.read_text().split() if book.exists() else []))


def _double_applied(runs: Path | None) -> int:
    """Count jobs that the engine applied more than once, by its own book."""
    if runs is None:
        return 0
    applies = Counter(line.split()[0] for line in runs.read_text().splitlines() if line.endswith(" apply"))
    return sum(count - 1 for count in applies.values())
