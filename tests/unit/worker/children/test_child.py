"""Children: output in bounded pieces, one SIGINT, and nothing left of the group."""

import asyncio
import os
import signal
import subprocess
import sys
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from stack.settings import PROJECT
from tests.support.waiting import eventually, wait_until
from worker.children.child import READ_BYTES, Child, Command, stop_with_grace
from worker.children.users import COOKIE_VARIABLE, kill_orphans

pytestmark = pytest.mark.anyio

COUNTS_SIGNALS = """
import signal, sys, time, pathlib
seen = []
def note(number, frame):
    seen.append(signal.Signals(number).name)
    new = pathlib.Path("signals.new"); new.write_text(" ".join(seen)); new.rename("signals")
for each in (signal.SIGINT, signal.SIGTERM):
    signal.signal(each, note)
print("ready", flush=True)
while True: time.sleep(0.05)
"""


def command(script: str, cwd: Path, **env: str) -> Command:
    return Command((sys.executable, "-c", script), cwd, {"PATH": os.environ["PATH"], **env})


def shell(script: str, cwd: Path, **env: str) -> Command:
    return Command(("/bin/sh", "-c", script), cwd, {"PATH": os.environ["PATH"], **env})


class Collected:
    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    async def __call__(self, data: bytes) -> None:
        self.pieces.append(data)

    @property
    def text(self) -> str:
        return b"".join(self.pieces).decode()


async def test_output_and_exit_code_arrive(tmp_path: Path) -> None:
    out = Collected()
    child = Child.start(shell("echo one; echo two >&2; exit 3", tmp_path))
    assert await child.run(out) == 3
    assert out.text == "one\ntwo\n"


async def test_errors_can_be_read_apart(tmp_path: Path) -> None:
    out, errors = Collected(), Collected()
    child = Child.start(shell("echo one; echo two >&2", tmp_path), is_output_split=True)
    assert await child.run(out, errors) == 0
    assert (out.text, errors.text) == ("one\n", "two\n")


async def test_the_child_sees_nothing_but_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKER_TOKEN", "ryw_secret")
    out = Collected()
    child = Child.start(shell("env", tmp_path, ONLY="this"))
    await child.run(out)
    assert "ONLY=this" in out.text
    assert "ryw_secret" not in out.text


async def test_a_child_may_be_started_deaf_to_interrupts(tmp_path: Path) -> None:
    # Without a shell: some begin with nothing blocked.
    out, plain = Collected(), Command(("grep", "^SigBlk", "/proc/self/status"), tmp_path, dict(os.environ))
    await Child.start(plain).run(out)
    await Child.start(replace(plain, is_interrupt_blocked=True)).run(out)
    assert [int(line.split()[1], 16) for line in out.text.splitlines()] == [0, 1 << (signal.SIGINT - 1)]


async def test_a_stubborn_child_gets_exactly_one_sigint_and_is_then_killed(tmp_path: Path) -> None:
    out = Collected()
    child = Child.start(command(COUNTS_SIGNALS, tmp_path))
    running = asyncio.ensure_future(child.run(out))
    await eventually(lambda: _truth("ready" in out.text))
    child.interrupt()
    child.interrupt()
    await eventually(lambda: _truth((tmp_path / "signals").exists()))
    await stop_with_grace(child, 0.3, asyncio.sleep)
    assert await running < 0
    assert (tmp_path / "signals").read_text() == "SIGINT"
    assert child.is_killed


async def test_daemons_of_the_group_end_with_their_leader_and_do_not_block_the_pipe(tmp_path: Path) -> None:
    out = Collected()
    child = Child.start(shell("sleep 1000 & echo $!; exit 0", tmp_path))
    async with asyncio.timeout(180):
        assert await child.run(out) == 0
    daemon = int(out.text)
    wait_until(lambda: not _is_running(daemon))


async def test_a_daemon_that_left_the_group_is_found_by_its_cookie(tmp_path: Path) -> None:
    out, cookie = Collected(), uuid.uuid4().hex
    script = "import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True)"
    child = Child.start(command(script, tmp_path, **{COOKIE_VARIABLE: cookie}))
    await child.run(out)
    await eventually(lambda: _truth(kill_orphans(cookie) >= 1))
    wait_until(lambda: kill_orphans(cookie) == 0)


async def test_endless_output_is_read_in_small_pieces_and_the_loop_stays_free(tmp_path: Path) -> None:
    pieces = 0

    async def count(data: bytes) -> None:
        nonlocal pieces
        assert len(data) <= 2 * READ_BYTES
        pieces += 1

    child = Child.start(shell("exec cat /dev/zero", tmp_path))
    running = asyncio.ensure_future(child.run(count))
    await eventually(lambda: _truth(pieces > 100))
    child.kill()
    await running


async def test_a_slow_reader_slows_the_child_down_instead_of_filling_the_memory(tmp_path: Path) -> None:
    script = "import sys, pathlib\nfor n in range(10000):\n sys.stdout.write('x'*65536); pathlib.Path('n').write_text(str(n))"
    gate = asyncio.Event()

    async def wait(data: bytes) -> None:
        await gate.wait()

    child = Child.start(command(script, tmp_path))
    running = asyncio.ensure_future(child.run(wait))
    await eventually(lambda: _truth((tmp_path / "n").exists() and (tmp_path / "n").read_text() != ""))
    seen: list[str] = []

    async def is_held_up() -> bool:
        """Whether five glances in a row saw the same number."""
        seen.append((tmp_path / "n").read_text())
        return len(seen) > 5 and len(set(seen[-5:])) == 1

    await eventually(is_held_up)
    assert int((tmp_path / "n").read_text() or 0) < 20
    gate.set()
    child.kill()
    await running


async def test_the_child_is_interrupted_when_its_runner_is_killed(tmp_path: Path) -> None:
    parent = f"""
import asyncio, pathlib, sys
from worker.children.child import Child, Command
async def main():
    child = Child.start(Command((sys.executable, "-c", {COUNTS_SIGNALS!r}), pathlib.Path({str(tmp_path)!r}), {{}}))
    print(child.pid, flush=True)
    async def sink(data): print("ready", flush=True)
    await child.run(sink)
asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", parent, stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(Path.cwd())}
    )
    assert process.stdout is not None
    child = int(await process.stdout.readline())
    await process.stdout.readline()
    process.kill()
    await process.wait()
    await eventually(lambda: _truth((tmp_path / "signals").exists()))
    assert (tmp_path / "signals").read_text() == "SIGINT"
    os.kill(child, 9)


async def _truth(value: bool) -> bool:
    return value


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in {"Z", "X"}


def test_a_child_outlives_the_pipe_of_a_runner_that_died(tmp_path: Path) -> None:
    """An engine that prints must not be ended by that before it has written its state."""
    wait = f"while [ ! -e {tmp_path}/dead ]; do sleep 0.05; done"
    script = f"trap '' INT; touch {tmp_path}/ready; {wait}; echo words; touch {tmp_path}/written"
    runner = (
        "import os, pathlib, time\n"
        "from worker.children.child import Child, Command\n"
        f"Child.start(Command(('/bin/sh', '-c', {script!r}), pathlib.Path('/'), {{'PATH': os.defpath}}))\n"
        f"while not pathlib.Path({str(tmp_path / 'ready')!r}).exists(): time.sleep(0.05)\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", runner], check=True, timeout=180, env={"PYTHONPATH": str(PROJECT)})
    (tmp_path / "dead").touch()
    wait_until((tmp_path / "written").exists)
