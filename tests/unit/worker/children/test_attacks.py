"""Attacks on the machine, the runner and other jobs, by a child of a job in each kind of isolation that this machine has."""

import os
from pathlib import Path

import pytest

from tests.support.job_place import SANDBOXES, Collected, Place, place, system_python
from worker.attempt.isolating import check_strangers
from worker.children.child import Child
from worker.children.isolation import Isolation
from worker.errors import Fatal
from worker.settings.isolation import IsolationWay

__all__ = ["place"]

pytestmark = pytest.mark.anyio

# Prints each file of /proc that is no process's own and that opens for writing.
OPEN_SETTINGS = """
import os
count = 0
for folder, names, files in os.walk("/proc"):
    if folder == "/proc":
        names[:] = [name for name in names if not name.isdigit()]
    for path in (os.path.join(folder, name) for name in files):
        count += 1
        try:
            os.close(os.open(path, os.O_WRONLY))
            print("writable", path)
        except OSError:
            pass
print("tried" if count > 50 else f"only {count} files")
"""
UNCOVER = """
import os, subprocess
words = ["mount -t proc proc /proc", "umount /proc/sys", "mount -o remount,rw /proc/sys", "umount -l /usr",
         "unshare --user --map-root-user --mount --pid --fork --mount-proc test -w /proc/sys/kernel/core_pattern"]
for each in words:
    if subprocess.run(each.split(), capture_output=True).returncode == 0:
        print("worked:", each)
print("capabilities", open("/proc/self/status").read().partition("CapEff:")[2].split()[0])
"""


async def attack(isolation: Isolation, place: Place, program: str, *arguments: object) -> list[str]:
    out = Collected()
    command = isolation.enclose(
        place.command(system_python(), "-c", program, *(str(each) for each in arguments)), place.root
    )
    assert await Child.start(command).run(out) == 0, out.text
    isolation.end(place.root)
    return out.text.splitlines()


@pytest.mark.parametrize("way", [*SANDBOXES, IsolationWay.LANDLOCK])
async def test_no_setting_of_the_machine_opens_for_writing(place: Place, way: str) -> None:
    assert await attack(place.isolation(way), place, OPEN_SETTINGS) == ["tried"]


async def test_a_jobs_own_user_opens_no_setting_that_is_not_everybodys(place: Place) -> None:
    *found, last = await attack(place.isolation("user"), place, OPEN_SETTINGS)
    assert last == "tried"
    assert [line for line in found if not Path(line.split()[1]).stat().st_mode & 0o002] == []


@pytest.mark.parametrize("way", IsolationWay)
async def test_a_job_has_no_capability_and_uncovers_nothing(place: Place, way: str) -> None:
    assert await attack(place.isolation(way), place, UNCOVER) == [f"capabilities {'0' * 16}"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("way", SANDBOXES)
def test_a_shared_runner_refuses_to_start_as_root(place: Place, way: str) -> None:
    isolation = place.isolation(way)
    check_strangers(isolation, {"org_id": "one organisation's"})
    with pytest.raises(Fatal, match="runs as root") as refused:
        check_strangers(isolation, {"org_id": None})
    assert "user of its own" in refused.value.hint


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_shared_runner_may_be_root_where_each_job_is_a_user_of_its_own(place: Place) -> None:
    check_strangers(place.isolation("user"), {"org_id": None})
