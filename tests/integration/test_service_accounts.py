"""Service accounts end to end: the pipelines of docs/cli.md and runners' processes, with an issuer in the platforms' shapes."""

import re
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from stack.settings import PROJECT
from tests.conftest import _open_folder
from tests.integration.edge.issuer import Issuer, running_issuer
from tests.integration.worker_bench import Bench, open_bench
from tests.support.stack import RunningStack, clean_environment, start_stack
from tests.support.terminal import Terminal
from tests.unit.worker.dispatch.serving import Call, serve

WRAPPER = f'#!/bin/sh\ncd -P . && PYTHONPATH={PROJECT} exec {sys.executable} -m cli "$@"\n'
WHEEL = "https://example.com/releases/download/v1.4.0/runyard-1.4.0-py3-none-any.whl#sha256=0123"
INSTALLER = f'#!/bin/sh\n[ "$*" = "install {WHEEL}" ]\n'
SITE = {"source_kind": "inline", "source": {"files": {"main.tf": 'output "greeting" {\n  value = "hello"\n}\n'}}}
# What the platforms' tokens say, from their documentation; the issuer alone is the test's own.
GITHUB = {
    "sub": "repo:acme/infrastructure:ref:refs/heads/main", "repository": "acme/infrastructure",
    "repository_owner": "acme", "ref": "refs/heads/main", "ref_type": "branch", "event_name": "push",
    "workflow": "infrastructure", "job_workflow_ref": "acme/infrastructure/.github/workflows/infrastructure.yml@refs/heads/main",
    "runner_environment": "github-hosted", "sha": "0" * 40, "run_id": "1", "actor": "somebody",
}  # fmt: skip
GITLAB = {
    "sub": "project_path:acme/infrastructure:ref_type:branch:ref:main", "namespace_path": "acme",
    "project_path": "acme/infrastructure", "ref": "main", "ref_type": "branch", "ref_protected": "true",
    "pipeline_source": "push", "job_id": "1", "user_login": "somebody",
}  # fmt: skip
KUBERNETES = {
    "sub": "system:serviceaccount:runyard:pipeline", "aud": ["runyard"],
    "kubernetes.io": {"namespace": "runyard", "serviceaccount": {"name": "pipeline", "uid": str(uuid.uuid4())}},
}  # fmt: skip


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with running_issuer() as made:
        yield made


