"""The job by which a runner updates itself: the order of its steps, and the files that it leaves when it is given up."""

import asyncio
import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.worker.fakes import HandClock
from worker.api.replies import ClaimedJob, JobRef
from worker.attempt.control import JobControl, Lease
from worker.attempt.workspace import Workspace
from worker.enums import JobType
from worker.errors import JobFailed, JobInterrupted
from worker.logs.redactor import Redactor
from worker.process_status import ProcessStatus
from worker.program import Program
from worker.running.table import JobHandle, JobTable
from worker.settings.model import UpdateSettings
from worker.update.handover import Note, Updater, leave_note
from worker.update.recipe import is_own_update, update_recipe
from worker.version import __version__

pytestmark = pytest.mark.anyio


def script(version: str) -> bytes:
    return f"#!/bin/sh\necho {version}\n".encode()


class Place:
    """A runner in the middle of its update's job."""

    def __init__(self, program: Program, version: str = "99.0.0", says: str = "99.0.0") -> None:
        self.program = program
        self.home = program.path.parent.parent
        self.process_status, self.table = ProcessStatus(), JobTable(HandClock())
        self.announced: list[bool] = []
        self.drained = asyncio.Event()
        self.updater: Updater | None = Updater(
            program, self.home, self.process_status, self.table.wait_empty, self.announce
        )
        self.release = self.home / "release"
        self.release.write_bytes(script(says))
        url, digest = f"https://example.org/{version}", hashlib.sha256(script(says)).hexdigest()
        offer = {"name": program.artifact, "url": url, "sha256": digest}
        spec = {"version": version, "is_own": True, "artifacts": [offer]}
        self.job = ClaimedJob(id=7, attempt=1, type=JobType.UPDATE_WORKER, payload={"lifecycle": spec})

    def announce(self) -> None:
        self.announced.append(self.process_status.is_draining)
        self.drained.set()

    def space(self) -> Workspace:
        settings = SimpleNamespace(update=UpdateSettings(enabled=True), server=SimpleNamespace(url="http://project"))
        context = SimpleNamespace(settings=settings, environ={"PATH": "/usr/bin:/bin"})
        ref, log = JobRef(job=7, attempt=1), SimpleNamespace(redactor=Redactor())
        made = SimpleNamespace(job=self.job, context=context, log=log, ref=ref, result={}, say=lambda _: None)
        return cast("Workspace", made)

    async def run(self) -> Workspace:
        space = self.space()
        for step in update_recipe(space, self.updater):
            await step.act(space)
        return space

    def files(self) -> list[str]:
        return [path.name for path in self.program.path.parent.iterdir()]


@pytest.fixture
def place(program: Program, monkeypatch: pytest.MonkeyPatch) -> Place:
    made = Place(program)
    offered(monkeypatch, made)
    return made


def offered(monkeypatch: pytest.MonkeyPatch, place: Place) -> None:
    """Make every address lead to the release's file."""

    async def download(_url: str, target: Path, **_: Any) -> str:
        target.write_bytes(place.release.read_bytes())
        return hashlib.sha256(place.release.read_bytes()).hexdigest()

    monkeypatch.setattr("worker.update.recipe.download", download)


def test_only_a_job_about_the_runner_itself_is_its_own_update(place: Place) -> None:
    assert is_own_update(place.job)
    assert not is_own_update(place.job.model_copy(update={"payload": {"lifecycle": {"version": "1"}}}))
    assert not is_own_update(place.job.model_copy(update={"type": JobType.DEPLOY_WORKER}))


async def test_it_drains_hands_over_and_gives_the_job_back(place: Place) -> None:
    with pytest.raises(JobInterrupted, match=r"Restarting as 99\.0\.0"):
        await place.run()
    handover = place.process_status.handover
    assert handover is not None
    assert (handover.version, handover.job, handover.new.read_bytes()) == ("99.0.0", 7, script("99.0.0"))
    assert (place.process_status.is_leaving, place.announced) == (True, [True])


async def test_the_new_version_ends_the_job(program: Program) -> None:
    space = await Place(program, version=__version__).run()
    assert space.result == {"version": __version__}


async def test_the_old_version_reports_a_failed_update_once(place: Place) -> None:
    leave_note(place.home, Note(7, "99.0.0", "It ended with exit code 3."))
    with pytest.raises(JobFailed, match="exit code 3") as failure:
        await place.run()
    assert failure.value.code == "update_rolled_back"
    assert [step.name for step in update_recipe(place.space(), place.updater)] == ["fetch", "check", "restart"]


async def test_a_note_about_another_job_is_not_this_ones(place: Place) -> None:
    leave_note(place.home, Note(6, "98.0.0", "It ended with exit code 3."))
    assert [step.name for step in update_recipe(place.space(), place.updater)] == ["fetch", "check", "restart"]


async def test_without_the_permission_nothing_is_fetched(place: Place) -> None:
    place.updater = None
    with pytest.raises(JobFailed) as failure:
        await place.run()
    assert failure.value.code == "update_not_permitted"
    assert place.files() == ["runyard-worker"]


async def test_a_file_with_another_version_is_given_up_before_anything_stops(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(program, says="98.7.6")
    offered(monkeypatch, place)
    with pytest.raises(JobFailed, match=r"98\.7\.6") as failure:
        await place.run()
    assert failure.value.code == "update_broken"
    assert (place.files(), place.announced) == (["runyard-worker"], [])


async def test_a_runner_accepts_jobs_again_after_an_update_was_cancelled_while_waiting(place: Place) -> None:
    other = ClaimedJob(id=8, attempt=1, type=JobType.PLAN)
    place.table.add(JobHandle(other, Lease(0, 60), JobControl(1)))
    update = asyncio.create_task(place.run())
    async with asyncio.timeout(180):
        await place.drained.wait()
    assert place.process_status.free_slots(1) == 0
    update.cancel()
    with pytest.raises(asyncio.CancelledError):
        await update
    assert (place.process_status.is_draining, place.announced) == (False, [True, False])
    assert (place.files(), place.process_status.handover) == (["runyard-worker"], None)


async def test_a_stop_signal_during_an_update_stops_the_runner_instead_of_restarting_it(place: Place) -> None:
    place.process_status.is_leaving = True
    with pytest.raises(JobInterrupted, match="stop signal"):
        await place.run()
    assert (place.files(), place.process_status.handover) == (["runyard-worker"], None)
