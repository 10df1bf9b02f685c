"""The parts of a job: its payload, its steps, its control, its hooks."""

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.waiting import eventually
from tests.unit.worker.fakes import HandClock, Network, refusal
from worker.api.replies import ClaimedJob, JobRef
from worker.attempt.control import JobControl, Stop, StopCause
from worker.attempt.outcome import failure
from worker.attempt.spec import read_spec
from worker.children.child import Command
from worker.enums import CHANGING_PHASES, CancelKind, JobPhase, JobStatus, JobType
from worker.errors import EngineKilled, Fenced, JobCancelled, JobFailed, JobInterrupted, JobTimedOut
from worker.running.reporter import Reporter
from worker.settings.load import load_settings
from worker.settings.model import Settings
from worker.steps.fetch import find_folder
from worker.steps.hooks import approved_hooks, check_approved
from worker.steps.recipes import recipe

pytestmark = pytest.mark.anyio
REF = JobRef(job=1, attempt=1)


def claimed(kind: JobType = JobType.PLAN, **module: Any) -> ClaimedJob:
    whole = {"source_kind": "inline", "source": {"files": {}}, "engine": "tofu", "hooks": None, **module}
    payload = {
        "module": whole,
        "group": {"hooks": {"before_plan": "group"}},
        "options": {"destroy": None},
    }
    return ClaimedJob(id=1, attempt=1, type=kind, payload=payload)


def names(kind: JobType, *, has_saved_plan: bool = False, **module: Any) -> list[str]:
    return [step.name for step in recipe(kind, read_spec(claimed(kind, **module)), has_saved_plan=has_saved_plan)]


BEGINNING = ["prepare", "fetch", "inputs", "init"]


@pytest.mark.parametrize(
    ("kind", "has_saved_plan", "expected"),
    [
        (JobType.PLAN, False, ["before-plan", "plan", "save-plan"]),
        (JobType.DRIFT, False, ["before-plan", "plan"]),
        (JobType.APPLY, False, ["before-plan", "plan", "apply", "output"]),
        (JobType.APPLY, True, ["load-plan", "apply", "output"]),
        (JobType.DESTROY, False, ["before-plan", "plan", "destroy"]),
        (JobType.OUTPUT, False, ["output"]),
    ],
)
def test_each_type_has_its_steps(kind: JobType, has_saved_plan: bool, expected: list[str]) -> None:
    assert names(kind, has_saved_plan=has_saved_plan) == BEGINNING + expected


def test_hooks_surround_their_task_and_share_its_phase() -> None:
    hooks = {"before_apply": "x", "after_apply": "y", "after_init": "z"}
    steps = recipe(JobType.APPLY, read_spec(claimed(JobType.APPLY, hooks=hooks)), has_saved_plan=True)
    order = [step.name for step in steps]
    assert order[4:8] == ["after-init", "load-plan", "before-apply", "apply"]
    assert {step.phase for step in steps if step.name.endswith("apply")} == {JobPhase.APPLY}


def test_nothing_changes_infrastructure_outside_of_the_changing_phases() -> None:
    for kind in (JobType.PLAN, JobType.DRIFT, JobType.OUTPUT):
        assert (
            not {step.phase for step in recipe(kind, read_spec(claimed(kind)), has_saved_plan=False)} & CHANGING_PHASES
        )


def test_the_module_wins_over_its_groups() -> None:
    spec = read_spec(claimed(hooks={"before_plan": "module"}))
    hook = spec.hook("before_plan")
    assert hook is not None
    assert hook.script == "module"
    inherited = read_spec(claimed()).hook("before_plan")
    assert inherited is not None
    assert inherited.script == "group"


def test_a_payload_that_cannot_be_read_is_the_jobs_error() -> None:
    with pytest.raises(JobFailed) as caught:
        read_spec(claimed(engine="ansible"))
    assert caught.value.code == "bad_payload"
    assert "engine" in caught.value.message


def test_approval_is_by_content_not_by_name(tmp_path: Path) -> None:
    (tmp_path / "whatever").write_bytes(b"echo yes\n")
    check_approved("before_plan", b"echo yes\n", tmp_path)
    for other in (b"echo yes", b"echo no\n"):
        with pytest.raises(JobFailed) as caught:
            check_approved("before_plan", other, tmp_path)
        assert hashlib.sha256(other).hexdigest() in caught.value.message
    with pytest.raises(JobFailed):
        check_approved("before_plan", b"echo yes\n", tmp_path / "missing")


def approving(directory: Path, *, is_on: bool = True) -> Settings:
    """Settings of a runner that approves the files in a directory."""
    return load_settings(
        environ={
            "WORKER_ID": "7b0b1c9e-8f0c-4a77-9d0c-0d8b0a7c2f11",
            "WORKER_TOKEN": "ryw_x",
            "SUPABASE_URL": "http://x",
            "RUNYARD__HOOKSPREAPPROVAL__ENABLED": str(is_on),
            "RUNYARD__HOOKSPREAPPROVAL__PREAPPROVEDHOOKSDIRECTORY": str(directory),
        }
    )


