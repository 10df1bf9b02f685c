"""One part of the project hangs and then dies in the middle of an apply: nothing that the apply did is lost."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.faults.applying import Apply, pass_seconds
from tests.faults.seen import watched
from tests.faults.worker_engine import make_engine
from tests.faults.worker_proxy import Proxy
from tests.integration.worker_bench import open_bench
from tests.support.extent import sampled
from tests.support.stack import RunningStack

PARTS = ("postgres", "gateway")


@pytest.fixture
def apply(fresh_stack: RunningStack, tmp_path: Path) -> Iterator[Apply]:
    """On a stack that the test may break."""
    with open_bench(fresh_stack, tmp_path) as bench, Proxy(bench.project.url) as proxy:
        yield Apply(bench, proxy, make_engine(tmp_path / "engine", bench.tofu))


@contextmanager
def hung(stack: RunningStack, *parts: str) -> Iterator[None]:
    """These parts stop answering, are killed in the end, as an operator kills what hangs, and return."""
    trees = {part: _suspend(stack.part_pid(part)) for part in parts}
    try:
        yield
    finally:
        for first, *others in trees.values():
            with suppress(psutil.NoSuchProcess):
                first.kill()
            for process in others:
                with suppress(psutil.NoSuchProcess):
                    process.resume()
    for part, (first, *_) in trees.items():
        stack.wait_replaced(part, first.pid)


def _suspend(pid: int) -> list[psutil.Process]:
    """The process first: from then on it has no new children, and those that it has may only end."""
    first = psutil.Process(pid)
    first.suspend()
    others = first.children(recursive=True)
    for process in others:
        with suppress(psutil.NoSuchProcess):
            process.suspend()
    return [first, *others]


@pytest.mark.parametrize("part", sampled(PARTS, 1))
@pytest.mark.parametrize(
    "seconds", [20, pytest.param(50, marks=pytest.mark.slow), pytest.param(100, marks=pytest.mark.slow)]
)
def test_an_apply_continues_and_ends_while_a_part_is_away(
    apply: Apply, fresh_stack: RunningStack, part: str, seconds: int
) -> None:
    title = f"{part} is away for {seconds} s, and the apply ends meanwhile"
    with watched(title, apply.bench, apply.job, apply.worker[0], apply.runner) as watch:
        with hung(fresh_stack, part):
            watch.note(f"{part} hangs")
            pass_seconds(seconds / 2)
            watch.note("the apply ends")
            apply.end()
            apply.wait_ended_away()
            pass_seconds(seconds / 2)
            watch.note(f"{part} is killed, and started again")
        row = apply.bench.wait_job(apply.job, "SUCCEEDED", "FAILED")
        watch.poll_once_more()
    apply.check_whole(row)


@pytest.mark.slow
def test_runner_and_project_die_together(apply: Apply, fresh_stack: RunningStack) -> None:
    with watched("Runner and project die together", apply.bench, apply.job, apply.worker[0], apply.runner) as watch:
        with hung(fresh_stack, *PARTS):
            watch.note("PostgreSQL and gateway hang, and the apply ends")
            apply.end()
            apply.wait_ended_away()
            apply.runner.signal(signal.SIGKILL)
            apply.runner.wait()
            watch.note("runner, PostgreSQL and gateway are killed, and started again")
        watch.runner = apply.start_again()
        row = apply.bench.wait_job(apply.job, "SUCCEEDED", "FAILED")
        watch.poll_once_more()
    apply.check_whole(row)
