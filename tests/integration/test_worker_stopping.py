"""Stopping: cancel in three ways in each phase, drain, signals, revocation, takeover."""

import signal
from itertools import product
from pathlib import Path

import pytest

from tests.faults.worker_engine import make_engine
from tests.integration.worker_bench import Bench, WorkerProcess, bench, until
from tests.support.extent import sampled
from tests.support.waiting import wait_until
from worker.errors import ExitCode

__all__ = ["bench"]

SLOW_APPLY = """
resource "terraform_data" "slow" {
  input = "x"
  provisioner "local-exec" { command = "echo begun; sleep 600; echo slept" }
}
resource "terraform_data" "after" {
  input      = "y"
  depends_on = [terraform_data.slow]
}
"""
# Each link of the chain costs a good part of a second; an interrupted engine ends the one that it is at, and begins no other.
# The variable keeps the work out of the validation before the plan, which cannot be interrupted. (bcrypt would not do: a plan
# does not call functions whose result is new each time.)
LENGTH = """
variable "length" {
  default = 20
}
"""
LINK = """
resource "terraform_data" "slow%d" {
  input = length(flatten([for i in range(var.length) : [for j in range(1000) : i * j]]))
  depends_on = [%s]
}
"""
# The line that the command itself prints: the engine shows the whole command before it starts it.
BEGUN = "begun\n"
PROMPT = {"RUNYARD__JOBLOGSTREAM__PERIODSECONDS": "0.3"}
WAIT = "echo waiting here; exec sleep 600"
# Only a kill ends it: a child that an interrupt ends could end before the test continues.
STUBBORN = "trap '' INT; echo begun; while :; do sleep 600; done"
PHASES = {
    "before-init": {"hooks": {"before_init": WAIT}},
    "before-plan": {"hooks": {"before_plan": WAIT}},
    "before-apply": {"hooks": {"before_apply": WAIT}},
}


