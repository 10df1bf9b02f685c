"""A runner that cannot do jobs reports it, accepts none, and recovers automatically."""

import asyncio
import errno
import json
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.waiting import eventually
from tests.unit.worker.fakes import HandClock
from worker.doctor.host import degraded
from worker.errors import RunnerUnfit
from worker.fitness import NOTE_FILE, Fitness, lacking, no_directory, probe_disk
from worker.process_status import ProcessStatus

pytestmark = pytest.mark.anyio


async def truth(value: object) -> bool:
    return bool(value)


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, "disk"),
        (errno.EDQUOT, "disk"),
        (errno.ENOMEM, "memory"),
        (errno.EMFILE, "memory"),
        (errno.EROFS, "work_directory"),
        (errno.ENOENT, None),
    ],
)
def test_errors_of_the_machine_are_distinguished_from_errors_of_a_job(number: int, code: str | None) -> None:
    found = lacking(OSError(number, "words"))
    assert (found.code if found else None) == code


def test_its_own_folders_are_always_the_runners_fault() -> None:
    assert no_directory(PermissionError(errno.EACCES, "Permission denied")).code == "work_directory"


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyError("items")], ids=repr)
async def test_an_unfit_runner_accepts_no_jobs_until_a_probe_succeeds(tmp_path: Path, failure: Exception) -> None:
    process_status, clock, changes = ProcessStatus(capacity=3), HandClock(), []
    home = tmp_path / "instances" / "one"
    home.mkdir(parents=True)
    fitness = Fitness(process_status, clock, home, lambda: changes.append(1))
    tries: list[float] = []

    async def probe() -> None:
        tries.append(clock.time)
        if len(tries) < 4:
            raise failure

    running = asyncio.create_task(fitness.run({"disk": probe}))
    fitness.lacks(RunnerUnfit("full", code="disk"))
    assert process_status.free_slots(0) == 0
    assert process_status.degraded is not None
    assert process_status.degraded["code"] == "disk"
    assert json.loads((home / NOTE_FILE).read_text())["reason"] == "full"
    (check,) = degraded(tmp_path)
    assert "disk: full" in check.seen
    await eventually(lambda: truth(process_status.degraded is None or running.done()))
    running.cancel()
    assert process_status.free_slots(0) == 3
    assert degraded(tmp_path) == []
    assert len(changes) == 2
    pauses = [later - earlier for earlier, later in pairwise(tries)]
    assert pauses == sorted(pauses)


async def test_a_file_in_the_place_of_the_folder_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="exists"):
        await probe_disk(tmp_path / "file")
    await probe_disk(tmp_path / "new")
