"""Attempts left by an earlier process: each one is reported, even if others fail."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import stamina

from tests.unit.worker.fakes import HandClock, Network
from worker.attempt.context import JobContext
from worker.attempt.outcome import Outcome, SavedAttempt, attempt_folder, given_back, leftovers, save_attempt
from worker.enums import JobStatus
from worker.errors import RunnerUnfit
from worker.finder import EngineFinder
from worker.running.recovery import recover
from worker.running.table import JobTable
from worker.settings.load import load_settings
from worker.statebackend.journal import take_seal

pytestmark = pytest.mark.anyio


def leave(home: Path, job: int, outcome: Outcome) -> None:
    saved = SavedAttempt(job, 1, "APPLY", str(home / f"root-{job}"), f"cookie-{job}", outcome=asdict(outcome))
    save_attempt(attempt_folder(home, saved.ref), saved)


def answer(name: str, body: dict[str, Any]) -> Any:
    if name == "worker_return_job":
        return 503, {}
    if name == "worker_recover":
        return {"jobs": body["p_running"]}
    return {"status": "SUCCEEDED"}


def context_of(network: Network, home: Path) -> JobContext:
    environ = {
        "WORKER_ID": "7b0b1c9e-8f0c-4a77-9d0c-0d8b0a7c2f11", "WORKER_TOKEN": "ryw_x", "SUPABASE_URL": "http://x",
        "RUNYARD__WORKINGDIRECTORY__WORKINGDIRECTORY": str(home),
    }  # fmt: skip
    return JobContext(load_settings(environ=environ), network.server(), EngineFinder((), {}), {}, take_seal(home))


async def test_an_end_that_a_proxy_refused_is_reported_by_the_next_start(tmp_path: Path) -> None:
    leave(tmp_path, 2, Outcome(JobStatus.SUCCEEDED))
    answers = iter([(404, {"message": "no route"}), {"status": "SUCCEEDED"}])
    network = Network(lambda name, body: next(answers) if name == "worker_finish" else answer(name, body))
    for left in (1, 0):
        await recover(tmp_path, context_of(network, tmp_path), JobTable(HandClock()), HandClock(), lambda *_: None)
        assert len(list(leftovers(tmp_path))) == left
    assert [body["p_job"] for body in network.named("worker_finish")] == [2, 2]


async def test_a_job_that_cannot_be_given_back_does_not_block_other_reports(tmp_path: Path) -> None:
    network, table = Network(answer), JobTable(HandClock())
    context = context_of(network, tmp_path)
    leave(tmp_path, 1, given_back(RunnerUnfit("full", code="disk")))
    leave(tmp_path, 2, Outcome(JobStatus.SUCCEEDED))
    with stamina.set_testing(True):
        assert await recover(tmp_path, context, table, HandClock(), lambda *_: None) == 2
    assert [body["p_job"] for body in network.named("worker_return_job")] == [1]
    assert [body["p_job"] for body in network.named("worker_finish")] == [2]
    # No heartbeat names it any more: its lease ends, and the job is queued again.
    assert table.refs() == []
    assert list(leftovers(tmp_path)) == []