def slow_plan(links: int) -> str:
    return LENGTH + "".join(LINK % (n, f"terraform_data.slow{n - 1}" if n else "") for n in range(links))


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A file that a job waits for."""
    return tmp_path / "gate"


def cancel(bench: Bench, job: int, kind: str) -> None:
    bench.rpc("cancel_job", p_job=job, p_kind=kind, p_reason="changed my mind")


@pytest.mark.parametrize(("step", "kind"), sampled([*product(PHASES, ("GRACEFUL", "KILL"))], 3))
def test_a_job_is_cancelled_in_each_phase(served: Bench, step: str, kind: str) -> None:
    job = served.enqueue("APPLY", served.module(**PHASES[step]))
    served.wait_step(job, step)
    cancel(served, job, kind)
    ended = served.wait_job(job)
    assert ended["status"] == "CANCELLED", ended["error"]
    statuses = {each["name"]: each["status"] for each in ended["steps"]}
    assert statuses[step] == "CANCELLED"
    assert statuses["output"] == "SKIPPED"
    assert statuses["report"] == "SUCCEEDED"


def test_an_after_step_cancel_finishes_the_step_and_runs_no_other(bench: Bench, gate: Path) -> None:
    runner = bench.runner()
    module = bench.module(hooks={"before_plan": f"{until(gate)}; echo the hook has finished"})
    job = bench.enqueue("APPLY", module)
    bench.wait_step(job, "before-plan")
    cancel(bench, job, "AFTER_STEP")
    wait_until(lambda: runner.said("cancelling"))
    gate.touch()
    ended = bench.wait_job(job)
    statuses = {each["name"]: each["status"] for each in ended["steps"]}
    assert ended["status"] == "CANCELLED"
    assert statuses["before-plan"] == "SUCCEEDED"
    assert statuses["plan"] == "SKIPPED"
    assert "the hook has finished" in bench.log_of(job)


def test_a_graceful_cancel_of_an_apply_saves_the_state(bench: Bench) -> None:
    bench.runner(**PROMPT)
    module = bench.module(source={"files": {"main.tf": SLOW_APPLY}})
    job = bench.enqueue("APPLY", module)
    wait_until(lambda: BEGUN in bench.log_of(job), timeout_seconds=180)
    cancel(bench, job, "GRACEFUL")
    ended = bench.wait_job(job)
    assert ended["status"] == "CANCELLED"
    assert bench.rpc("state_info", p_module=module)["serial"] >= 1
    assert bench.rpc("state_info", p_module=module)["lock"] is None
    log = bench.log_of(job)
    assert "Interrupt received" in log
    assert "Two interrupts received" not in log
    again = bench.finished("PLAN", module)
    assert again["plan_summary"]["has_changes"]


@pytest.mark.parametrize("kind", sampled(["GRACEFUL", "KILL"], 1))
def test_a_plan_is_cancelled_inside_of_the_engine(bench: Bench, kind: str) -> None:
    bench.runner(**PROMPT)
    module = bench.module(source={"files": {"main.tf": slow_plan(800)}})
    job = bench.enqueue("APPLY", module)
    # The engine hears a signal once it has begun to work, and it begins with the lock.
    wait_until(lambda: bench.rpc("state_info", p_module=module)["lock"], timeout_seconds=180)
    cancel(bench, job, kind)
    ended = bench.wait_job(job)
    statuses = {each["name"]: each["status"] for each in ended["steps"]}
    assert ended["status"] == "CANCELLED"
    assert statuses["plan"] == "CANCELLED"
    assert statuses["apply"] == "SKIPPED"
    assert ("Interrupt received" in bench.log_of(job)) == (kind == "GRACEFUL")
    assert bench.rpc("state_info", p_module=module)["lock"] is None


def test_a_plan_that_is_to_be_the_last_step_is_finished(bench: Bench, tmp_path: Path) -> None:
    engine = make_engine(tmp_path / "engine", bench.tofu)
    engine.hold("plan")
    runner = bench.runner(**engine.variables)
    module = bench.module()
    job = bench.enqueue("APPLY", module)
    wait_until(lambda: engine.has_begun("plan", job), timeout_seconds=180)
    cancel(bench, job, "AFTER_STEP")
    wait_until(lambda: runner.said("cancelling"))
    engine.release("plan")
    ended = bench.wait_job(job)
    statuses = {each["name"]: each["status"] for each in ended["steps"]}
    assert (ended["status"], statuses["plan"], statuses["apply"]) == ("CANCELLED", "SUCCEEDED", "SKIPPED")
    assert "Interrupt received" not in bench.log_of(job)
    assert bench.rpc("state_info", p_module=module)["lock"] is None


@pytest.mark.parametrize(("kind", "status"), [("KILL", "NEEDS_ATTENTION"), ("AFTER_STEP", "SUCCEEDED")])
def test_an_apply_that_is_stopped_ends_as_its_engine_does(bench: Bench, kind: str, status: str, gate: Path) -> None:
    runner = bench.runner(**PROMPT)
    module = bench.module(source={"files": {"main.tf": SLOW_APPLY.replace("sleep 600", until(gate))}})
    job = bench.enqueue("APPLY", module)
    wait_until(lambda: BEGUN in bench.log_of(job), timeout_seconds=180)
    cancel(bench, job, kind)
    wait_until(lambda: runner.said("cancelling"))
    if kind == "AFTER_STEP":
        gate.touch()
    ended = bench.wait_job(job)
    statuses = {each["name"]: each["status"] for each in ended["steps"]}
    assert ended["status"] == status
    assert statuses["apply"] == ("SUCCEEDED" if kind == "AFTER_STEP" else "FAILED")
    assert statuses["output"] == "SKIPPED"
    assert (bench.rpc("state_info", p_module=module)["lock"] is not None) == (kind == "KILL")
    assert ("slept\n" in bench.log_of(job)) == (kind == "AFTER_STEP")


def test_a_process_that_ignores_the_interrupt_is_killed_after_the_grace_period(bench: Bench) -> None:
    bench.runner(RUNYARD__ENGINE__STOPGRACESECONDS="2", **PROMPT)
    job = bench.enqueue("APPLY", bench.module(hooks={"before_plan": STUBBORN}))
    wait_until(lambda: BEGUN in bench.log_of(job), timeout_seconds=180)
    cancel(bench, job, "GRACEFUL")
    assert bench.wait_job(job)["status"] == "CANCELLED"


def test_a_plan_that_hangs_ends_at_its_time_limit(bench: Bench, tmp_path: Path) -> None:
    engine = make_engine(tmp_path / "engine", bench.tofu)
    engine.hold("plan")
    bench.runner(RUNYARD__ENGINE__STOPGRACESECONDS="2", **engine.variables)
    bench.rpc("update_organization", p_org=bench.org, p_time_limits={"plan": 10})
    module = bench.module()
    ended = bench.wait_job(job := bench.enqueue("PLAN", module))
    assert (ended["status"], ended["error"]["code"]) == ("FAILED", "time_limit")
    assert ended["error"]["message"] == "The job did not end within its time limit of 10s."
    assert ended["error"]["message"] in bench.log_of(job)
    assert bench.rpc("state_info", p_module=module)["lock"] is None
    engine.release("plan")
    bench.rpc("update_module", p_module=module, p_spec={"time_limits": {"plan": 600}})
    bench.finished("PLAN", module)


@pytest.mark.slow
def test_an_apply_that_hangs_is_interrupted_at_its_time_limit_and_keeps_its_state(bench: Bench) -> None:
    bench.runner(**PROMPT)
    module = bench.module(source={"files": {"main.tf": SLOW_APPLY}}, time_limits={"apply": 45})
    ended = bench.wait_job(job := bench.enqueue("APPLY", module))
    assert (ended["status"], ended["error"]["code"]) == ("FAILED", "time_limit")
    assert "Interrupt received" in bench.log_of(job)
    info = bench.rpc("state_info", p_module=module)
    assert (info["serial"] >= 1, info["lock"]) == (True, None)
    assert bench.finished("PLAN", module)["plan_summary"]["has_changes"]


def test_one_signal_drains_finishes_and_leaves(bench: Bench, gate: Path) -> None:
    runner = bench.runner()
    job = bench.enqueue("PLAN", bench.module(hooks={"before_plan": until(gate)}))
    bench.wait_step(job, "before-plan")
    runner.signal(signal.SIGTERM)
    bench.online((runner.worker_id, ""), "DRAINING")
    waiting = bench.enqueue("PLAN", bench.module())
    gate.touch()
    assert runner.wait() == ExitCode.OK
    assert bench.job(job)["status"] == "SUCCEEDED"
    assert bench.job(waiting)["status"] == "QUEUED"
    assert bench.online((runner.worker_id, ""), "OFFLINE")["status"] == "OFFLINE"


def test_two_signals_give_a_plan_back_to_the_queue(bench: Bench) -> None:
    runner = bench.runner()
    job = bench.enqueue("PLAN", bench.module(hooks={"before_plan": WAIT}))
    bench.wait_step(job, "before-plan")
    runner.signal(signal.SIGINT)
    wait_until(lambda: runner.said("leaving"))
    runner.signal(signal.SIGINT)
    assert runner.wait() == ExitCode.OK
    returned = bench.wait_job(job, "QUEUED")
    assert [event["event"] for event in bench.events_of(job)][-1] == "returned"
    assert returned["status"] == "QUEUED"


def test_two_signals_stop_an_apply_in_order_and_report_it(bench: Bench) -> None:
    runner = bench.runner(**PROMPT)
    module = bench.module(source={"files": {"main.tf": SLOW_APPLY}})
    job = bench.enqueue("APPLY", module)
    wait_until(lambda: BEGUN in bench.log_of(job), timeout_seconds=180)
    runner.signal(signal.SIGTERM)
    wait_until(lambda: runner.said("leaving"))
    runner.signal(signal.SIGTERM)
    assert runner.wait() == ExitCode.OK
    ended = bench.job(job)
    assert (ended["status"], ended["error"]["code"]) == ("FAILED", "runner_shutdown")
    assert bench.rpc("state_info", p_module=module)["serial"] >= 1


def test_five_signals_kill_and_leave(bench: Bench) -> None:
    runner = bench.runner(RUNYARD__ENGINE__STOPGRACESECONDS="600", **PROMPT)
    job = bench.enqueue("APPLY", bench.module(hooks={"before_plan": STUBBORN}))
    wait_until(lambda: BEGUN in bench.log_of(job), timeout_seconds=180)
    for count in range(1, 6):
        if runner.process.poll() is None:
            runner.signal(signal.SIGTERM)
            wait_until(lambda count=count: _rungs(runner) >= count or runner.process.poll() is not None)
    assert runner.wait(60) == ExitCode.STOPPED


def _rungs(runner: WorkerProcess) -> int:
    return sum(str(each.get("event", "")).startswith("leaving") for each in runner.events())


def test_a_runner_obeys_a_drain_by_the_server_and_resumes_afterwards(bench: Bench) -> None:
    runner = bench.runner()
    bench.rpc("drain_worker", p_worker=runner.worker_id, p_reason="maintenance")
    bench.online((runner.worker_id, ""), "DRAINING")
    job = bench.enqueue("PLAN", bench.module())
    wait_until(lambda: runner.said("draining"))
    assert bench.job(job)["status"] == "QUEUED"
    bench.rpc("resume_worker", p_worker=runner.worker_id)
    assert bench.wait_job(job)["status"] == "SUCCEEDED"
    assert runner.process.poll() is None


def test_a_disabled_runner_claims_no_job(bench: Bench) -> None:
    runner = bench.runner()
    bench.rpc("set_worker_disabled", p_worker=runner.worker_id, p_disabled=True)
    job = bench.enqueue("PLAN", bench.module())
    wait_until(lambda: bench.rpc("explain_queue", p_job=job)["claimable"] is False)
    assert bench.job(job)["status"] == "QUEUED"
    bench.rpc("set_worker_disabled", p_worker=runner.worker_id, p_disabled=False)
    assert bench.wait_job(job)["status"] == "SUCCEEDED"


def test_a_revoked_token_ends_the_process_and_its_log_gives_the_reason(bench: Bench) -> None:
    runner = bench.runner()
    token = bench.rpc("list_worker_tokens", p_worker=runner.worker_id)[0]
    bench.rpc("revoke_worker_token", p_token=token["id"])
    assert runner.wait() == ExitCode.SESSION_ENDED
    last = [each for each in runner.events() if each["level"] == "critical"][-1]
    assert "revoked" in last["why"]


def test_a_wrong_token_is_refused_at_once(bench: Bench) -> None:
    worker = bench.register()
    runner = bench.start_worker((worker[0], "ryw_" + "x" * 43))
    assert runner.wait() == ExitCode.REFUSED
    assert "not valid" in runner.output


def test_a_second_process_with_the_same_home_is_refused_on_the_spot(bench: Bench) -> None:
    runner = bench.runner()
    worker = (runner.worker_id, bench.tokens[runner.worker_id])
    second = bench.start_worker(worker, instance=runner.instance, home=runner.home)
    assert second.wait() == ExitCode.CONFLICT
    assert str(runner.process.pid) in second.output


def test_a_second_process_elsewhere_waits_and_does_not_disturb_the_first(bench: Bench) -> None:
    runner = bench.runner()
    worker = (runner.worker_id, bench.tokens[runner.worker_id])
    second = bench.start_worker(worker)
    wait_until(lambda: second.said("session_not_opened"))
    assert second.process.poll() is None
    assert bench.finished("PLAN", bench.module())["instance_name"] == runner.instance


def test_single_runs_one_job_and_its_exit_code_shows_the_result(bench: Bench) -> None:
    worker = bench.register()
    good, bad = bench.module(), bench.module(hooks={"before_init": "exit 1"})
    first = bench.enqueue("PLAN", good)
    assert bench.start_worker(worker, "--single").wait() == ExitCode.OK
    assert bench.job(first)["status"] == "SUCCEEDED"
    second = bench.enqueue("PLAN", bad)
    assert bench.start_worker(worker, "--single").wait() == ExitCode.JOB_FAILED
    assert bench.job(second)["status"] == "FAILED"
