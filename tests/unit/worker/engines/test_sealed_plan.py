"""A plan is sealed once, and a plan that differs from it is never passed to an engine."""

import hashlib
import subprocess
from pathlib import Path

import pytest

from tests.unit.worker.workspaces import open_workspace
from worker.engines.sealed_plan import load_sealed, opened_plan, seal_plan, sealed_bytes
from worker.enums import JobType
from worker.errors import JobFailed

PLAN = b"a plan"
DIGEST = hashlib.sha256(PLAN).hexdigest()


def test_a_saved_plan_must_be_the_one_that_the_job_names(tmp_path: Path) -> None:
    space = open_workspace(tmp_path, kind=JobType.APPLY, plan_job_id=7, plan_sha256=DIGEST)
    with pytest.raises(JobFailed) as caught:
        load_sealed(space, b"another plan")
    assert caught.value.code == "plan_changed"
    assert DIGEST in caught.value.message
    assert (space.plan, space.plan_file.exists()) == (None, False)
    load_sealed(space, PLAN)
    assert space.result["plan_sha256"] == DIGEST
    assert space.plan_file.read_bytes() == PLAN


def test_a_job_without_a_digest_uses_the_saved_plan(tmp_path: Path) -> None:
    space = open_workspace(tmp_path, kind=JobType.APPLY, plan_job_id=7)
    load_sealed(space, PLAN)
    assert sealed_bytes(space) == PLAN


@pytest.mark.parametrize("is_link", [False, True])
def test_a_changed_copy_is_refused_and_a_missing_one_is_not(tmp_path: Path, is_link: bool) -> None:
    space = open_workspace(tmp_path)
    space.plan_file.write_bytes(PLAN)
    seal_plan(space)
    space.plan_file.unlink()
    assert sealed_bytes(space) == PLAN
    (tmp_path / "elsewhere").write_bytes(PLAN)
    if is_link:
        space.plan_file.symlink_to(tmp_path / "elsewhere")
    else:
        space.plan_file.write_bytes(b"another plan")
    with pytest.raises(JobFailed, match="Nothing was applied"):
        sealed_bytes(space)


def test_an_engine_reads_the_sealed_bytes_and_cannot_write_them(tmp_path: Path) -> None:
    space = open_workspace(tmp_path)
    space.plan_file.write_bytes(PLAN)
    seal_plan(space)
    with opened_plan(space) as (path, descriptors):
        space.plan_file.write_bytes(b"another plan")
        script = f"cat {path}; (echo x >> {path}) 2> /dev/null || echo refused"
        done = subprocess.run(["/bin/sh", "-c", script], pass_fds=descriptors, capture_output=True, check=True)
    assert done.stdout == PLAN + b"refused\n"


def test_no_plan_is_an_error_of_the_job(tmp_path: Path) -> None:
    space = open_workspace(tmp_path)
    seal_plan(space)
    with pytest.raises(JobFailed) as caught:
        sealed_bytes(space)
    assert caught.value.code == "no_plan"
