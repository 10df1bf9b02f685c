"""Finding out whether this process is one file, and which."""

import json
import sys
import zipfile
from pathlib import Path

import pytest

from worker.doctor.check import Verdict
from worker.doctor.host import self_update
from worker.program import NOT_ONE_FILE, Program, find_program, obstacle


def pex(path: Path, entry_point: str = "worker.cli:main") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("PEX-INFO", json.dumps({"entry_point": entry_point}))
    return path


def test_a_pex_is_started_again_by_the_same_python(tmp_path: Path) -> None:
    file = pex(tmp_path / "runner")
    environ = {"PEX": str(file), "_PEX_CACHE_ACCESS_LOCK": "0|3|x", "WORKER_TOKEN": "secret", "HOME": "/home/x"}
    program = find_program(environ, ["run", "--capacity", "2"])
    assert program is not None
    assert program.artifact.endswith(".pex")
    assert program.command(file, *program.arguments) == [sys.executable, str(file), "run", "--capacity", "2"]
    assert program.environment == {"WORKER_TOKEN": "secret", "HOME": "/home/x"}
    assert "secret" not in repr(program)


def test_a_scie_is_the_file_around_the_pex_and_brings_its_own_python(tmp_path: Path) -> None:
    inner, outer = pex(tmp_path / "inner.pex"), tmp_path / "runner"
    outer.touch()
    program = find_program({"PEX": str(inner), "SCIE": str(outer), "SCIE_ARGV0": "runner"}, ["run"])
    assert program is not None
    assert (program.path, program.launcher, program.environment) == (outer, (), {})
    assert not program.artifact.endswith(".pex")


def test_a_link_is_followed_so_that_the_file_itself_is_replaced(tmp_path: Path) -> None:
    file = pex(tmp_path / "runner-1.0")
    (tmp_path / "runner").symlink_to(file)
    program = find_program({"PEX": str(tmp_path / "runner")}, [])
    assert program is not None
    assert program.path == file


@pytest.mark.parametrize("kind", ["unset", "missing", "another program", "no archive"])
def test_a_file_that_is_no_runner_is_not_replaced(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "x"
    if kind == "another program":
        pex(file, "black:main")
    elif kind == "no archive":
        file.write_text("#!/bin/sh\n")
    assert find_program({} if kind == "unset" else {"PEX": str(file)}, []) is None


def test_a_program_in_a_folder_that_cannot_be_written_is_an_obstacle(tmp_path: Path) -> None:
    assert obstacle(None) == NOT_ONE_FILE
    assert obstacle(Program(tmp_path / "runner", "x")) == ""
    # Root may write to every existing folder; a missing one refuses it too.
    assert "may not write to" in obstacle(Program(tmp_path / "gone" / "runner", "x"))


def test_the_doctor_shows_whether_the_runner_can_update_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PEX", raising=False)
    assert (self_update().verdict, self_update().seen) == (Verdict.WARN, NOT_ONE_FILE)
    monkeypatch.setenv("PEX", str(pex(tmp_path / "runner")))
    assert self_update().verdict is Verdict.OK
