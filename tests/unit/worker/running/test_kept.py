"""States that were kept on disk: each is offered to the project and runner that wrote it, and to no other."""

from pathlib import Path

import pytest

from tests.unit.worker.fakes import Network
from worker.api.replies import JobRef
from worker.attempt.context import KEPT_FOLDER, JobContext
from worker.finder import EngineFinder
from worker.running.recovery import hand_over_kept
from worker.settings.load import load_settings
from worker.statebackend.journal import Journal, Kind, take_seal

pytestmark = pytest.mark.anyio
REF = JobRef(job=26, attempt=1)
OURS, OTHER = "7b0b1c9e-8f0c-4a77-9d0c-0d8b0a7c2f11", "11111111-8f0c-4a77-9d0c-0d8b0a7c2f11"


def context_of(network: Network, home: Path, runner: str = OURS, url: str = "http://one.example") -> JobContext:
    environ = {
        "WORKER_ID": runner, "WORKER_TOKEN": "ryw_x", "SUPABASE_URL": url,
        "RUNYARD__WORKINGDIRECTORY__WORKINGDIRECTORY": str(home),
    }  # fmt: skip
    return JobContext(load_settings(environ=environ), network.server(), EngineFinder((), {}), {}, take_seal(home))


def keep(home: Path, kept: Path, body: str) -> None:
    journal = Journal(home / "journal", kept, take_seal(home), REF)
    journal.append(Kind.PUT, None, body)
    assert journal.first is not None
    journal.set_aside(journal.first)


def files(home: Path) -> list[Path]:
    return list((home / KEPT_FOLDER).rglob("*.entry"))


@pytest.mark.parametrize(("runner", "url"), [(OTHER, "http://one.example"), (OURS, "http://two.example")])
async def test_a_kept_state_is_offered_to_its_own_project_and_runner_alone(
    tmp_path: Path, runner: str, url: str
) -> None:
    ours, theirs = Network(lambda *_: {"is_stored": False}), Network(lambda *_: {"is_stored": False})
    keep(tmp_path, context_of(ours, tmp_path).kept_states, "ours")
    # The same job and attempt number of another project: neither file takes the other's place.
    keep(tmp_path, context_of(theirs, tmp_path, runner, url).kept_states, "theirs")
    await hand_over_kept(context_of(theirs, tmp_path, runner, url))
    assert [body["p_body"] for body in theirs.named("worker_state_keep")] == ["theirs"]
    await hand_over_kept(context_of(ours, tmp_path))
    assert [body["p_body"] for body in ours.named("worker_state_keep")] == ["ours"]
    assert files(tmp_path) == []
