"""A module that wants what is not its own: real hooks and provisioners on a real runner."""

import uuid
from pathlib import Path

import pytest

from tests.integration.test_worker_stopping import SLOW_APPLY
from tests.integration.worker_bench import Bench, WorkerProcess, bench
from tests.support.waiting import wait_until
from worker.exit_codes import ExitCode

__all__ = ["bench"]

SANDBOXES = ["bubblewrap", "namespaces"]
WAYS = "RUNYARD__ENGINE__ISOLATION__WAYS"
# Everything that was shown to work before jobs were shut in.
LOOT = """
for each in /proc/[0-9]*; do tr '\\0' '\\n' < $each/environ; done 2>/dev/null
find / -xdev -name WORKER_TOKEN -exec cat {} + 2>/dev/null
cat SECRETS/WORKER_TOKEN HOME/instances/*/* OTHER/* 2>/dev/null
ls ~ /run/secrets /var/run/docker.sock
echo looted
"""
PROVISIONER = """
resource "terraform_data" "looter" {
  provisioner "local-exec" { command = file("${path.module}/loot.sh") }
}
"""


def runner_with_a_token_in_a_file(bench: Bench, **variables: str) -> tuple[WorkerProcess, str, Path]:
    worker = bench.register()
    secrets = bench.folder / "secrets"
    secrets.mkdir()
    (secrets / "WORKER_TOKEN").write_text(worker[1])
    process = bench.start_worker(worker, WORKER_TOKEN="", RUNYARD_SECRETS=str(secrets), **variables)
    bench.online(worker)
    return process, worker[1], secrets


def looter(bench: Bench, process: WorkerProcess, secrets: Path, other: Path) -> str:
    return LOOT.replace("SECRETS", str(secrets)).replace("HOME", str(process.home)).replace("OTHER", str(other))


@pytest.mark.parametrize("way", SANDBOXES)
def test_hooks_and_provisioners_read_neither_the_token_nor_another_job(bench: Bench, way: str) -> None:
    process, token, secrets = runner_with_a_token_in_a_file(bench, **{WAYS: way})
    if not process.said("jobs are shut in"):
        pytest.skip("this machine cannot")
    other = process.home / ".temp/job-of-another"
    other.mkdir(parents=True)
    (other / "secret").write_text("password-of-another-job")
    script = looter(bench, process, secrets, other)
    module = bench.module(
        source={"files": {"main.tf": PROVISIONER, "loot.sh": script}},
        hooks={"before_plan": script, "after_apply": script},
    )
    job = bench.finished("APPLY", module)
    log = bench.log_of(job["id"])
    assert log.count("looted") >= 3
    assert token not in log
    # The log masks the token: what it masked was read.
    assert "****" not in log.replace("TF_TOKEN", "")
    assert "password-of-another-job" not in log


@pytest.mark.parametrize("way", SANDBOXES)
def test_what_a_job_starts_ends_with_it_also_outside_of_its_session_and_environment(bench: Bench, way: str) -> None:
    process = bench.runner(**{WAYS: way})
    if not process.said("jobs are shut in"):
        pytest.skip("this machine cannot")
    mark = f"4{uuid.uuid4().int % 10**8:08}"
    hook = f"env -i setsid sleep {mark} >/dev/null 2>&1 & sleep 0.3"
    bench.finished("PLAN", bench.module(hooks={"before_init": hook}))
    wait_until(lambda: not running(mark))


@pytest.mark.parametrize("way", SANDBOXES)
def test_an_apply_that_is_stopped_in_its_sandbox_gets_one_interrupt_and_stores_its_state(
    bench: Bench, way: str
) -> None:
    process = bench.runner(**{WAYS: way, "RUNYARD__JOBLOGSTREAM__PERIODSECONDS": "0.3"})
    if not process.said("jobs are shut in"):
        pytest.skip("this machine cannot")
    module = bench.module(source={"files": {"main.tf": SLOW_APPLY}})
    job = bench.enqueue("APPLY", module)
    wait_until(lambda: "begun" in bench.log_of(job), timeout_seconds=90)
    bench.rpc("cancel_job", p_job=job, p_kind="GRACEFUL", p_reason="changed my mind")
    assert bench.wait_job(job)["status"] == "CANCELLED"
    log = bench.log_of(job)
    assert "Interrupt received" in log
    assert "Two interrupts received" not in log
    state = bench.rpc("state_info", p_module=module)
    assert state["serial"] >= 1
    assert state["lock"] is None


def test_a_link_in_the_place_of_the_plan_brings_nothing_to_light(bench: Bench) -> None:
    _, _, secrets = runner_with_a_token_in_a_file(bench)
    hook = f'ln -sf {secrets}/WORKER_TOKEN "$TMPDIR/../plan.tfplan"'
    job = bench.wait_job(bench.enqueue("PLAN", bench.module(hooks={"after_plan": hook})))
    assert (job["status"], job["error"]["code"]) == ("FAILED", "no_plan")


def test_without_a_sandbox_jobs_run_as_before_and_the_runner_says_so(bench: Bench) -> None:
    process = bench.runner(**{WAYS: "[]"})
    assert process.said("jobs are not shut in: they can do what this user can")
    token = bench.tokens[process.worker_id]
    hook = "for each in /proc/[0-9]*; do tr '\\0' '\\n' < $each/environ; done 2>/dev/null | sed s/ryw_/found_/; echo looked"
    job = bench.finished("PLAN", bench.module(hooks={"before_plan": hook}))
    log = bench.log_of(job["id"])
    assert "looked" in log
    assert token.removeprefix("ryw_") not in log
    assert bench.rows("worker_instances", worker_id=process.worker_id)[0]["facts"]["isolation"] == "none"


def test_a_runner_that_must_shut_jobs_in_and_cannot_leaves_at_once(bench: Bench) -> None:
    worker = bench.register()
    process = bench.start_worker(worker, **{WAYS: "[]", "RUNYARD__ENGINE__ISOLATION__MODE": "required"})
    assert process.wait() == ExitCode.SETTINGS
    assert "bubblewrap" in process.output


def test_a_shared_runner_that_cannot_shut_jobs_in_leaves_at_once(bench: Bench) -> None:
    worker = bench.register()
    with bench.database() as database:
        database.execute(
            "update public.workers set org_id = null, is_shared = true, type = 'shared' where id = %s", [worker[0]]
        )
    process = bench.start_worker(worker, **{WAYS: "[]"})
    assert process.wait() == ExitCode.SETTINGS
    assert "This is a shared runner" in process.output


def running(mark: str) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        found += [entry.name] if mark.encode() in words else []
    return found
