"""`runyard state`: a state comes in, is read, pushed, and leaves again, with a real runner and a real OpenTofu."""

import json
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.errors import ExitCode
from tests.integration.test_own_backend import CODE, HTTP, LOCAL, applied, tofu
from tests.integration.worker_bench import MODULE, Bench
from tests.support.own_backend import OwnBackend, run_own_backend
from tests.support.stack import RunningStack
from tests.support.terminal import Terminal


@pytest.fixture
def terminal(served: Bench, running_stack: RunningStack, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path / "config", {**running_stack.client_environment, "RUNYARD_ACCESS_TOKEN": served.token})


@pytest.fixture
def own() -> Iterator[OwnBackend]:
    with run_own_backend() as started:
        yield started


@pytest.fixture
def path(served: Bench, own: OwnBackend, tmp_path: Path) -> str:
    """A module whose code keeps its state in its own backend."""
    files = applied(served, tmp_path / "code", HTTP % (own.url, own.url, own.url))
    return path_of(served, served.module(source={"files": files}))


def path_of(bench: Bench, module: str) -> str:
    return str(bench.rows("modules", id=module)[0]["path"])


def test_import_copies_the_state_and_shows_the_first_plan(terminal: Terminal, path: str, own: OwnBackend) -> None:
    serial = json.loads(own.state)["serial"]
    done = terminal.run("state", "import", path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{path}: serial {serial} with 3 resources, from http." in done.stdout
    assert "First plan: no changes. Nothing was applied." in done.stdout
    again = terminal.run("state", "import", path)
    assert (again.returncode, f'Runyard has a state of "{path}" already.' in again.stderr) == (ExitCode.REFUSED, True)
    assert json.loads(terminal.run("state", "pull", path).stdout)["lineage"] == json.loads(own.state)["lineage"]


def test_import_that_finds_no_state_ends_as_a_failed_job(terminal: Terminal, path: str, own: OwnBackend) -> None:
    own.state = b""
    done = terminal.run("state", "import", path)
    assert done.returncode == ExitCode.JOB_FAILED
    assert "There is no state in the backend" in done.stderr
    assert f"{path}: no state was brought in." in done.stdout


def test_a_plan_that_is_refused_names_commands_that_work(terminal: Terminal, path: str, own: OwnBackend) -> None:
    refused = terminal.run("run", "plan", path, "--wait")
    assert refused.returncode == ExitCode.JOB_FAILED
    for command in (f"runyard state import {path}", f"runyard state keep-own {path}"):
        assert command in refused.stderr
    assert terminal.run("state", "keep-own", path).returncode == 0
    assert terminal.run("run", "plan", path, "--wait").returncode == 0
    untyped = terminal.run("state", "start-empty", path)
    assert (untyped.returncode, "type the module's path" in untyped.stderr) == (ExitCode.USAGE, True)
    assert terminal.run("state", "start-empty", path, "--yes").returncode == 0
    own.requests.clear()
    planned = terminal.run("run", "plan", path, "--wait")
    assert "3 to create" in planned.stderr
    assert own.requests == []


def test_a_state_is_listed_shown_changed_and_pushed(terminal: Terminal, served: Bench, tmp_path: Path) -> None:
    module = served.module(source={"files": {"main.tf": MODULE}})
    path = path_of(served, module)
    served.finished("APPLY", module)
    assert [row["address"] for row in terminal.json("state", "list", path, "--search", "secret")] == [
        "terraform_data.secret"
    ]
    (shown,) = json.loads(terminal.run("state", "show", path, "terraform_data.greeting").stdout)
    assert shown["attributes"]["input"]["value"] == "hello world"
    assert "correct-horse-battery" not in terminal.run("state", "show", path).stdout
    missing = terminal.run("state", "show", path, "terraform_data.none")
    assert (missing.returncode, "has no" in missing.stderr) == (ExitCode.PROBLEM, True)
    state = json.loads(terminal.run("state", "pull", path).stdout)
    state["resources"] = [each for each in state["resources"] if each["name"] != "greeting"]
    file = tmp_path / "changed.tfstate"
    file.write_text(json.dumps(state))
    older = terminal.run("state", "push", path, str(file), "--yes")
    assert (older.returncode, "is not newer than" in older.stderr) == (ExitCode.REFUSED, True)
    newer = {**state, "serial": state["serial"] + 1}
    file.write_text(json.dumps({**newer, "version": 5}))
    unknown = terminal.run("state", "push", path, str(file), "--yes")
    assert (unknown.returncode, "only version 4 is stored" in unknown.stderr) == (ExitCode.REFUSED, True)
    file.write_text(json.dumps(newer))
    assert terminal.run("state", "push", path, str(file), "--yes").returncode == 0
    assert served.finished("PLAN", module)["plan_summary"]["create"] == 1
    newest = terminal.json("state", "versions", path)["versions"][0]
    assert (newest["serial"], newest["job_id"], bool(newest["written_by"])) == (state["serial"] + 1, None, True)


def addresses(terminal: Terminal, path: str) -> list[str]:
    return [row["address"] for row in terminal.json("state", "list", path)]


def test_resources_are_moved_removed_and_imported_as_jobs(terminal: Terminal, served: Bench) -> None:
    code = 'resource "terraform_data" "%s" {}\n'
    first, second = (served.module(source={"files": {"main.tf": code % "a" + code % "b" + code % "c"}}) for _ in "12")
    one, two = path_of(served, first), path_of(served, second)
    served.finished("APPLY", first)
    serial = terminal.json("state", "versions", one)["versions"][0]["serial"]
    untold = terminal.run("state", "rm", one, "terraform_data.a")
    assert (untold.returncode, "Add --yes" in untold.stderr) == (ExitCode.USAGE, True)

    moved = terminal.run("state", "mv", one, "terraform_data.a", "terraform_data.z", "--yes")
    assert moved.returncode == 0, moved.stdout + moved.stderr
    assert f"{one}: done: move terraform_data.a to terraform_data.z." in moved.stdout
    assert addresses(terminal, one) == ["terraform_data.b", "terraform_data.c", "terraform_data.z"]

    across = ("state", "mv", one, "terraform_data.z", "terraform_data.a", "--to-module", two, "--yes")
    assert terminal.run(*across).returncode == 0
    assert addresses(terminal, one) == ["terraform_data.b", "terraform_data.c"]
    assert addresses(terminal, two) == ["terraform_data.a"]
    gone = terminal.run(*across)
    assert (gone.returncode, "the state is as it was" in gone.stdout) == (ExitCode.JOB_FAILED, True)
    assert addresses(terminal, two) == ["terraform_data.a"]

    assert terminal.run("state", "rm", one, "terraform_data.b", "terraform_data.c", "--yes").returncode == 0
    assert addresses(terminal, one) == []
    half = terminal.run("state", "import", two, "terraform_data.b", "--yes")
    assert (half.returncode, "needs an address and an id" in half.stderr) == (ExitCode.USAGE, True)
    brought = terminal.run("state", "import", two, "terraform_data.b", "some-id", "--yes")
    assert brought.returncode == 0, brought.stdout + brought.stderr
    assert terminal.json("state", "list", two)[1] == {
        "address": "terraform_data.b",
        "type": "terraform_data",
        "id": "some-id",
    }
    # Each is a version of its own, written by its job.
    versions = terminal.json("state", "versions", one)["versions"]
    assert [each["serial"] for each in versions[:3]] == [serial + 3, serial + 2, serial + 1]
    assert len({each["job_number"] for each in versions}) == 4


def commit(folder: Path) -> str:
    """Make a repository of a folder; its address."""
    for command in (
        ["init", "-q"],
        ["add", "-f", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", "-C", str(folder), *command], check=True)
    return f"file://{folder}"


def test_a_repository_with_several_roots_moves_in(
    terminal: Terminal, served: Bench, own: OwnBackend, tmp_path: Path
) -> None:
    top = tmp_path / "old-infra"
    (top / "live").mkdir(parents=True)
    applied(served, top / "net", HTTP % (own.url, own.url, own.url))
    applied(served, top / "files", LOCAL)
    (top / "live" / "terragrunt.hcl").write_text("")
    for rest in top.rglob(".terraform"):
        shutil.rmtree(rest)
    address = commit(top)
    group = f"moved-{uuid.uuid4().hex[:6]}"
    rows = terminal.json("modules", "import", address, "--group", group)
    assert [(row["folder"], row["backend"], row["engine"], bool(row["note"])) for row in rows] == [
        ("files", "local", "tofu", False), ("live", None, "terragrunt", True), ("net", "http", "tofu", False),
    ]  # fmt: skip
    unasked = terminal.run("modules", "import", address, "--group", group)
    assert (unasked.returncode, "no terminal to choose modules on" in unasked.stderr) == (ExitCode.USAGE, True)
    done = terminal.run("modules", "import", address, "--group", group, "--all", "--yes")
    assert f"Created {group}/files\nCreated {group}/net" in done.stdout, done.stderr
    assert f"runyard state import {group}/net" in done.stderr
    other = ("modules", "import", address, "--on-runner", "--group", f"{group}-again")
    assert [row["path"] for row in terminal.json(*other)] == [
        f"{group}-again/{each}" for each in ("files", "live", "net")
    ]
    there = terminal.run(*other, "--all", "--yes")
    assert f"Created {group}-again/files\nCreated {group}-again/net" in there.stdout, there.stderr
    for name in ("files", "net"):
        brought = terminal.run("state", "import", f"{group}/{name}")
        assert "First plan: no changes. Nothing was applied." in brought.stdout, brought.stdout + brought.stderr
    again = terminal.run("modules", "import", address, "--group", group, "--all", "--yes")
    assert (again.returncode, "None of them can come." in again.stderr) == (ExitCode.PROBLEM, True)


def test_a_state_leaves_again(terminal: Terminal, served: Bench, path: str, tmp_path: Path) -> None:
    assert terminal.run("state", "import", path).returncode == 0
    away = tmp_path / "away"
    away.mkdir()
    (away / "main.tf").write_text(CODE)
    (away / "terraform.tfstate").write_text(terminal.run("state", "pull", path).stdout)
    tofu(served, away, "init", "-input=false")
    assert "No changes" in tofu(served, away, "plan", "-input=false", "-no-color")