def test_an_executor_receives_only_the_job_s_own_approved_hooks(tmp_path: Path) -> None:
    for name in ("yes", "of another module"):
        (tmp_path / name).write_text(f"echo {name}\n")
    spec = read_spec(claimed(hooks={"before_plan": "echo yes\n", "after_plan": {"script": "echo no\n"}}))
    told = approved_hooks(spec, approving(tmp_path))
    assert told == [hashlib.sha256(b"echo yes\n").hexdigest()]
    check_approved("before_plan", b"echo yes\n", tmp_path / "missing", told)
    with pytest.raises(JobFailed):
        check_approved("after_plan", b"echo no\n", tmp_path / "missing", told)
    assert approved_hooks(spec, approving(tmp_path, is_on=False)) == []


def test_a_subfolder_cannot_lead_out_of_the_source(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "inner").mkdir(parents=True)
    (source / "link").symlink_to(tmp_path)
    assert find_folder(source, "inner/") == (source / "inner").resolve()
    for bad in ("../", "link", "missing"):
        with pytest.raises(JobFailed):
            find_folder(source, bad)


# ---------------------------------------------------------------------------------------------- control


async def ignore(_: bytes) -> None:
    return


def stop(kind: CancelKind, cause: StopCause = StopCause.CANCELLED) -> Stop:
    return Stop(kind, cause, "because")


async def truth(value: bool) -> bool:
    return value


async def test_a_stop_ends_a_step_that_waits_for_something_else_than_a_child() -> None:
    control = JobControl(1)
    waiting = asyncio.ensure_future(control.run_step(asyncio.sleep(1000)))
    await asyncio.sleep(0)
    control.request(stop(CancelKind.GRACEFUL))
    with pytest.raises(JobCancelled):
        await waiting


async def test_after_step_counts_only_between_steps() -> None:
    control = JobControl(1)
    control.request(stop(CancelKind.AFTER_STEP))
    await control.run_step(asyncio.sleep(0))
    control.check()
    with pytest.raises(JobCancelled):
        control.check(is_between_steps=True)


async def test_a_stop_can_only_become_more_urgent_and_keeps_its_cause() -> None:
    control = JobControl(1)
    control.request(stop(CancelKind.GRACEFUL, StopCause.LEASE))
    control.request(stop(CancelKind.AFTER_STEP))
    control.request(stop(CancelKind.KILL, StopCause.SHUTDOWN))
    assert control.stop == stop(CancelKind.KILL, StopCause.LEASE)
    with pytest.raises(JobInterrupted):
        control.check()


STUBBORN = ("/bin/sh", "-c", "trap '' INT; while :; do sleep 0.05; done")


async def test_what_takes_longer_than_its_limit_is_stopped_and_killed_and_says_so(tmp_path: Path) -> None:
    control = JobControl(0.01)
    with pytest.raises(JobTimedOut) as caught, control.limited(0.1):
        await control.run_child(Command(STUBBORN, tmp_path, {"PATH": "/usr/bin:/bin"}), ignore)
    outcome = failure(caught.value)
    assert (outcome.status, (outcome.error or {})["code"]) == (JobStatus.FAILED, "time_limit")
    assert caught.value.message.startswith("The job did not end within its time limit of")


async def test_an_engine_that_its_time_limit_kills_in_a_change_leaves_it_to_a_person(tmp_path: Path) -> None:
    control = JobControl(0.01)
    with pytest.raises(EngineKilled, match=r"signal 9 .* time limit of"), control.limited(0.1):
        await control.run_child(Command(STUBBORN, tmp_path, {"PATH": "/usr/bin:/bin"}), ignore, is_changing=True)


async def test_a_limit_ends_with_what_it_limits() -> None:
    control = JobControl(1)
    with control.limited(0.001):
        await control.run_step(asyncio.sleep(0))
    await asyncio.sleep(0.01)
    assert control.stop is None


def test_the_modules_own_limits_override_those_of_its_groups() -> None:
    spec = read_spec(claimed(time_limits={"plan": 7}))
    assert (spec.time_limits.plan, spec.time_limits.apply, spec.time_limits.hook) == (7, 4 * 3600, None)


async def test_a_stopped_child_ends_the_step_with_the_stop(tmp_path: Path) -> None:
    control = JobControl(60)
    script = "trap 'exit 1' INT; touch ready; while :; do sleep 0.05; done"
    command = Command(("/bin/sh", "-c", script), tmp_path, {"PATH": "/usr/bin:/bin"})
    running = asyncio.ensure_future(control.run_child(command, ignore))
    await eventually(lambda: truth((tmp_path / "ready").exists()))
    control.request(stop(CancelKind.GRACEFUL))
    with pytest.raises(JobCancelled):
        await running


