"""The process between a runner and a child, where it cannot import anything any more."""

import subprocess
import sys
from pathlib import Path

import pytest

from worker.children.isolation import KEEPER
from worker.children.sandbox.kernel import CANNOT_START


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        ("/none:{here}/locked:{here}/good", 0, "ran\n"),
        ("{here}/file:{here}/good", 0, "ran\n"),
        ("/none", CANNOT_START, "[runyard] hello: No such file or directory\n"),
        ("{here}/locked:/none", CANNOT_START, "[runyard] hello: Permission denied\n"),
    ],
)
def test_a_program_is_found_where_python_can_import_nothing_more(
    tmp_path: Path, path: str, code: int, said: str
) -> None:
    """Run isolated, where Python's own library is out of sight."""
    for name, mode in (("good", 0o755), ("locked", 0o644)):
        (tmp_path / name).mkdir()
        program = tmp_path / name / "hello"
        program.write_text("#!/bin/sh\necho ran\n")
        program.chmod(mode)
    (tmp_path / "file").touch()
    calls = "sys.modules.pop('warnings', None); sys.meta_path.clear(); execute(['hello'], {'PATH': sys.argv[1]})"
    script = KEEPER[-1].replace("keeper import main; main()", f"kernel import execute; {calls}")
    done = subprocess.run(
        [sys.executable, *KEEPER[:-1], script, path.format(here=tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (code, said)


def test_keeper_loads_nothing_of_the_runner_beside_its_sandboxes() -> None:
    script = KEEPER[-1].replace("main()", "print(*sys.modules)")
    done = subprocess.run([sys.executable, *KEEPER[:-1], script], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    ours = {name for name in loaded if name.startswith("worker") and not name.startswith("worker.children.sandbox")}
    assert ours == {"worker", "worker.children"}
    assert loaded & {"json", "signal", "typing", "pathlib", "subprocess"} == set()
