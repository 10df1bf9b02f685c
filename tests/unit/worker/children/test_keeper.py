"""The process between a runner and a child, where it cannot import anything any more."""

import subprocess
import sys
from pathlib import Path

import pytest

from worker.children import keeper


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        ("/none:{here}/locked:{here}/good", 0, "ran\n"),
        ("{here}/file:{here}/good", 0, "ran\n"),
        ("/none", keeper.CANNOT_START, "[runyard] hello: No such file or directory\n"),
        ("{here}/locked:/none", keeper.CANNOT_START, "[runyard] hello: Permission denied\n"),
    ],
)
def test_a_program_is_found_where_python_can_import_nothing_more(
    tmp_path: Path, path: str, code: int, said: str
) -> None:
    """As shut in, where Python's own library is out of sight."""
    for name, mode in (("good", 0o755), ("locked", 0o644)):
        (tmp_path / name).mkdir()
        program = tmp_path / name / "hello"
        program.write_text("#!/bin/sh\necho ran\n")
        program.chmod(mode)
    (tmp_path / "file").touch()
    script = "import runpy, sys; keeper = runpy.run_path(sys.argv[1]); sys.modules.pop('warnings', None); sys.meta_path.clear()\n"
    script += "keeper['execute'](['hello'], {'PATH': sys.argv[2]})"
    arguments = [str(keeper.__file__), path.format(here=tmp_path)]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, *arguments], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (code, said)
