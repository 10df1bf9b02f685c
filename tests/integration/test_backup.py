"""`runyard backup` and `restore`: a running installation in one file, and the same one in another folder."""

import json
import resource
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cli.errors import ExitCode
from stack.errors import Taken, WrongVersion
from stack.settings import PROJECT
from tests.integration.worker_bench import Bench, bench
from tests.support.ports import free_ports
from tests.support.stack import RunningStack, clean_environment, start_stack

__all__ = ["bench"]
QUIET = ("--no-dashboard", "--no-demo")
PASSPHRASE = "correct horse battery staple"


def runyard(home: Path, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """A command for the state folder `home`; its database gets a port of its own, and another if somebody else takes that."""
    for _ in range(5):
        (postgres,) = free_ports(1)
        own = {
            "RUNYARD_HOME": str(home),
            "RUNYARD_POSTGRES_BASE": str(postgres),
            "RUNYARD_PG_FSYNC": "false",
            "RUNYARD_BACKUP_PASSPHRASE": PASSPHRASE,
        }
        done = subprocess.run(
            [sys.executable, "-m", "cli", *arguments],
            cwd=PROJECT, env={**clean_environment(), **own, **variables}, capture_output=True, text=True, timeout=300,
            check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if f"Port {postgres} for PostgreSQL" not in done.stderr:
            break
    return done


@pytest.fixture(scope="module")
def backup(running_stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of the stack while it runs."""
    file = tmp_path_factory.mktemp("kept") / "small.runyard"
    made = back_up(running_stack, file)
    assert made.returncode == 0, made.stdout + made.stderr
    return file


def back_up(stack: RunningStack, file: Path, **options: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "cli", "backup", str(file)],
        cwd=PROJECT, env={**clean_environment(), **stack.environment, "RUNYARD_BACKUP_PASSPHRASE": PASSPHRASE},
        capture_output=True, text=True, timeout=300, check=False, **options,
    )  # fmt: skip


def has_database(home: Path) -> bool:
    return any(home.rglob("PG_VERSION")) or (home / "secrets.json").exists()


def test_another_machine_applies_where_the_first_one_stopped(
    running_stack: RunningStack, bench: Bench, shared_tmp_path: Path
) -> None:
    worker = bench.register()
    runner = bench.start_worker(worker)
    bench.online(worker)
    module = bench.module()
    applied = bench.finished("APPLY", module)
    file, home = shared_tmp_path / "whole.runyard", shared_tmp_path / "home"
    made = back_up(running_stack, file)
    assert made.returncode == 0, made.stderr
    assert running_stack.is_healthy()
    runner.stop()
    check_nothing_is_readable(file, running_stack.secret_key, worker[1], "hello world", "correct-horse-battery")
    restored = runyard(home, "restore", str(file))
    assert restored.returncode == 0, restored.stdout + restored.stderr
    with start_stack(home, *QUIET) as second:
        there = replace(bench, project=second, folder=shared_tmp_path, processes=[])
        there.sign_in()
        assert there.job(applied["id"])["status"] == "SUCCEEDED"
        assert there.log_of(applied["id"]) == bench.log_of(applied["id"])
        process = there.start_worker(worker, instance=runner.instance, home=runner.home)
        again = there.finished("APPLY", module, variables={"who": "moon"})
        serials = [version["serial"] for version in there.rpc("state_info", p_module=module)["versions"]]
        process.stop()
    assert again["id"] > applied["id"]
    assert len(serials) > len(bench.rpc("state_info", p_module=module)["versions"])


def check_nothing_is_readable(file: Path, *hidden: str) -> None:
    assert file.stat().st_mode & 0o077 == 0
    text = file.read_bytes()
    assert [each for each in hidden if each.encode() in text] == []


def test_a_wrong_passphrase_changes_nothing(backup: Path, shared_tmp_path: Path) -> None:
    home = shared_tmp_path / "home"
    done = runyard(home, "restore", str(backup), RUNYARD_BACKUP_PASSPHRASE="incorrect horse")
    assert (done.returncode, "passphrase does not fit" in done.stderr) == (1, True), done.stderr
    assert not has_database(home)


@pytest.mark.parametrize("damage", ["cut", "changed", "not a backup"])
def test_a_damaged_file_leaves_nothing_behind(backup: Path, shared_tmp_path: Path, damage: str) -> None:
    data = bytearray(backup.read_bytes())
    if damage == "cut":
        del data[-100:]
    elif damage == "changed":
        data[-100] ^= 1
    else:
        data = bytearray(b"PK something else")
    file, home = shared_tmp_path / "damaged", shared_tmp_path / "home"
    file.write_bytes(data)
    done = runyard(home, "restore", str(file))
    assert (done.returncode, "damaged" in done.stderr or "not a backup" in done.stderr) == (1, True), done.stderr
    assert not has_database(home)


def test_a_backup_of_a_newer_version_is_refused(backup: Path, shared_tmp_path: Path) -> None:
    project, home = shared_tmp_path / "project", shared_tmp_path / "home"
    (project / "supabase" / "migrations").mkdir(parents=True)
    done = runyard(home, "restore", str(backup), RUNYARD_PROJECT=str(project))
    assert (done.returncode, "newer Runyard" in done.stderr) == (WrongVersion.exit_code, True), done.stderr
    assert not has_database(home)


def test_neither_an_installation_nor_a_backup_is_overwritten(running_stack: RunningStack, backup: Path) -> None:
    running = runyard(running_stack.settings.home, "restore", str(backup))
    assert (running.returncode, "already runs" in running.stderr) == (Taken.exit_code, True), running.stderr
    before = backup.read_bytes()
    again = back_up(running_stack, backup)
    assert (again.returncode, "exists already" in again.stderr) == (Taken.exit_code, True), again.stderr
    assert backup.read_bytes() == before
    assert running_stack.is_healthy()


def test_a_stopped_installation_is_backed_up_restored_and_kept(backup: Path, shared_tmp_path: Path) -> None:
    home, file = shared_tmp_path / "home", shared_tmp_path / "second.runyard"
    assert runyard(home, "restore", str(backup)).returncode == 0
    secrets = json.loads((home / "secrets.json").read_text())
    made = runyard(home, "backup", str(file))
    assert made.returncode == 0, made.stderr
    refused = runyard(home, "restore", str(file))
    assert (refused.returncode, "has a database already" in refused.stderr) == (Taken.exit_code, True), refused.stderr
    assert json.loads((home / "secrets.json").read_text()) == secrets
    assert runyard(shared_tmp_path / "other", "restore", str(file)).returncode == 0


def test_a_failed_write_is_reported_and_no_partial_backup_is_kept(
    running_stack: RunningStack, shared_tmp_path: Path
) -> None:
    largest = (16 * 1024, 16 * 1024)
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, largest)
    done = back_up(running_stack, shared_tmp_path / "file", preexec_fn=limit)
    assert (done.returncode, "could not be written" in done.stderr) == (1, True), done.stderr
    assert list(shared_tmp_path.iterdir()) == []


def test_a_passphrase_is_needed_and_may_be_in_a_file(running_stack: RunningStack, shared_tmp_path: Path) -> None:
    file, words = shared_tmp_path / "file", shared_tmp_path / "words"
    home = running_stack.settings.home
    for given, said in (("", "passphrase is missing"), ("short", "shorter than 12")):
        done = runyard(home, "backup", str(file), RUNYARD_BACKUP_PASSPHRASE=given)
        assert (done.returncode, said in done.stderr) == (ExitCode.USAGE, True), done.stderr
    words.write_text(f"{PASSPHRASE}\n")
    absent = runyard(shared_tmp_path / "none", "backup", str(file), "--passphrase-file", str(words))
    assert (absent.returncode, "has no installation" in absent.stderr) == (ExitCode.MISSING, True), absent.stderr
