"""One supervised process: restarted, ended when it hangs, stopped, its output kept."""

import asyncio
import io
import os
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from cli.launcher import process as supervised
from cli.launcher.journal import Journal
from cli.launcher.process import Part, PartRunner, PartStatus
from cli.launcher.supervisor import Supervisor
from stack.errors import StackError, Unhealthy
from tests.support.stack import is_running
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "logs", io.StringIO())


def part(source: str, is_healthy: Callable[[], bool] = lambda: True, **options: float) -> Part:
    async def check() -> bool:
        return is_healthy()

    return Part("part", lambda: [sys.executable, "-c", source], check, **options)  # type: ignore[arg-type]


SLEEP = "import time; time.sleep(600)"


def part_of(commands: list[list[str] | Exception]) -> Part:
    """A part whose command is another one each time it is requested, or an error; the last one stays."""

    async def check() -> bool:
        return True

    def command() -> list[str]:
        wanted = commands.pop(0) if len(commands) > 1 else commands[0]
        if isinstance(wanted, Exception):
            raise wanted
        return wanted

    return Part("part", command, check)


def open_pipes() -> set[str]:
    """The pipes and sockets of this process by name. Files of earlier tests may be closed at any time."""
    links = []
    for link in Path("/dev/fd").iterdir():
        with suppress(OSError):
            links.append(str(link.readlink()))
    return {name for name in links if not name.startswith("/")}


async def test_a_killed_process_is_restarted(journal: Journal) -> None:
    runner = PartRunner(part(SLEEP), journal)
    await runner.start()
    assert runner.process is not None
    first = runner.process.pid
    os.kill(first, signal.SIGKILL)

    async def is_back() -> bool:
        return runner.status is PartStatus.STARTING and runner.process is not None and runner.process.pid != first

    try:
        await eventually(is_back)
        assert "was ended by SIGKILL" in journal.tail("part")
    finally:
        await runner.stop()
    assert runner.status is PartStatus.STOPPED


async def test_a_process_that_ends_at_once_is_reported_with_its_output(journal: Journal) -> None:
    runner = PartRunner(part("raise SystemExit('no such luck')", lambda: False), journal)
    with pytest.raises(Unhealthy, match="no such luck"):
        await runner.start()
    await runner.stop()


async def test_a_process_that_never_gets_healthy_is_reported(journal: Journal) -> None:
    runner = PartRunner(part(SLEEP, lambda: False, start_seconds=0.2), journal)
    with pytest.raises(Unhealthy, match="part did not start"):
        await runner.start()
    await runner.stop()
    assert runner.process is not None
    assert runner.process.returncode is not None


async def test_a_process_that_hangs_is_replaced(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised, "HEALTH_EVERY_SECONDS", 0.05)
    answers, asked = {"healthy": True}, [0]

    def is_healthy() -> bool:
        asked[0] += 1
        return answers["healthy"]

    async def was_seen_healthy() -> bool:
        # The first checks belong to the start; a later one has to find it healthy before a hang can be noticed.
        return asked[0] > at_start + 1

    async def was_ended() -> bool:
        return runner.ends > 0

    runner = PartRunner(part(SLEEP, is_healthy), journal)
    await runner.start()
    at_start = asked[0]
    try:
        await eventually(was_seen_healthy)
        answers["healthy"] = False
        await eventually(was_ended)
        assert "does not answer; ending it" in journal.tail("part")
    finally:
        await runner.stop()


async def test_the_children_of_a_process_end_with_it(journal: Journal, tmp_path: Path) -> None:
    child = tmp_path / "child"
    source = f"import subprocess; p = subprocess.Popen(['sleep', '600']); open({str(child)!r}, 'w').write(str(p.pid)); p.wait()"
    runner = PartRunner(part(source, child.exists), journal)
    await runner.start()

    async def pid() -> int:
        return int(child.read_text() or 0)

    left = await eventually(pid)
    await runner.stop()

    async def is_gone() -> bool:
        return not is_running(left)

    await eventually(is_gone)


async def test_output_is_kept_line_by_line_even_without_an_end(journal: Journal) -> None:
    source = "import sys, time; sys.stdout.write('one\\ntwo\\n' + 'x' * 200_000); sys.stdout.flush(); time.sleep(600)"
    runner = PartRunner(part(source), journal)
    await runner.start()

    async def is_written() -> bool:
        return journal.path("part").exists() and "x" * 1000 in journal.path("part").read_text()

    try:
        await eventually(is_written)
        assert [line.split(" ", 1)[1] for line in journal.path("part").read_text().splitlines()[:2]] == ["one", "two"]
    finally:
        await runner.stop()


async def test_a_part_that_cannot_be_started_again_is_tried_until_it_can(journal: Journal) -> None:
    sleep = [sys.executable, "-c", SLEEP]
    wrong = ["/no/such/program"]
    runner = PartRunner(part_of([sleep, StackError("half a file"), wrong, sleep]), journal)
    await runner.start()
    first = runner.process and runner.process.pid
    runner.signal(signal.SIGKILL)

    async def is_back() -> bool:
        return (runner.process and runner.process.pid) != first

    try:
        await eventually(is_back, timeout_seconds=30)
        assert runner.ends == 3
        assert "half a file" in journal.tail("part")
    finally:
        await runner.stop()


async def test_a_part_that_cannot_start_reports_the_reason_and_leaves_no_file_open(journal: Journal) -> None:
    runner = PartRunner(part_of([StackError("no such setting")]), journal)
    before = open_pipes()
    with pytest.raises(StackError, match="no such setting"):
        await runner.start()
    assert open_pipes() <= before
    await runner.stop()


async def test_a_journal_that_cannot_write_still_prints_to_the_terminal(journal: Journal) -> None:
    shutil.rmtree(journal.folder)
    journal.folder.write_text("in the way")
    journal.note("part", "noted")
    journal.line("part", "printed")
    assert isinstance(journal.terminal, io.StringIO)
    assert [line.partition(" | ")[2] for line in journal.terminal.getvalue().splitlines()] == ["noted", "printed"]


async def test_a_repeated_task_of_the_supervisor_continues_after_failures_noted_once(journal: Journal) -> None:
    done = asyncio.Event()
    failures = [FileNotFoundError("functions"), FileNotFoundError("functions")]

    async def work() -> None:
        if failures:
            raise failures.pop()
        done.set()

    supervisor = SimpleNamespace(journal=journal)
    repeating = asyncio.create_task(Supervisor._repeat(supervisor, 0, work))  # type: ignore[arg-type]
    async with asyncio.timeout(30):
        await asyncio.wait([repeating, asyncio.create_task(done.wait())], return_when=asyncio.FIRST_COMPLETED)
    assert not repeating.done()
    assert journal.tail("supervisor").count("functions") == 1
    repeating.cancel()
