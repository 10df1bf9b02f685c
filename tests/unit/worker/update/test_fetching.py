"""Fetching a release: checked before it is kept, and nothing left behind when it is not."""

import hashlib
import stat
from pathlib import Path

import pytest

from tests.unit.worker.update.releases import CONTENT, releases
from worker.errors import JobFailed
from worker.program import Program
from worker.settings.model import UpdateSettings
from worker.update import recipe
from worker.update.recipe import Wanted, check_address, fetch_beside

pytestmark = pytest.mark.anyio
RIGHT = hashlib.sha256(CONTENT).hexdigest()


async def fetch(program: Program, url: str, project: str, sha256: str = RIGHT) -> Path:
    """Fetch as the job does, with the addresses that a fresh installation permits."""
    check = lambda address: check_address(address, UpdateSettings(), project)  # noqa: E731
    return await fetch_beside(program, Wanted("2.0.0", url, sha256), check, lambda _: None)


def beside(program: Program) -> list[str]:
    return [path.name for path in program.path.parent.iterdir()]


async def test_the_file_is_stored_beside_the_program_with_its_rights(program: Program, origin: str) -> None:
    new = await fetch(program, f"{origin}/good", origin)
    assert (new.read_bytes(), new.parent) == (CONTENT, program.path.parent)
    assert stat.S_IMODE(new.stat().st_mode) == 0o750


@pytest.mark.parametrize(
    ("path", "sha256", "code"),
    [("/good", "0" * 64, "update_checksum"), ("/short", RIGHT, "update_fetch"), ("/none", RIGHT, "fetch_failed")],
)
async def test_a_file_that_differs_from_the_published_one_is_not_kept(
    program: Program, origin: str, path: str, sha256: str, code: str
) -> None:
    with pytest.raises(JobFailed) as failure:
        await fetch(program, origin + path, origin, sha256)
    assert failure.value.code == code
    assert beside(program) == ["runyard-worker"]


async def test_a_file_without_end_is_given_up(program: Program, origin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe, "MOST_BYTES", 100)
    with pytest.raises(JobFailed) as failure:
        await fetch(program, f"{origin}/good", origin)
    assert failure.value.code == "too_large"
    assert beside(program) == ["runyard-worker"]


async def test_a_redirect_to_plain_http_elsewhere_is_not_followed(program: Program, origin: str) -> None:
    with releases() as elsewhere, pytest.raises(JobFailed, match="neither https nor") as failure:
        await fetch(program, f"{origin}/moved?to={elsewhere}/good", origin)
    assert failure.value.code == "update_address"
    assert beside(program) == ["runyard-worker"]


async def test_a_redirect_within_the_project_is_followed(program: Program, origin: str) -> None:
    assert (await fetch(program, f"{origin}/moved?to={origin}/good", origin)).read_bytes() == CONTENT


async def test_a_folder_that_cannot_be_written_is_reported_with_a_remedy(
    program: Program, origin: str, tmp_path: Path
) -> None:
    # A missing folder refuses everybody, root as well, as a read-only one does not.
    nowhere = Program(tmp_path / "gone" / "runyard-worker", program.artifact)
    with pytest.raises(JobFailed, match="cannot be written") as failure:
        await fetch(nowhere, f"{origin}/good", origin)
    assert failure.value.code == "update_folder"
    assert "may write to" in failure.value.hint
