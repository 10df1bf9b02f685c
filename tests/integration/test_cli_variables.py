"""`runyard variables` against a real stack."""

import json
from pathlib import Path

import pytest

from cli.errors import ExitCode
from tests.integration.worker_bench import Bench, bench
from tests.support.stack import RunningStack
from tests.support.terminal import Terminal

__all__ = ["bench"]


@pytest.fixture
def terminal(bench: Bench, running_stack: RunningStack, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path / "config", {**running_stack.client_environment, "RUNYARD_ACCESS_TOKEN": bench.token})


def test_variables_from_setting_to_removing(terminal: Terminal, bench: Bench, tmp_path: Path) -> None:
    path = bench.rows("modules", id=bench.module())[0]["path"]
    certificate = tmp_path / "ca.pem"
    certificate.write_text("trusted")
    given = (
        "region=eu",
        'zones=["a"]',
        "--env",
        "TF_LOG=info",
        "--hcl",
        "size=1 + 1",
        "--file",
        f"ca.pem={certificate}",
    )
    assert terminal.run("variables", "set", path, *given).returncode == 0
    assert terminal.run("variables", "set", "", "region=us", "owner=infra", "--enforced").returncode == 0
    rows = terminal.json("variables", "list", path)
    assert [(row["kind"], row["name"], row["value"]) for row in rows] == [
        ("env", "TF_LOG", "info"), ("file", "ca.pem", "trusted"),
        ("input", "region", "eu"), ("input", "size", "1 + 1"), ("input", "zones", ["a"]),
    ]  # fmt: skip
    region = next(row for row in terminal.json("variables", "effective", path) if row["name"] == "region")
    assert (region["value"], region["path"], [each["path"] for each in region["hides"]]) == ("us", "", [path])
    shown = terminal.run("variables", "effective", path).stdout
    assert f"input\tregion\tus\tthe organisation (enforced)\t1\t{path}\tnever" in shown.splitlines()
    users = terminal.json("variables", "users", "", "region")
    assert (path in users["modules"], [each["role"] for each in users["members"]]) == (True, ["owner"])
    assert "runners  none" in terminal.run("variables", "users", "", "region").stdout
    assert len(terminal.json("variables", "unused", "--days", "0")) == len(rows) + 2
    assert terminal.json("variables", "unused") == []
    assert terminal.run("variables", "remove", path, "zones", "--yes").returncode == 0
    assert terminal.run("variables", "remove", path, "zones", "--yes").returncode == ExitCode.PROBLEM
    assert terminal.run("variables", "remove", path, "TF_LOG").returncode == ExitCode.PROBLEM
    assert terminal.run("variables", "set", path).returncode == ExitCode.USAGE
    assert terminal.run("variables", "set", "nowhere", "a=1").returncode == ExitCode.REFUSED
    job = bench.enqueue("PLAN", bench.rows("modules", path=path)[0]["id"], variables={"who": "run"})
    kept = terminal.run("variables", "effective", "--job", str(bench.job(job)["number"])).stdout.splitlines()
    assert "input\twho\tthe run\t1" in kept
    assert not [line for line in kept if "info" in line], "names and versions, without values"


def test_files_are_imported_exported_and_warned_about(terminal: Terminal, bench: Bench, tmp_path: Path) -> None:
    path = bench.rows("modules", id=bench.module())[0]["path"]
    file = tmp_path / "prod.tfvars"
    file.write_text('region = "eu"\nsizes = [for n in [1, 2] : n * 2]\napi_token = "x"\n')
    done = terminal.run("variables", "import", path, str(file))
    assert done.returncode == 0
    assert "api_token: The name suggests a secret." in done.stderr
    exported = terminal.run("variables", "export", path).stdout
    assert {each["name"]: each["is_hcl"] for each in json.loads(exported)} == {
        "api_token": False, "region": False, "sizes": True,
    }  # fmt: skip
    copy = tmp_path / "copy.json"
    copy.write_text(exported)
    assert terminal.run("variables", "import", "apps", str(copy)).returncode == 0
    assert terminal.run("variables", "export", "apps").stdout == exported
    file.write_text("")
    assert terminal.run("variables", "import", path, str(file)).returncode == ExitCode.USAGE