async def stopped_child(folder: Path, script: str, kind: CancelKind, *, is_changing: bool = False) -> int:
    """Run a script until it is ready, request its stop, and return its result."""
    control = JobControl(60)
    command = Command(("/bin/sh", "-c", script), folder, {"PATH": "/usr/bin:/bin"})
    running = asyncio.ensure_future(control.run_child(command, ignore, is_changing=is_changing))
    await eventually(lambda: truth((folder / "ready").exists()))
    control.request(stop(kind))
    return await running


async def test_a_child_that_ended_well_although_it_was_interrupted_has_ended_well(tmp_path: Path) -> None:
    script = "trap 'exit 0' INT; touch ready; while :; do sleep 0.05; done"
    assert await stopped_child(tmp_path, script, CancelKind.GRACEFUL, is_changing=True) == 0


@pytest.mark.parametrize("end", ["kill -9 $$", "exit 137"])
async def test_an_engine_that_was_killed_in_a_change_leaves_it_to_a_person(tmp_path: Path, end: str) -> None:
    command = Command(("/bin/sh", "-c", end), tmp_path, {"PATH": "/usr/bin:/bin"})
    with pytest.raises(EngineKilled) as caught:
        await JobControl(60).run_child(command, ignore, is_changing=True)
    assert "killed by signal 9" in caught.value.message
    assert failure(caught.value).status is JobStatus.NEEDS_ATTENTION


async def test_an_engine_killed_during_a_change_raises_engine_killed(tmp_path: Path) -> None:
    with pytest.raises(EngineKilled):
        await stopped_child(tmp_path, "touch ready; sleep 60", CancelKind.KILL, is_changing=True)


async def test_no_child_is_started_after_a_stop_was_requested(tmp_path: Path) -> None:
    control = JobControl(1)
    control.request(stop(CancelKind.KILL))
    with pytest.raises(JobCancelled):
        await control.run_child(Command(("/bin/touch", "x"), tmp_path, {}), ignore)
    assert not (tmp_path / "x").exists()


# ---------------------------------------------------------------------------------------------- reporter


async def test_the_newest_picture_is_sent_and_confirmed() -> None:
    answers: list[Any] = [httpx.ConnectError("down"), {"cancel_kind": None}]
    network = Network(lambda *_: answers.pop(0) if answers else {"cancel_kind": "GRACEFUL"})
    wishes: list[CancelKind] = []
    reporter = Reporter(network.server(), REF, HandClock(), on_cancel=wishes.append, on_fenced=lambda _: None)
    running = asyncio.create_task(reporter.run())
    reporter.begin("plan", "Plan", JobPhase.PLAN, 1)
    await reporter.confirmed()
    reporter.begin("apply", "Apply", JobPhase.APPLY, 5)
    await reporter.confirmed()
    running.cancel()
    last = network.named("worker_report")[-1]
    assert last["p_phase"] == "APPLY"
    assert [step["name"] for step in last["p_steps"]] == ["plan", "apply"]
    assert wishes == [CancelKind.GRACEFUL]


async def test_a_summary_is_sent_until_it_is_acknowledged_and_again_when_it_changes() -> None:
    answers: list[Any] = [httpx.ConnectError("down")]
    network = Network(lambda *_: answers.pop(0) if answers else {})
    reporter = Reporter(network.server(), REF, HandClock(), on_cancel=lambda _: None, on_fenced=lambda _: None)
    running = asyncio.create_task(reporter.run())
    summary = {"create": 1}
    for create in (1, 2):
        # The same object: an apply writes into it how far it is.
        summary["create"] = create
        reporter.summarise(summary)
        await reporter.confirmed()
        reporter.begin("plan", "Plan", JobPhase.PLAN, 1)
        await reporter.confirmed()
    running.cancel()
    sent = [each["p_plan_summary"] for each in network.named("worker_report")]
    assert [each and each["create"] for each in sent] == [1, 1, None, 2, None]


@pytest.mark.parametrize("answer", [(401, {"code": "PGRST301"}), (404, {"message": "no route"})])
async def test_a_report_that_was_refused_on_its_way_is_sent_again(answer: Any) -> None:
    answers = iter([answer, answer])
    network = Network(lambda *_: next(answers, {}))
    reporter = Reporter(network.server(), REF, HandClock(), on_cancel=lambda _: None, on_fenced=lambda _: None)
    running = asyncio.create_task(reporter.run())
    reporter.begin("apply", "Apply", JobPhase.APPLY, 1)
    async with asyncio.timeout(60):
        await reporter.confirmed()
    running.cancel()


async def test_a_changing_phase_does_not_begin_when_the_server_refuses_its_report() -> None:
    told: list[str] = []
    network = Network(lambda *_: refusal("RY410", "gone"))
    reporter = Reporter(network.server(), REF, HandClock(), on_cancel=lambda _: None, on_fenced=told.append)
    running = asyncio.create_task(reporter.run())
    reporter.begin("apply", "Apply", JobPhase.APPLY, 1)
    with pytest.raises(Fenced):
        await reporter.confirmed()
    running.cancel()
    assert told == ["gone"]
