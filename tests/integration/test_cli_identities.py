"""`runyard identities` and `runyard issuer` against a real stack."""

import json
from pathlib import Path

import pytest

from cli.errors import ExitCode
from tests.integration.worker_bench import Bench, bench
from tests.support.stack import RunningStack
from tests.support.terminal import Terminal

__all__ = ["bench"]
ROLE = "arn:aws:iam::123456789012:role"


@pytest.fixture
def terminal(bench: Bench, running_stack: RunningStack, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path / "config", {**running_stack.client_environment, "RUNYARD_ACCESS_TOKEN": bench.token})


def attach(terminal: Terminal, path: str) -> None:
    roles = ("--plan-role", f"{ROLE}/plan", "--apply-role", f"{ROLE}/apply", "--set", "region=eu-west-1")
    done = terminal.run("identities", "attach", path, "aws", *roles)
    assert done.returncode == 0, done.stderr


def test_identity_from_attaching_to_detaching(terminal: Terminal, bench: Bench) -> None:
    bench.module()
    attach(terminal, "apps")
    assert terminal.run("identities", "attach", "", "custom", "--name", "r", "--audience", "https://r").returncode == 0
    rows = terminal.json("identities", "list")
    assert [(row["path"], row["name"], row["audience"]) for row in rows] == [
        ("", "r", "https://r"), ("apps", "aws", "aws.workload.identity"),
    ]  # fmt: skip
    assert rows[1]["settings"]["region"] == "eu-west-1"
    assert terminal.run("identities", "attach", "apps", "aws", "--role", "admin").returncode == ExitCode.REFUSED
    assert terminal.run("identities", "attach", "nowhere", "aws", "--role", ROLE).returncode == ExitCode.REFUSED
    assert terminal.run("identities", "attach", "", "aws", "--set", "region").returncode == ExitCode.USAGE
    assert terminal.run("identities", "detach", "apps", "aws", "--yes").returncode == 0
    assert terminal.run("identities", "detach", "apps", "aws", "--yes").returncode == ExitCode.PROBLEM
    assert [row["name"] for row in terminal.json("identities", "list")] == ["r"]


def test_policy_trusts_the_organisation_by_its_id(terminal: Terminal, bench: Bench) -> None:
    bench.module()
    attach(terminal, "apps")
    (statement,) = terminal.json("identities", "policy", "apps", "--phase", "plan")["Statement"]
    issuer = f"{bench.project.url.removeprefix('http://')}/functions/v1/job-identity"
    assert statement["Principal"] == {"Federated": f"arn:aws:iam::123456789012:oidc-provider/{issuer}"}
    sub = f"organization:{bench.org}:module:apps/*:phase:plan"
    assert statement["Condition"]["StringLike"] == {f"{issuer}:sub": sub}
    assert terminal.run("identities", "policy", "apps", "--phase", "destroy").returncode == ExitCode.USAGE
    usual = terminal.json("identities", "subject")
    of_hcp = "organization:{organization}:project:{group}:workspace:{workspace}:run_phase:{phase}"
    assert terminal.json("identities", "subject", of_hcp) == terminal.json("identities", "subject")
    refused = terminal.run("identities", "policy", "apps")
    assert (refused.returncode, "short name, but not its id" in refused.stderr) == (ExitCode.REFUSED, True)
    assert terminal.json("identities", "subject", "") == usual


def test_test_shows_the_token_and_reports_an_issuer_that_clouds_cannot_read(terminal: Terminal, bench: Bench) -> None:
    module = bench.rows("modules", id=bench.module())[0]["path"]
    nothing = terminal.run("identities", "test", module)
    assert nothing.returncode == ExitCode.PROBLEM
    attach(terminal, "apps")
    shown = terminal.run("identities", "test", module, "--phase", "apply")
    assert f"module:{module}:phase:apply" in shown.stdout
    # The stack of a test is not served by https; every other check is met.
    assert [line for line in shown.stdout.splitlines() if line.startswith("problem")] == [
        f"problem  Clouds accept https addresses only, and the issuer is {bench.project.url}/functions/v1/job-identity."
    ]
    assert shown.returncode == ExitCode.PROBLEM


def test_export_writes_the_two_documents(terminal: Terminal, tmp_path: Path) -> None:
    printed = terminal.json("issuer", "export")
    assert printed["discovery"]["jwks_uri"] == f"{printed['discovery']['issuer']}/.well-known/jwks"
    done = terminal.run("issuer", "export", "--folder", str(tmp_path / "www"))
    assert printed["discovery"]["issuer"] in done.stdout
    files = [tmp_path / "www/.well-known" / name for name in ("openid-configuration", "jwks")]
    assert [json.loads(file.read_text()) for file in files] == [printed["discovery"], printed["jwks"]]
    assert "d" not in printed["jwks"]["keys"][0]
