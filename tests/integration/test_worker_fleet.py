"""Several runners: each job runs once, on the right one, and by polling alone where the doorbell is off."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

import pytest

from tests.faults.worker_engine import make_engine
from tests.integration.worker_bench import Bench, bench, until
from tests.support.waiting import wait_until

__all__ = ["bench"]


def writable(folder: Path) -> dict[str, str]:
    """Let jobs write there, out of their sandbox, and as whichever user."""
    folder.chmod(0o777)
    return {"RUNYARD__ENGINE__ISOLATION__WRITABLEPATHS": str(folder)}


def test_two_runners_compete_and_every_job_is_applied_once(bench: Bench, tmp_path: Path) -> None:
    engine = make_engine(tmp_path / "engine", bench.tofu)
    engine.hold("plan")
    runners = [bench.runner(options={"capacity": 3}, **engine.variables) for _ in range(2)]
    jobs = [bench.enqueue("APPLY", bench.module()) for _ in range(12)]
    # Held until each has one: the slower of them would find nothing left.
    wait_until(lambda: len({bench.job(job)["worker_id"] for job in jobs} - {None}) == 2)
    engine.release("plan")
    ended = [bench.wait_job(job) for job in jobs]
    assert {row["status"] for row in ended} == {"SUCCEEDED"}
    assert {row["attempt"] for row in ended} == {1}
    applied = [line.split() for line in engine.runs.read_text().splitlines() if line.endswith(" apply")]
    assert sorted(int(job) for job, _, _ in applied) == sorted(jobs)
    assert {row["worker_id"] for row in ended} == {runner.worker_id for runner in runners}


def test_replicas_of_one_record_share_the_work_and_a_pin_is_kept(bench: Bench, tmp_path: Path) -> None:
    worker = bench.register(allow_multiple_instances=True, capacity=1)
    for name in ("blue", "green"):
        bench.start_worker(worker, instance=name)
    wait_until(
        lambda: (
            {i["name"] for i in bench.rows("worker_instances", worker_id=worker[0], status="ONLINE")}
            == {"blue", "green"}
        )
    )
    module = bench.module(runner_instance_name="green")
    for _ in range(3):
        assert bench.finished("PLAN", module)["instance_name"] == "green"
    gate = tmp_path / "gate"
    hook = until(gate)
    free = [bench.enqueue("PLAN", bench.module(hooks={"before_init": hook})) for _ in range(3)]
    wait_until(lambda: {bench.job(job)["instance_name"] for job in free} >= {"blue", "green"})
    gate.touch()
    assert {bench.wait_job(job)["status"] for job in free} == {"SUCCEEDED"}


def test_capacity_is_the_number_of_jobs_at_a_time(bench: Bench, tmp_path: Path) -> None:
    mark = tmp_path / "marks"
    mark.mkdir()
    bench.runner(options={"capacity": 2}, **writable(mark))
    wait = until(tmp_path / "gate")
    own = f"{mark}/$RUNYARD_JOB_ID"
    # Each reports when it has counted: none may leave before the second has.
    hook = f"touch {own}; ls {mark} | grep -vc counted; touch {own}.counted; {wait}; rm {own} {own}.counted"
    jobs = [bench.enqueue("PLAN", bench.module(hooks={"before_init": hook})) for _ in range(5)]
    wait_until(lambda: len(list(mark.glob("*.counted"))) == 2)
    (tmp_path / "gate").touch()
    logs = [bench.log_of(bench.wait_job(job)["id"]) for job in jobs]
    seen = [int(line) for log in logs for line in log.splitlines() if line.strip().isdigit()]
    assert set(seen) <= {1, 2}
    assert 2 in seen


def test_without_realtime_polling_still_claims(bench: Bench) -> None:
    runner = bench.runner(RUNYARD__SERVER__REALTIME="false", RUNYARD__SERVER__POLLSECONDS="2")
    assert bench.finished("PLAN", bench.module())["status"] == "SUCCEEDED"
    assert "doorbell" not in runner.output


def test_with_realtime_a_job_begins_long_before_the_next_poll(bench: Bench) -> None:
    runner = bench.runner(RUNYARD__SERVER__POLLSECONDS="300")
    wait_until(lambda: runner.said("doorbell_connected"))
    assert bench.finished("PLAN", bench.module())["status"] == "SUCCEEDED"


def test_a_running_runner_adopts_a_changed_capacity(bench: Bench) -> None:
    runner = bench.runner()
    bench.rpc("update_worker", p_worker=runner.worker_id, p_options={"capacity": 4})
    wait_until(lambda: any(e.get("id") == "capacity_changed" and e.get("now") == 4 for e in runner.events()))


def test_a_runner_reports_that_its_engine_is_being_prepared_and_claims_no_job_meanwhile(
    bench: Bench, tmp_path: Path
) -> None:
    (tmp_path / "engine").mkdir()
    progress = tmp_path / "engine/progress.json"
    progress.write_text('{"engine": "tofu", "percent": 40, "is_done": false, "error": null}')
    clean = os.pathsep.join(p for p in ("/usr/bin", "/bin") if Path(p).is_dir())
    paths = {
        "RUNYARD__ENGINE__ADDITIONALBINARYPATHS": str(tmp_path / "engine"), "PATH": clean,
        "RUNYARD_ENGINE_CACHE": str(tmp_path / "cache"),
    }  # fmt: skip
    runner = bench.runner(**paths)

    def note() -> str:
        return str(bench.rows("worker_instances", worker_id=runner.worker_id)[0]["engine_note"])

    wait_until(lambda: note() == "tofu is being prepared, 40 %")
    job = bench.enqueue("PLAN", bench.module())
    assert bench.job(job)["status"] == "QUEUED"
    (tmp_path / "engine/tofu").symlink_to(bench.tofu)
    progress.write_text('{"engine": "tofu", "percent": 100, "is_done": true, "error": null}')
    assert bench.wait_job(job)["status"] == "SUCCEEDED"
    wait_until(lambda: note() == "None")


@pytest.mark.parametrize(("content", "expected"), [("echo approved", "SUCCEEDED"), ("echo other", "FAILED")])
def test_hooks_are_run_only_when_approved(bench: Bench, tmp_path: Path, content: str, expected: str) -> None:
    (tmp_path / "approved").mkdir()
    (tmp_path / "approved/any-name").write_text("echo approved")
    bench.runner(
        RUNYARD__HOOKSPREAPPROVAL__ENABLED="true",
        RUNYARD__HOOKSPREAPPROVAL__PREAPPROVEDHOOKSDIRECTORY=str(tmp_path / "approved"),
    )
    job = bench.wait_job(bench.enqueue("PLAN", bench.module(hooks={"after_plan": content})))
    assert job["status"] == expected
    if expected == "FAILED":
        assert job["error"]["code"] == "hook_not_approved"
        assert "\nother\n" not in bench.log_of(job["id"])


def test_a_modules_hook_replaces_the_hook_of_its_group(bench: Bench) -> None:
    bench.runner()
    hooks = {"before_init": "echo of the group", "after_init": "echo group after"}
    bench.rpc(
        "upsert_group", p_org=bench.org, p_path="apps/web", p_hooks=hooks, p_env={"FROM": "group", "BOTH": "group"}
    )
    own = {"before_init": "echo of the module; echo from=$FROM both=$BOTH"}
    log = bench.log_of(bench.finished("PLAN", bench.module(hooks=own, env={"BOTH": "module"}))["id"])
    assert "of the module" in log
    assert "of the group" not in log
    assert "group after" in log
    assert "from=group both=module" in log


def test_a_hook_that_takes_too_long_is_ended(bench: Bench) -> None:
    bench.runner(RUNYARD__HOOKS__TIMEOUTSECONDS="2")
    job = bench.wait_job(bench.enqueue("PLAN", bench.module(hooks={"before_init": "sleep 600 & wait"})))
    assert job["error"]["code"] == "hook_timeout"


def test_daemons_of_a_job_do_not_outlive_it(bench: Bench) -> None:
    bench.runner()
    # A number that no other process sleeps for: in a sandbox a process has another number than outside.
    seconds = f"98765.{secrets.randbelow(10**9)}"
    bench.finished(
        "PLAN",
        bench.module(hooks={"before_init": f"setsid sh -c 'echo > begun; exec sleep {seconds}' & {until('begun')}"}),
    )
    wait_until(lambda: not is_asleep(seconds))


def is_asleep(seconds: str) -> bool:
    """Whether any process of this machine has such an argument."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if seconds.encode() in path.read_bytes().split(b"\0"):
                return True
    return False
