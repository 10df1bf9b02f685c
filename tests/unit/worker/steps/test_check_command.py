"""A policy set that is a command, as a real process: what it is given, what it may do, and what counts as an error."""

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.unit.worker.workspaces import log_of, open_workspace
from worker.attempt.workspace import Workspace
from worker.steps import check_command
from worker.steps.check_command import CheckCommand

PASS = '{"version": "2.1.0", "runs": [{"tool": {"driver": {}}, "results": []}]}'
PLAN = b'{"resource_changes": []}'


@pytest.fixture(params=[False, True], ids=["bare", "isolated"])
def space(request: pytest.FixtureRequest, tmp_path: Path) -> Workspace:
    return open_workspace(tmp_path, is_isolated=request.param)


def check(space: Workspace, *argv: str, network: bool = False, **files: str) -> dict[str, Any]:
    order = json.dumps({"argv": argv, "network": network})
    command = CheckCommand(space, {**files, "command.json": order})
    return asyncio.run(command.check(PLAN, {"now_ns": 1}, []))


def run(space: Workspace, script: str, **more: Any) -> dict[str, Any]:
    return check(space, "sh", "-c", script, **more)


def words(found: dict[str, Any]) -> tuple[str, str]:
    return found["verdict"], found["messages"][0]["text"] if found["messages"] else ""


def test_command_gets_plan_run_code_and_its_files(space: Workspace) -> None:
    space.work = space.root / "source"
    (space.work / "main.tf").write_text("code")
    script = """set -e
        grep -q resource_changes "$1"; cmp "$1" "$RUNYARD_PLAN"; grep -q now_ns "$2"; grep -q code "$3/main.tf"
        printf '%s' "$(cat data/report)" > "$4/any.sarif"; echo checked"""
    argv = ("sh", "run.sh", "{plan}", "{run}", "{code}", "{results}")
    files = {"run.sh": script, "data/report": PASS}
    assert check(space, *argv, **files) == {"verdict": "passed", "messages": []}
    assert "checked" in log_of(space)
    assert space.work == space.root / "source"


def test_findings_count_whatever_the_exit_code(space: Workspace) -> None:
    report = json.dumps({"version": "2.1.0", "runs": [{"tool": {"driver": {}}, "results": [
        {"ruleId": "X", "level": "error", "message": {"text": "open"}}]}]})  # fmt: skip
    assert words(run(space, 'cp report "$RUNYARD_RESULTS/x.sarif"; exit 1', report=report)) == ("failed", "open")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exit 0", "The command left neither a .sarif file nor cost.json."),
        ("exit 3", "sh ended with exit code 3 and left no report."),
        ('echo x > "$RUNYARD_RESULTS/other.txt"', "The command left neither a .sarif file nor cost.json."),
        ('echo x > "$RUNYARD_RESULTS/x.sarif"', "x.sarif is not JSON."),
        ('cp report "$RUNYARD_RESULTS/x.sarif"; kill -9 $$', "sh was killed by signal 9."),
        ('ln -s "$PWD/report" "$RUNYARD_RESULTS/x.sarif"', "x.sarif is not JSON."),
        ('mkdir "$RUNYARD_RESULTS/x.sarif"', "x.sarif is not JSON."),
        ('truncate -s 11M "$RUNYARD_RESULTS/x.sarif"', "more than 20 reports, or one larger than 10 MiB"),
        ('for i in $(seq 21); do cp report "$RUNYARD_RESULTS/$i.sarif"; done', "more than 20 reports"),
        ('rm -r "$RUNYARD_RESULTS"', "The command removed the folder of its results."),
    ],
)
def test_what_is_no_result_is_an_error(space: Workspace, script: str, said: str) -> None:
    verdict, text = words(run(space, script, report=PASS))
    assert verdict == "error"
    assert said in text


def test_missing_program_is_an_error(space: Workspace) -> None:
    verdict, text = words(check(space, "no-such-scanner", "{plan}"))
    assert (verdict, text) == ("error", "no-such-scanner cannot be started: No such file or directory.")


def test_command_without_an_end_is_an_error(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_command, "COMMAND_SECONDS", 1.0)
    script = 'cp report "$RUNYARD_RESULTS/x.sarif"; sleep 600'
    assert words(run(space, script, report=PASS)) == ("error", "The command did not end within 1s.")


def test_network_is_reached_only_where_the_set_asks_for_it(space: Workspace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        dial = f'exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && cp report "$RUNYARD_RESULTS/x.sarif"'
        assert words(check(space, "bash", "-c", dial, report=PASS))[0] == "error"
        assert "Permission denied" in log_of(space)
        assert check(space, "bash", "-c", dial, network=True, report=PASS)["verdict"] == "passed"


def test_command_sees_neither_variables_nor_files_that_the_code_left(space: Workspace) -> None:
    home = space.root / "home"
    (home / ".scanner.yaml").write_text("skip: everything")
    space.env = {"PATH": space.env["PATH"], "HOME": str(home)}
    script = 'test ! -e "$HOME/.scanner.yaml" && test -z "$(ls -A ~)" && cp report "$RUNYARD_RESULTS/x.sarif"'
    assert words(run(space, script, report=PASS)) == ("passed", "")
    assert (home / ".scanner.yaml").read_text() == "skip: everything", "the job has its home again"


def test_host_variables_come_with_the_network(tmp_path: Path) -> None:
    space = open_workspace(tmp_path, environ={
        "HTTPS_PROXY": "http://proxy", "INFRACOST_API_KEY": "ico-secret-value", "RUNYARD__ENGINE__PASSENVIRONMENT": "INFRACOST_API_KEY",
    })  # fmt: skip
    script = 'echo "key: $INFRACOST_API_KEY"; test -n "$INFRACOST_API_KEY$HTTPS_PROXY" && cp report "$RUNYARD_RESULTS/x.sarif"'
    assert run(space, script, report=PASS)["verdict"] == "error"
    assert run(space, script, report=PASS, network=True)["verdict"] == "passed"
    assert "ico-secret-value" not in log_of(space)
