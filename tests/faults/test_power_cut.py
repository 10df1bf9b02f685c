"""The machine loses its power: unsynced data is lost, and data that the runner had called safe is not."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.faults.applying import Apply
from tests.faults.seen import watched
from tests.faults.worker_engine import make_engine
from tests.faults.worker_proxy import Proxy
from tests.integration.worker_bench import Bench, bench
from tests.support.waiting import wait_until

__all__ = ["bench"]
Mount = Callable[[Path, str], Path]


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"{command[0]} cannot be used here: {done.stderr.strip()}")


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """Mounts images of disks, which write nothing on their own for as long as a test takes."""
    with ExitStack() as stack:

        def at(image: Path, name: str) -> Path:
            place = tmp_path / name
            place.mkdir()
            run("mount", "-o", "loop,commit=600", str(image), str(place))
            stack.callback(subprocess.run, ["umount", "--lazy", str(place)], check=True)
            return place

        yield at


@pytest.fixture
def image(tmp_path: Path) -> Path:
    made = tmp_path / "disk.img"
    with made.open("wb") as file:
        file.truncate(256 << 20)
    run("mkfs.ext4", "-q", "-F", str(made))
    return made


@pytest.fixture
def apply(bench: Bench, tmp_path: Path, image: Path, mount: Mount) -> Iterator[Apply]:
    home = mount(image, "before")
    with Proxy(bench.project.url) as proxy:
        yield Apply(bench, proxy, make_engine(tmp_path / "engine", bench.tofu), home=home)


def cut_power(apply: Apply, image: Path, mount: Mount) -> Path:
    """End everything at once; the disk that returns contains the data that had reached it, and nothing else."""
    unsynced = apply.runner.home / "unsynced"
    unsynced.write_text("x" * 10_000)
    process = psutil.Process(apply.runner.process.pid)
    for each in [process, *process.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    apply.runner.wait()
    after = image.with_name("after.img")
    after.write_bytes(image.read_bytes())
    home = mount(after, "after")
    assert not (home / "unsynced").exists() or (home / "unsynced").stat().st_size == 0, "the power was not cut"
    return home


def test_an_apply_that_ended_while_the_project_was_away_survives(apply: Apply, image: Path, mount: Mount) -> None:
    apply.cut()
    apply.end()
    apply.wait_ended_away()
    home = cut_power(apply, image, mount)
    apply.proxy.mend()
    apply.start_again(home)
    apply.check_whole(apply.bench.wait_job(apply.job, "SUCCEEDED", "FAILED"))


def code_of(apply: Apply) -> Any:
    return (apply.bench.job(apply.job)["error"] or {}).get("code")


@pytest.mark.slow
def test_in_the_middle_of_an_apply_the_job_is_left_to_a_person_with_its_lock(
    apply: Apply, image: Path, mount: Mount
) -> None:
    with watched(
        "The runner's machine loses its power", apply.bench, apply.job, apply.worker[0], apply.runner
    ) as watch:
        watch.note("the power is cut")
        home = cut_power(apply, image, mount)
        watch.note("the machine is back")
        watch.runner = apply.start_again(home)
        wait_until(lambda: code_of(apply) == "RUNNER_LOST", timeout_seconds=150)
        watch.poll_once_more()
    assert apply.bench.job(apply.job)["status"] == "NEEDS_ATTENTION"
    assert apply.bench.rpc("state_info", p_module=apply.module)["lock"]["job_id"] == apply.job
