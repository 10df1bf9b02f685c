"""Handing over: the old program stays until the new one has shown that it works."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import wait_until
from worker.logs.redactor import Redactor
from worker.program import Handover, Program
from worker.signals import STOPPING
from worker.update import handover as module
from worker.update.handover import Note, hand_over, take_note, try_out


class Became(Exception):
    """The process is another one now."""


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Record the program that replaces the process, and restore the signals of the test run."""
    seen: list[Any] = []

    def execve(*arguments: Any) -> None:
        seen.append(arguments)
        raise Became

    monkeypatch.setattr(os, "execve", execve)
    before = {number: signal.getsignal(number) for number in STOPPING}
    yield seen
    for number, handler in before.items():
        signal.signal(number, handler)


def offer(program: Program, script: str) -> Handover:
    """A new file that is this shell script."""
    new = program.path.with_name(".new")
    new.write_text(f"#!/bin/sh\n{script}\n")
    new.chmod(0o750)
    home = program.path.parent.parent / "home"
    home.mkdir(exist_ok=True)
    return Handover(program, new, "2.0.0", 7, home)


def test_a_new_file_that_works_replaces_the_old_one(program: Program, became: list[Any]) -> None:
    old = program.path.read_text()
    # The trial gets the arguments and the environment of the start, and confirms it by its exit code.
    handover = offer(program, 'test "$*" = "run --capacity 2 --trial" && test "$WORKER_TOKEN" = t')
    with pytest.raises(Became):
        hand_over(handover, Redactor())
    assert became == [(str(program.path), [str(program.path), "run", "--capacity", "2"], {"WORKER_TOKEN": "t"})]
    assert "--trial" in program.path.read_text()
    assert program.path.with_name("runyard-worker.previous").read_text() == old
    assert take_note(handover.home) is None
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (
            "echo something; echo the token correct-horse-battery is wrong; exit 3",
            "exit code 3: the token *** is wrong",
        ),
        ("exit 1", "exit code 1: it said nothing."),
        ("kill -9 $$", "exit code -9"),
    ],
)
def test_a_new_file_that_fails_leaves_the_old_one_and_a_note(
    program: Program, became: list[Any], script: str, words: str
) -> None:
    old = program.path.read_text()
    handover = offer(program, script)
    with pytest.raises(Became):
        hand_over(handover, Redactor(["correct-horse-battery"]))
    assert became[0][0] == str(program.path)
    assert program.path.read_text() == old
    assert not handover.new.exists()
    note = take_note(handover.home)
    assert note is not None
    assert (note.job, note.version) == (7, "2.0.0")
    assert words in note.problem
    assert take_note(handover.home) is None


def test_a_new_file_that_cannot_be_started_is_a_problem_too(program: Program) -> None:
    handover = offer(program, "exit 0")
    handover.new.write_text("no interpreter")
    assert try_out(handover).startswith(("It could not be started", "It ended with exit code"))


def test_one_that_never_sends_a_heartbeat_is_ended(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TRIAL_SECONDS", 0.2)
    handover = offer(program, f"echo $$ > {program.path.parent}/pid; exec sleep 600")
    assert "sent no heartbeat" in try_out(handover)
    pid = program.path.with_name("pid")
    # It may have been ended before it had written its id, or while it did.
    told = pid.read_text().strip() if pid.exists() else ""
    assert not told or not Path(f"/proc/{told}").exists()


def test_a_file_that_cannot_be_replaced_leaves_the_old_one(
    program: Program, became: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("shutil.copy2", refuse)
    handover = offer(program, "exit 0")
    with pytest.raises(Became):
        hand_over(handover, Redactor())
    assert take_note(handover.home) == Note(7, "2.0.0", f"{program.path} could not be replaced: Read-only file system.")


def test_a_signal_during_the_trial_ends_the_process_and_the_trial(program: Program, tmp_path: Path) -> None:
    handover = offer(program, f"echo $$ > {tmp_path}/pid; exec sleep 600")
    script = textwrap.dedent(f"""
        from pathlib import Path
        from worker.logs.redactor import Redactor
        from worker.update.handover import hand_over
        from worker.program import Handover, Program
        program = Program(Path({str(program.path)!r}), "x", (), ("run",), {{}})
        hand_over(Handover(program, Path({str(handover.new)!r}), "2", 1, Path({str(handover.home)!r})), Redactor())
    """)
    process = subprocess.Popen([sys.executable, "-c", script])
    child = wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip(), 60)
    process.send_signal(signal.SIGTERM)
    assert process.wait(180) == 0
    wait_until(lambda: not Path(f"/proc/{child}").exists())
    assert program.path.read_text() == "#!/bin/sh\nexit 0\n"
