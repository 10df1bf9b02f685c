"""One attempt as a whole: the effect of its parts' ends on the job, and the files that stay on disk."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
import stamina

from tests.unit.worker.fakes import HandClock, Network, refusal
from wire.hcl_blocks import parse
from worker.api.replies import ClaimedJob
from worker.attempt.context import JobContext
from worker.attempt.control import JobControl, Lease
from worker.attempt.outcome import Outcome, load_attempt
from worker.attempt.workspace import Act, Step, Workspace
from worker.enums import JobPhase, JobStatus, JobType
from worker.errors import JobFailed
from worker.finder import EngineFinder
from worker.logs.shipper import Shipper
from worker.running.attempt_runner import Attempt
from worker.running.reporter import Reporter
from worker.running.table import JobHandle
from worker.settings.load import load_settings
from worker.statebackend.delivery import JournaledState
from worker.statebackend.journal import FOLDER, take_seal

pytestmark = pytest.mark.anyio
ENDED = {"status": "FAILED"}
PAYLOAD = {"module": {"source_kind": "inline", "source": {"files": {}}, "engine": "tofu"}}


class Scene:
    """A runner's directory, and a project that answers by a function."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.folder = root / "jobs" / "1-1"
        self.monkeypatch = monkeypatch
        self.handle = JobHandle(
            ClaimedJob(id=1, attempt=1, type=JobType.APPLY, payload=PAYLOAD), Lease(1000.0, 60), JobControl(1)
        )

    async def run(self, network: Network, phase: JobPhase, act: Act) -> Outcome:
        """Run an attempt of one step."""
        environ = {
            "WORKER_ID": "7b0b1c9e-8f0c-4a77-9d0c-0d8b0a7c2f11", "WORKER_TOKEN": "ryw_x", "SUPABASE_URL": "http://x",
            "RUNYARD__WORKINGDIRECTORY__WORKINGDIRECTORY": str(self.root),
        }  # fmt: skip
        context = JobContext(
            load_settings(environ=environ), network.server(), EngineFinder((), {}), {}, take_seal(self.root)
        )
        self.monkeypatch.setattr(Attempt, "_steps", lambda *_: [Step("only", "Only", phase, act)])
        async with asyncio.timeout(60):
            return await Attempt(self.handle, context, self.root, HandClock()).run()


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(tmp_path, monkeypatch)


async def breaks(*_: Any) -> None:
    raise ValueError("a defect")


async def waits(_: Workspace) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("part", [Reporter, Shipper])
async def test_a_defect_of_a_part_stops_the_job_and_its_end_is_reported(scene: Scene, part: type) -> None:
    scene.monkeypatch.setattr(part, "run", breaks)
    network = Network(lambda *_: ENDED)
    outcome = await scene.run(network, JobPhase.PLAN, waits)
    assert (outcome.status, outcome.is_returned) == (JobStatus.FAILED, False)
    assert outcome.error is not None
    assert outcome.error["code"] == "runner_error"
    (told,) = network.named("worker_finish")
    assert told["p_status"] == "FAILED"
    assert not scene.folder.exists()


async def test_an_engine_that_changes_things_continues_without_a_part_that_has_ended(scene: Scene) -> None:
    changing, broken = asyncio.Event(), asyncio.Event()

    async def change(_: Workspace) -> None:
        changing.set()
        await broken.wait()

    async def breaks_later(reporter: Reporter) -> None:
        await reporter._changed.wait()
        await reporter._send()
        await changing.wait()
        broken.set()
        await breaks()

    scene.monkeypatch.setattr(Reporter, "run", breaks_later)
    outcome = await scene.run(Network(lambda *_: ENDED), JobPhase.APPLY, change)
    assert scene.handle.control.stop is None
    assert outcome.status is JobStatus.SUCCEEDED


