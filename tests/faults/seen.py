"""A person's view during a fault: recorded second by second, and printed as the table that the docs show."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import httpx

from tests.integration.worker_bench import Bench, WorkerProcess
from tests.support.waiting import wait_until

TABLES_VARIABLE = "RUNYARD_SEEN_TABLES"
# Lines of the runner's own log that tell nothing about a fault.
DULL = {
    "stamina.retry_scheduled",
    "engine found",
    "jobs about cloud-hosted runners",
    "the doorbell is not connected",
    "log not shipped yet",
}


class Watch:
    """Looks at a job and its runner as a page does, and keeps what changed."""

    def __init__(self, bench: Bench, job: int, worker: str, runner: WorkerProcess) -> None:
        # A person does not look at a page that does not answer for half a minute.
        self.bench = replace(bench, http=httpx.Client(timeout=3))
        self.job, self.worker, self.runner = job, worker, runner
        self.began = time.monotonic()
        self.rows: list[tuple[float, str, str, str]] = []
        self._polls = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def note(self, what: str) -> None:
        """Record an action of the test, in the test's own words."""
        self._add(f"**{what}**", "", "")

    def poll_once_more(self) -> None:
        """Poll again, so that the last change is recorded, too."""
        polls = self._polls
        wait_until(lambda: self._polls > polls + 1, timeout_seconds=180)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(30)

    def table(self) -> str:
        head = "| after | the job | the runner | the runner's log |\n|---|---|---|---|\n"
        return head + "".join(f"| {at:.0f} s | {job} | {runner} | {log} |\n" for at, job, runner, log in self.rows)

    def _run(self) -> None:
        before = ("", "", "")
        while not self._end.wait(1.0):
            now = self._poll()
            self._polls += 1
            if now != before:
                changed = [new if new != old else "" for new, old in zip(now, before, strict=True)]
                self._add(*changed)
                before = now

    def _add(self, job: str, runner: str, log: str) -> None:
        self.rows.append((time.monotonic() - self.began, job, runner, log))

    def _poll(self) -> tuple[str, str, str]:
        events = [
            each for each in self.runner.events() if each.get("event") not in DULL and each.get("level") != "debug"
        ]
        said = str(events[-1]["event"]) if events else ""
        try:
            row, worker = self.bench.job(self.job), self.bench.rows("workers", id=self.worker)[0]
        except httpx.HTTPError:
            return "the project does not answer: the page says *offline*", "", said
        return _job_words(row), _runner_words(worker), said


def _job_words(row: dict[str, Any]) -> str:
    message = (row["error"] or {}).get("message")
    return f"{row['status']}: “{message}”" if message else str(row["status"])


def _runner_words(row: dict[str, Any]) -> str:
    return f"{row['status']} ({row['status_reason']})" if row.get("status_reason") else str(row["status"])


@contextmanager
def watched(title: str, bench: Bench, job: int, worker: str, runner: WorkerProcess) -> Iterator[Watch]:
    """Watch for as long as the block takes, then print the table, and keep it where `RUNYARD_SEEN_TABLES` says."""
    with Watch(bench, job, worker, runner) as watch:
        yield watch
    text = f"### {title}\n\n{watch.table()}\n"
    sys.stdout.write("\n" + text)
    if folder := os.environ.get(TABLES_VARIABLE):
        (Path(folder) / f"{title}.md").write_text(text)
