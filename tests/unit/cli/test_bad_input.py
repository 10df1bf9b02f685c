"""Failures before the project's first answer have the documented exit code and name a remedy."""

from pathlib import Path

import pytest

from cli.errors import ExitCode
from tests.support.terminal import Terminal

NOBODY_LISTENS = {
    "SUPABASE_URL": "http://127.0.0.1:9",
    "SUPABASE_PUBLISHABLE_KEY": "sb_publishable_x",
    "RUNYARD_ACCESS_TOKEN": "x",
}


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    done = Terminal(tmp_path, NOBODY_LISTENS).run("run", "plan", str(tmp_path / "nowhere"))
    assert (done.returncode, "There is no folder" in done.stderr) == (ExitCode.MISSING, True), done.stderr


def test_a_folder_of_two_gigabytes_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "disk.img").open("wb") as file:
        file.truncate(2 * 1024**3)
    done = Terminal(tmp_path / "home", NOBODY_LISTENS).run("run", "plan", str(tmp_path), "--module", "apps/site")
    assert (done.returncode, "too large to send" in done.stderr) == (ExitCode.USAGE, True), done.stderr


@pytest.mark.parametrize("arguments", [("run", "plan", "apps/site"), ("jobs", "list"), ("modules", "export", "a/b")])
def test_a_project_that_does_not_answer_is_reported(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = Terminal(tmp_path, NOBODY_LISTENS).run(*arguments)
    assert (done.returncode, "does not answer" in done.stderr) == (ExitCode.NO_ANSWER, True), done.stderr


@pytest.mark.parametrize("arguments", [("run", "plan", "apps/site"), ("jobs", "list"), ("whoami",)])
def test_a_command_without_a_login_names_the_login_command(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = Terminal(tmp_path).run(*arguments)
    assert (done.returncode, "runyard login" in done.stderr) == (ExitCode.SIGNED_OUT, True), done.stderr
