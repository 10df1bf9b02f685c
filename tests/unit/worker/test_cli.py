"""The command line: its output in success and in failure."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from worker.errors import EXPLANATIONS, ExitCode
from worker.version import __version__

RUNNER_ID = "7b0b1c9e-8f0c-4a77-9d0c-0d8b0a7c2f11"


def command(home: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command in an environment of its own, without a terminal."""
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(Path.cwd()), **variables}
    line = [sys.executable, "-m", "worker.cli", *arguments]
    return subprocess.run(line, capture_output=True, text=True, env=env, check=False, timeout=300)


# A start that ends as soon as the runner wants its working directory.
CANNOT_START = {
    "WORKER_ID": RUNNER_ID, "WORKER_TOKEN": "ryw_secret", "SUPABASE_URL": "http://127.0.0.1:9",
    "RUNYARD__WORKINGDIRECTORY__WORKINGDIRECTORY": "/dev/null/none", "PYTHONPROFILEIMPORTTIME": "1",
}  # fmt: skip
EXECUTOR = {"RUNYARD__EXECUTOR__TOKEN": "x", "RUNYARD__EXECUTOR__JOBID": "1", "RUNYARD__EXECUTOR__ATTEMPT": "1"}
UNUSED = {"attr", "boto3", "click", "hpack", "prometheus_client", "pydantic_settings", "pygments", "rich"}


@pytest.mark.parametrize(
    ("role", "variables", "unused"),
    [("main", {}, UNUSED), ("executor", EXECUTOR, {*UNUSED, "realtime", "websockets"})],
    ids=["runner", "executor"],
)
def test_runner_starts_without_unused_packages(
    role: str, variables: dict[str, str], unused: set[str], tmp_path: Path
) -> None:
    done = command(tmp_path, "run", **CANNOT_START, **variables)
    # A package that was searched in vain is listed without modules of its own.
    modules = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert {f"worker.{role}", "httpcore._api"} <= modules
    assert {name.partition(".")[0] for name in modules if "." in name} & unused == set()


def test_an_unusable_working_directory_is_one_line_and_an_exit_code(tmp_path: Path) -> None:
    done = command(tmp_path, "run", **{**CANNOT_START, "PYTHONPROFILEIMPORTTIME": ""})
    assert done.returncode == ExitCode.SETTINGS
    (line,) = [line for line in (done.stdout + done.stderr).splitlines() if "cannot be used" in line]
    assert "The working directory /dev/null/none cannot be used: Not a directory." in line
    assert "Traceback" not in done.stdout + done.stderr


def test_version_and_schema_need_no_settings(tmp_path: Path) -> None:
    assert command(tmp_path, "version").stdout.strip() == __version__
    schema = json.loads(command(tmp_path, "schema").stdout)
    assert schema["title"] == "Runyard runner settings"
    assert command(tmp_path, "schema", "--reference").stdout.startswith("# Runner settings")


def test_help_documents_every_exit_code(tmp_path: Path) -> None:
    text = " ".join(command(tmp_path, "run", "--help").stdout.split())
    for code, words in EXPLANATIONS.items():
        assert f"{code.value} {words}" in text


@pytest.mark.parametrize("name", ["run", "doctor"])
def test_wrong_settings_are_all_named_and_no_secret_is(name: str, tmp_path: Path) -> None:
    done = command(tmp_path, name, "--set", "Metrics.Port=many", WORKER_ID="nonsense", WORKER_CLIENT_SECRET="hush-hush")
    assert done.returncode == ExitCode.SETTINGS
    for words in ("Runner.Id", "WORKER_ID", "Server.Url", "SUPABASE_URL", "Metrics.Port", "WORKER_CLIENT_ID"):
        assert words in done.stderr
    assert "hush-hush" not in done.stderr + done.stdout
    assert "\x1b[" not in done.stderr, "no colour without a terminal"


def test_a_malformed_option_is_explained(tmp_path: Path) -> None:
    done = command(tmp_path, "run", "--set", "nonsense")
    assert done.returncode == 2
    assert "SECTION.NAME=VALUE" in done.stderr


def test_the_doctor_gives_a_remedy_for_each_failure(tmp_path: Path) -> None:
    done = command(
        tmp_path, "doctor", "--json", "--url", "http://127.0.0.1:9", WORKER_ID=RUNNER_ID, WORKER_TOKEN="ryw_secret"
    )
    assert done.returncode == 1
    found = {check["name"]: check for check in json.loads(done.stdout)}
    assert found["URL"]["verdict"] == "failed"
    assert found["Working directory"]["verdict"] == "ok"
    assert found["Realtime"]["verdict"] == "skipped"
    assert all(check["remedy"] for check in found.values() if check["verdict"] in {"failed", "warning"})
    assert "ryw_secret" not in done.stdout
    plain = command(tmp_path, "doctor", "--url", "http://127.0.0.1:9", WORKER_ID=RUNNER_ID, WORKER_TOKEN="ryw_secret")
    assert "The runner cannot work yet" in plain.stdout
    assert "\x1b[" not in plain.stdout
