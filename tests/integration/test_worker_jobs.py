"""Every type of job, from every kind of source, with a real OpenTofu and a real stack."""

import hashlib
import http.server
import io
import json
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg.sql import SQL, Identifier
from psycopg.types.json import Jsonb

from tests.integration.worker_bench import MODULE, Bench
from tests.integration.worker_bench import bench as own_bench
from tests.support.waiting import wait_until

__all__ = ["own_bench"]


@pytest.fixture
def bench(served: Bench) -> Bench:
    """Use the shared runner: any runner can do these jobs."""
    return served


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository with the module in a subfolder."""
    folder = tmp_path / "repository"
    (folder / "modules/greeting").mkdir(parents=True)
    (folder / "modules/greeting/main.tf").write_text(MODULE)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "-c", "user.name=Test", "-c", "user.email=test@example.com", "commit", "-q", "-m", "first")
    return folder


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def test_plan_approve_apply_output_destroy_of_a_module_from_git(bench: Bench, repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    source = {"url": f"file://{repository}", "ref": "main", "subfolder": "modules/greeting"}
    module = bench.module(source_kind="git", source=source, inputs={"who": "Grace"}, approvals_required=1)

    plan = bench.finished("PLAN", module)
    assert plan["result"]["commit"] == commit

    apply = bench.enqueue("APPLY", module, plan_job_id=plan["id"])
    assert bench.job(apply)["status"] == "AWAITING_APPROVAL"
    bench.rpc(
        "approve_job", p_job=apply, p_decision="approve", p_override_reason="looks right, and nobody else is here"
    )
    applied = bench.wait_job(apply)
    assert applied["status"] == "SUCCEEDED", bench.log_of(apply)
    assert "load-plan" in [step["name"] for step in applied["steps"]]
    assert applied["result"]["outputs"]["greeting"]["value"] == "hello Grace"
    assert applied["result"]["outputs"]["password"] == {"sensitive": True, "type": "string", "value": None}
    assert {each["status"] for each in applied["plan_summary"]["resources"]} == {"SUCCEEDED"}
    assert bench.rpc("state_info", p_module=module)["serial"] >= 1

    output = bench.finished("OUTPUT", module)
    assert output["result"]["outputs"]["greeting"]["value"] == "hello Grace"
    assert 'greeting = "hello Grace"' in bench.log_of(output["id"])

    drift = bench.finished("DRIFT", module)
    assert not drift["plan_summary"]["has_changes"]

    destroy = bench.enqueue("DESTROY", module)
    bench.rpc("approve_job", p_job=destroy, p_decision="approve", p_override_reason="nobody else is here")
    destroyed = bench.wait_job(destroy)
    assert destroyed["status"] == "SUCCEEDED", bench.log_of(destroy)
    assert destroyed["plan_summary"]["delete"] == 2
    again = bench.finished("PLAN", module)
    assert again["plan_summary"]["create"] == 2


def commit(repository: Path, text: str) -> str:
    (repository / "modules/greeting/main.tf").write_text(text)
    git(repository, "-c", "user.name=Test", "-c", "user.email=test@example.com", "commit", "-q", "-am", "next")
    return git(repository, "rev-parse", "HEAD")


def follow_up(bench: Bench, plan: int) -> int:
    """The job that applies a plan."""
    (row,) = bench.rows("provision_jobs", plan_job_id=plan)
    return int(row["id"])


def test_a_plan_is_confirmed_and_exactly_that_is_applied_and_destroyed(bench: Bench, repository: Path) -> None:
    source = {"url": f"file://{repository}", "ref": "main", "subfolder": "modules/greeting"}
    module = bench.module(source_kind="git", source=source, inputs={"who": "Grace"})
    plan = bench.finished("PLAN", module, confirm=True)
    first = plan["result"]["commit"]
    found = {each["address"]: each for each in bench.rpc("plan_changes", p_job=plan["id"])["resources"]}
    greeting = {each["path"]: each for each in found["terraform_data.greeting"]["attributes"]}
    assert greeting["input"]["after"] == '"hello Grace"'
    assert greeting["id"]["is_unknown"]
    assert "correct-horse-battery" not in json.dumps(found)

    apply = follow_up(bench, plan["id"])
    assert bench.job(apply)["status"] == "AWAITING_APPROVAL"
    commit(repository, MODULE.replace("hello", "goodbye"))
    bench.rpc("approve_job", p_job=apply, p_decision="approve")
    applied = bench.wait_job(apply)
    assert applied["status"] == "SUCCEEDED", bench.log_of(apply)
    assert applied["result"]["commit"] == first, "what was planned is what is applied, although main has moved on"
    assert applied["result"]["outputs"]["greeting"]["value"] == "hello Grace"

    going = bench.finished("PLAN", module, confirm=True, destroy=True)
    assert going["plan_summary"]["delete"] == 2
    destroy = follow_up(bench, going["id"])
    bench.rpc("approve_job", p_job=destroy, p_decision="approve")
    assert bench.wait_job(destroy)["status"] == "SUCCEEDED", bench.log_of(destroy)


def test_apply_without_a_plan_plans_and_applies(bench: Bench) -> None:
    module = bench.module()
    job = bench.finished("APPLY", module)
    names = [step["name"] for step in job["steps"]]
    assert names.index("plan") < names.index("apply") < names.index("output")
    assert bench.finished("PLAN", module)["plan_summary"]["has_changes"] is False


def test_a_commit_can_be_pinned(bench: Bench, repository: Path) -> None:
    first = git(repository, "rev-parse", "HEAD")
    (repository / "modules/greeting/main.tf").write_text("this is not HCL")
    git(repository, "-c", "user.name=Test", "-c", "user.email=test@example.com", "commit", "-q", "-am", "second")
    source = {"url": str(repository), "ref": first, "subfolder": "modules/greeting"}
    job = bench.finished("PLAN", bench.module(source_kind="git", source=source))
    assert job["result"]["commit"] == first


def test_a_local_folder_is_copied_without_its_state(bench: Bench, tmp_path: Path) -> None:
    folder = tmp_path / "module"
    folder.mkdir()
    (folder / "main.tf").write_text(MODULE)
    (folder / "terraform.tfstate").write_text("{}")
    job = bench.finished("PLAN", bench.module(source_kind="local", source={"path": str(folder)}))
    assert job["plan_summary"]["create"] == 2


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A URL that serves the module as an archive, and its checksum."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        info = tarfile.TarInfo("repo-1.0/main.tf")
        info.size = len(MODULE.encode())
        tar.addfile(info, io.BytesIO(MODULE.encode()))
    (tmp_path / "module.tar.gz").write_bytes(packed.getvalue())

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments, directory=str(tmp_path))  # type: ignore[arg-type]

        def log_message(self, *arguments: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/module.tar.gz", hashlib.sha256(packed.getvalue()).hexdigest()
    server.shutdown()


def test_an_archive_is_fetched_and_a_wrong_checksum_refused(bench: Bench, archive: tuple[str, str]) -> None:
    url, digest = archive
    source = {"url": url, "sha256": digest, "subfolder": "repo-1.0"}
    bench.finished("PLAN", bench.module(source_kind="archive", source=source))
    wrong = bench.module(source_kind="archive", source={**source, "sha256": "0" * 64})
    job = bench.wait_job(bench.enqueue("PLAN", wrong))
    assert (job["status"], job["error"]["code"]) == ("FAILED", "checksum")


def test_a_failing_plan_reports_its_error_and_skips_the_apply(bench: Bench) -> None:
    module = bench.module(source={"files": {"main.tf": 'resource "terraform_data" "x" { nonsense = 1 }'}})
    job = bench.wait_job(bench.enqueue("APPLY", module))
    assert job["status"] == "FAILED"
    assert "Unsupported argument" in job["error"]["message"]
    statuses = {step["name"]: step["status"] for step in job["steps"]}
    assert statuses["plan"] == "FAILED"
    assert statuses["apply"] == "SKIPPED"
    assert statuses["report"] == "SUCCEEDED"


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"extra_files": [{"path": "../../escape.txt", "content": "x"}]}, "unsafe_path"),
        ({"extra_files": [{"path": "/tmp/escape.txt", "content": "x"}]}, "unsafe_path"),
        ({"extra_files": [{"path": "main.tf", "content": "x"}]}, "file_exists"),
        ({"source_kind": "git", "source": {"url": "ext::sh -c id", "ref": "main"}}, "bad_source"),
        ({"source_kind": "git", "source": {"url": "http://127.0.0.1:9/nonexistent", "ref": "main"}}, "fetch_failed"),
        ({"source_kind": "git", "source": {"url": "file:///etc", "ref": "main"}}, "bad_source"),
        ({"source_kind": "local", "source": {"path": "/etc"}}, "bad_source"),
        ({"source_kind": "local", "source": {"path": "/nonexistent-folder"}}, "bad_source"),
    ],
)  # fmt: skip
def test_a_job_with_an_unsafe_path_or_a_bad_source_fails_with_its_reason(
    bench: Bench, spec: dict[str, object], code: str
) -> None:
    module = bench.module()
    # The database may refuse such a module itself; the runner must not rely on that.
    with bench.database() as database:
        for column, value in spec.items():
            kept = Jsonb(value) if isinstance(value, dict | list) else value
            database.execute(
                SQL("update public.modules set {} = %s where id = %s").format(Identifier(column)), [kept, module]
            )
    job = bench.wait_job(bench.enqueue("PLAN", module))
    assert job["status"] == "FAILED"
    assert job["error"]["code"] == code, job["error"]
    assert job["error"]["hint"] or code in {"unsafe_path", "file_exists"}


@pytest.mark.parametrize(("name", "value"), [("LD_PRELOAD", "/tmp/evil.so"), ("TF_CLI_ARGS_plan", "-destroy")])
def test_a_variable_that_would_change_the_engine_fails_the_job(bench: Bench, name: str, value: str) -> None:
    module = bench.module()
    # The database may refuse it itself; the runner must not rely on that.
    with bench.database() as database:
        database.execute(
            "insert into public.variables (org_id, path, kind, name, value, created_by_label)"
            " select org_id, path, 'env', %s, %s, 'test' from public.modules where id = %s",
            [name, Jsonb(value), module],
        )
    job = bench.wait_job(bench.enqueue("PLAN", module))
    assert (job["status"], job["error"]["code"]) == ("FAILED", "forbidden_variable"), job["error"]
    assert job["error"]["hint"]


def test_extra_files_inputs_and_built_in_variables_reach_the_job(bench: Bench) -> None:
    files = {"main.tf": MODULE + '\noutput "extra" { value = file("${path.module}/conf/extra.txt") }\n'}
    hook = 'env | grep -E "^(RUNYARD|TF_|COLOUR|WORKER|SUPABASE)" | sed "s/^TF_TOKEN_[^=]*=.*/has token/" | sort'
    module = bench.module(
        source={"files": files}, inputs={"who": "Alan"}, env={"COLOUR": "blue"}, hooks={"before_output": hook},
        extra_files=[{"path": "conf/extra.txt", "content": "from an extra file"}],
    )  # fmt: skip
    job = bench.finished("APPLY", module)
    assert job["result"]["outputs"]["extra"]["value"] == "from an extra file"
    log = bench.log_of(job["id"])
    for line in ("RUNYARD_GROUP_PATH=apps/web", f"RUNYARD_ENDPOINT={bench.project.url}", "COLOUR=blue", "TF_INPUT=0"):
        assert line in log
    assert "TF_IN_AUTOMATION=1" in log
    assert "has token" in log
    assert "WORKER_TOKEN" not in log
    assert "TF_HTTP_PASSWORD=***" in log


def test_the_job_directory_is_private_and_removed_afterwards(bench: Bench) -> None:
    runner = bench.processes[-1]
    hook = 'pwd; stat -c "%a" ..; ls -a ..'
    job = bench.finished("PLAN", bench.module(hooks={"before_plan": hook}))
    log = bench.log_of(job["id"])
    assert "\n700\n" in log
    assert list(runner.home.glob(".temp/job-*")) == []
    # The server has ended the job before its runner learns of it and forgets the job.
    wait_until(lambda: not list(runner.home.glob("instances/*/jobs/*")))


def test_the_log_on_the_server_is_the_log_the_runner_wrote(bench: Bench) -> None:
    hook = "i=0; while [ $i -lt 3000 ]; do echo line $i of many; i=$((i+1)); done; printf 'no newline'"
    job = bench.finished("PLAN", bench.module(hooks={"before_init": hook}))
    log = bench.log_of(job["id"])
    assert [f"line {n} of many" for n in range(3000)] == [line for line in log.splitlines() if line.endswith("of many")]
    assert "no newline\n" in log
    chunks = bench.rows("job_log_chunks", job_id=job["id"], order="seq.asc")
    assert [chunk["seq"] for chunk in chunks] == list(range(1, len(chunks) + 1))
    assert job["last_log_seq"] == len(chunks)
    assert not [event for event in bench.events_of(job["id"]) if event["event"] == "log_mismatch"]
    steps = {step["name"]: step for step in job["steps"]}
    of_init = [chunk for chunk in chunks if chunk["step"] == "init"]
    assert (steps["init"]["first_seq"], steps["init"]["last_seq"]) == (of_init[0]["seq"], of_init[-1]["seq"])


def test_secrets_of_the_host_never_reach_the_log(own_bench: Bench) -> None:
    bench = own_bench
    worker = bench.register()
    bench.start_worker(worker, AWS_SECRET_ACCESS_KEY="wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY")
    bench.online(worker)
    hook = (
        'printf "%s" "$AWS_SECRET_ACCESS_KEY" | cut -c1-20; echo; echo "key: $AWS_SECRET_ACCESS_KEY";'
        'printf "%s" "$AWS_SECRET_ACCESS_KEY" | base64; printf "wJalrXUtnFEMIK7M"; sleep 1; printf "DENGbPxRfiCYEXAMPLEKEY\\n"'
    )
    job = bench.finished("PLAN", bench.module(hooks={"before_init": hook}))
    log = bench.log_of(job["id"])
    assert "key: ***" in log
    assert "CYEXAMPLEKEY" not in log
    assert "d0phbHJYVXRuRkVNSUs3TURFTkdiUHhSZmlDWUVYQU1QTEVLRVk" not in log
    assert worker[1] not in json.dumps(bench.rows("job_log_chunks", job_id=job["id"]))