@pytest.mark.parametrize(
    ("answer", "is_kept"), [((404, {"message": "no Route"}), True), ((403, {}), True), (refusal("RY410"), False)]
)
async def test_a_saved_end_is_dropped_only_after_the_projects_own_refusal(
    scene: Scene, answer: Any, is_kept: bool
) -> None:
    async def nothing(_: Workspace) -> None:
        return

    await scene.run(Network(lambda name, _: answer if name == "worker_finish" else ENDED), JobPhase.PLAN, nothing)
    saved = load_attempt(scene.folder)
    assert (saved is not None and saved.outcome is not None) is is_kept


async def test_a_state_that_is_not_delivered_any_more_keeps_the_attempt_on_disk(scene: Scene) -> None:
    async def write(space: Workspace) -> None:
        await space.backend.store.state_put(space.ref, "{}", "lock")
        await waits(space)

    async def breaks_later(state: JournaledState) -> None:
        await state._has_more.wait()
        await breaks()

    scene.monkeypatch.setattr(JournaledState, "run", breaks_later)
    network = Network(lambda *_: ENDED)
    await scene.run(network, JobPhase.PLAN, write)
    assert network.named("worker_finish") == []
    assert len(list((scene.folder / FOLDER).iterdir())) == 1
    saved = load_attempt(scene.folder)
    assert saved is not None
    assert saved.outcome is not None


async def ask_for_the_lock(space: Workspace) -> int:
    told = space.backend.variables()
    async with httpx.AsyncClient(timeout=60) as http:
        lock = http.request(
            "LOCK",
            told["TF_HTTP_ADDRESS"],
            content=b'{"ID": "x"}',
            auth=(told["TF_HTTP_USERNAME"], told["TF_HTTP_PASSWORD"]),
        )
        return (await lock).status_code


@pytest.mark.parametrize(
    ("lock", "is_touched", "is_returned"),
    [((503, {}), False, True), ((503, {}), True, False), (refusal("RY423"), False, False), ({}, False, False)],
    ids=["project away", "after a change", "locked by another", "locked"],
)
async def test_an_apply_that_could_not_reach_its_lock_is_given_back(
    scene: Scene, lock: Any, is_touched: bool, is_returned: bool
) -> None:
    async def apply(space: Workspace) -> None:
        await ask_for_the_lock(space)
        raise JobFailed("tofu apply ended with exit code 1.", code="engine_failed")

    scene.handle.control.has_touched = is_touched
    network = Network(lambda name, _: lock if name == "worker_state_lock" else ENDED)
    with stamina.set_testing(True):
        outcome = await scene.run(network, JobPhase.APPLY, apply)
    assert outcome.is_returned == is_returned
    assert [body["p_code"] for body in network.named("worker_return_job")] == ["not_begun"] * is_returned
    assert [body["p_status"] for body in network.named("worker_finish")] == ["FAILED"] * (not is_returned)


async def test_an_outage_that_ended_before_the_engine_failed_is_not_the_reason(scene: Scene) -> None:
    answers = iter([(503, {}), {}])

    async def apply(space: Workspace) -> None:
        assert [await ask_for_the_lock(space) for _ in range(2)] == [503, 200]
        raise JobFailed("tofu apply ended with exit code 1.", code="engine_failed")

    network = Network(lambda name, _: next(answers) if name == "worker_state_lock" else ENDED)
    with stamina.set_testing(True):
        outcome = await scene.run(network, JobPhase.APPLY, apply)
    assert (outcome.is_returned, outcome.status) == (False, JobStatus.FAILED)


async def test_code_that_is_nested_too_deeply_is_named_and_no_defect_of_the_runner(scene: Scene) -> None:
    async def read(_: Workspace) -> None:
        parse("main.tf", "locals { a = " + "{ b = " * 3000 + "1" + "}" * 3000 + "}")

    outcome = await scene.run(Network(lambda *_: ENDED), JobPhase.INIT, read)
    assert outcome.error is not None
    assert outcome.error["code"] == "too_deep"
    assert "nests braces" in outcome.error["message"]