@pytest.fixture(scope="module")
def stack(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """A stack whose operator has named the issuer's host."""
    home = _open_folder(tmp_path_factory.mktemp("stack"))
    host = issuer.url.removeprefix("http://")
    with start_stack(home, "--no-dashboard", "--no-demo", RUNYARD_FUNCTIONS_ALLOW_NET=host) as started:
        yield started


@pytest.fixture
def bench(stack: RunningStack, tmp_path: Path) -> Iterator[Bench]:
    with open_bench(stack, tmp_path / "bench") as made:
        made.folder.mkdir()
        made.rpc("create_module", p_org=made.org, p_group_path="apps", p_name="site", p_spec={**SITE, "engine": "tofu"})
        yield made


@pytest.fixture
def admin(bench: Bench, tmp_path: Path) -> Terminal:
    """The owner's shell."""
    environment = {
        "SUPABASE_URL": bench.project.url,
        "SUPABASE_PUBLISHABLE_KEY": bench.project.publishable_key,
        "RUNYARD_ACCESS_TOKEN": bench.token,
    }
    return Terminal(tmp_path / "config", environment)


def trusting(admin: Terminal, issuer: Issuer, *claims: str, role: str = "operator") -> str:
    bound = [part for claim in claims for part in ("--claim", claim)]
    trust = ("--issuer", issuer.url, "--audience", "runyard", *bound)
    return str(admin.json("accounts", "create", f"ci-{uuid.uuid4().hex[:6]}", "--role", role, *trust)["client_id"])


def examples() -> dict[str, Any]:
    """The pipelines of the page, by their file's name."""
    text = (PROJECT / "docs" / "cli.md").read_text()
    found = re.findall(r"^    ```yaml\n    # (\S+)\n(.*?)^    ```$", text, re.MULTILINE | re.DOTALL)
    return {name: yaml.safe_load(textwrap.dedent(body)) for name, body in found}


class Machine:
    """A pipeline's machine: `runyard` on PATH, nothing kept, and the platform's variables alone."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder = folder / f"machine-{uuid.uuid4().hex[:6]}"
        programs = self.folder / "bin"
        programs.mkdir(parents=True)
        for name, text in {"runyard": WRAPPER, "pipx": INSTALLER, "pip": INSTALLER}.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        self.environment = {
            **clean_environment(),
            "PATH": f"{programs}:{clean_environment()['PATH']}",
            "RUNYARD_CONFIG_HOME": str(self.folder / "config"),
            **variables,
        }

    def type(self, *lines: str) -> "subprocess.CompletedProcess[str]":
        """Run the lines as a shell that stops at the first that fails."""
        return subprocess.run(
            ["/bin/sh", "-ec", "\n".join(lines)], cwd=self.folder, env=self.environment,
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip


def filled(variables: dict[str, str], known: dict[str, str]) -> dict[str, str]:
    return {
        name: re.sub(r"\$(?:\{\{ vars\.)?(\w+)(?: \}\})?", lambda found: known[found[1]], text)
        for name, text in variables.items()
    }


def test_the_github_pipeline_of_the_page_plans_and_applies_without_a_secret(
    bench: Bench, admin: Terminal, issuer: Issuer, tmp_path: Path
) -> None:
    bench.runner()
    account = trusting(admin, issuer, "repository=acme/infrastructure", "ref=refs/heads/main")
    asked: list[str] = []

    def token(call: Call) -> tuple[int, Any]:
        asked.append(call.headers["authorization"])
        return 200, {"value": issuer.token(**GITHUB, aud=call.query["audience"])}

    workflow = examples()[".github/workflows/infrastructure.yml"]
    assert workflow["permissions"]["id-token"] == "write"
    job = workflow["jobs"]["apply"]
    known = {"RUNYARD_API_URL": bench.project.url, "RUNYARD_SERVICE_ACCOUNT": account, "RUNYARD_WHEEL": WHEEL}
    with serve({"GET /token": token}) as address:
        machine = Machine(
            tmp_path,
            **filled(job["env"], known),
            GITHUB_SHA=uuid.uuid4().hex,
            ACTIONS_ID_TOKEN_REQUEST_URL=f"http://{address}/token?api-version=2.0",
            ACTIONS_ID_TOKEN_REQUEST_TOKEN="of-the-job",
        )
        done = machine.type(*(step["run"] for step in job["steps"]))
    assert done.returncode == 0, done.stderr
    assert set(asked) == {"Bearer of-the-job"}
    assert applied_by(bench) == account_name(bench, account)


@pytest.mark.slow
def test_the_gitlab_pipeline_of_the_page_plans_and_applies_without_a_secret(
    bench: Bench, admin: Terminal, issuer: Issuer, tmp_path: Path
) -> None:
    bench.runner()
    account = trusting(admin, issuer, "project_path=acme/infrastructure", "ref=main", "ref_type=branch")
    job = examples()[".gitlab-ci.yml"]["apply"]
    known = {"RUNYARD_API_URL": bench.project.url, "RUNYARD_SERVICE_ACCOUNT": account, "RUNYARD_WHEEL": WHEEL}
    (name, asked) = next(iter(job["id_tokens"].items()))
    machine = Machine(
        tmp_path,
        **filled(job["variables"], known),
        CI_COMMIT_SHA=uuid.uuid4().hex,
        **{name: issuer.token(**GITLAB, aud=asked["aud"])},
    )
    done = machine.type(*job["script"])
    assert done.returncode == 0, done.stderr
    assert applied_by(bench) == account_name(bench, account)


def test_an_account_acts_with_a_pods_projected_token_or_with_a_token_that_a_command_prints(
    bench: Bench, admin: Terminal, issuer: Issuer, tmp_path: Path
) -> None:
    account = trusting(admin, issuer, "sub=system:serviceaccount:runyard:pipeline", role="viewer")
    place = {"RUNYARD_API_URL": bench.project.url, "RUNYARD_SERVICE_ACCOUNT": account}
    file = tmp_path / "token"
    file.write_text(issuer.token(**KUBERNETES) + "\n")
    for way in ({"RUNYARD_ID_TOKEN_FILE": str(file)}, {"RUNYARD_ID_TOKEN_COMMAND": f"cat {file}"}):
        shown = Terminal(tmp_path / "pod", {**place, **way})
        assert shown.json("whoami")["service_account"] == account
        assert [one["path"] for one in shown.json("modules", "list")] == ["apps/site"]
        refused = shown.run("run", "plan", "apps/site")
        assert (refused.returncode, "your role is viewer" in refused.stderr) == (8, True)


def test_a_pipeline_learns_the_reason_for_each_failure(
    bench: Bench, admin: Terminal, issuer: Issuer, tmp_path: Path
) -> None:
    account = trusting(admin, issuer, "repository=acme/infrastructure")
    place = {"RUNYARD_API_URL": bench.project.url, "RUNYARD_SERVICE_ACCOUNT": account}
    wrong = {
        "nothing here proves who this is": ({}, 3),
        "is not known, or its credential is not valid": ({"RUNYARD_ID_TOKEN": issuer.token(repository="a/b")}, 9),
        "cannot be read": ({"RUNYARD_ID_TOKEN_FILE": str(tmp_path / "nowhere")}, 3),
        "gave no token": ({"RUNYARD_ID_TOKEN_COMMAND": "echo no >&2; exit 1"}, 3),
        "does not answer": ({"RUNYARD_ID_TOKEN": "x", "RUNYARD_API_URL": "http://127.0.0.1:9"}, 10),
    }
    for words, (variables, code) in wrong.items():
        done = Terminal(tmp_path / "x", {**place, **variables}).run("jobs", "list")
        assert (done.returncode, words in done.stderr) == (code, True), done.stderr
    admin.run("accounts", "update", account, "--no-role")
    identity = {"RUNYARD_ID_TOKEN": issuer.token(repository="acme/infrastructure")}
    done = Terminal(tmp_path / "x", {**place, **identity}).run("jobs", "list")
    assert (done.returncode, "has no role" in done.stderr) == (9, True), done.stderr


def test_a_runner_signs_in_by_oidc_and_another_by_a_client_secret(
    bench: Bench, admin: Terminal, issuer: Issuer, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(issuer.token(**KUBERNETES))
    trust = ("--issuer", issuer.url, "--audience", "runyard", "--claim", KUBERNETES_CLAIM)
    by_trust = admin.json("accounts", "create", "pods", *trust)
    by_secret = admin.json("accounts", "create", "machines")
    ways = {
        "pods": {
            "WORKER_CLIENT_ID": by_trust["client_id"],
            "RUNYARD_CREDENTIAL_HELPER_CMD_PATH": "/bin/cat",
            "RUNYARD_CREDENTIAL_HELPER_CMD_ARGS": str(token),
        },
        "machines": {
            "RUNYARD_SERVICE_ACCOUNT_PATH": "machines",
            "WORKER_CLIENT_SECRET": by_secret["client_secret"],
        },
    }
    module = bench.rows("modules", path="apps/site")[0]["id"]
    for name, variables in ways.items():
        register = ("runners", "register", f"of-{name}", "--all-modules", "--no-token", "--service-account", name)
        worker = (str(admin.json(*register)["id"]), "")
        process = bench.start_worker(worker, **variables)
        bench.online(worker)
        bench.finished("PLAN", module, pinned_worker_id=worker[0])
        process.stop()
    assert all(row["last_used_at"] for row in bench.rows("service_accounts"))


KUBERNETES_CLAIM = "sub=system:serviceaccount:runyard:pipeline"


def test_a_runner_with_an_unassigned_account_ends_with_that_reason(bench: Bench, admin: Terminal) -> None:
    made = admin.json("accounts", "create", "deployer")
    worker = (str(admin.json("runners", "register", "r1", "--all-modules")["id"]), "")
    process = bench.start_worker(worker, WORKER_CLIENT_ID=made["client_id"], WORKER_CLIENT_SECRET=made["client_secret"])
    assert process.wait() != 0
    assert 'The service account \\"deployer\\" is not assigned to this runner.' in process.output


def applied_by(bench: Bench) -> str:
    rows = bench.rows("provision_jobs", type="APPLY", status="SUCCEEDED")
    assert len(rows) == 1
    return str(rows[0]["created_by_label"])


def account_name(bench: Bench, client_id: str) -> str:
    return str(bench.rows("service_accounts", client_id=client_id)[0]["name"])
