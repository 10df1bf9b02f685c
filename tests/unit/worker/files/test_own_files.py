"""The runner reads and writes only inside a job's folder, whatever the job has put there."""

import os
from pathlib import Path

import pytest

from worker.files.own_files import read_own, remove_own, replace_own, reserve_own, write_own


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root/source/module").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/plan").write_text("the runner's secret")
    return tmp_path / "root"


def test_a_plain_file_is_read_from_an_offset_and_written_anew(root: Path) -> None:
    file = root / "source/module/plan"
    assert read_own(root, file) is None
    write_own(root, file, b"first")
    write_own(root, file, b"second")
    assert read_own(root, file) == b"second"
    assert read_own(root, file, offset=3) == b"ond"


def test_a_link_is_not_followed_neither_at_the_end_nor_on_the_way(root: Path) -> None:
    outside = root.parent / "outside"
    (root / "plan").symlink_to(outside / "plan")
    (root / "folder").symlink_to(outside)
    assert read_own(root, root / "plan") is None
    assert read_own(root, root / "folder/plan") is None
    write_own(root, root / "plan", b"of the job")
    with pytest.raises(NotADirectoryError):
        write_own(root, root / "folder/plan", b"of the job")
    assert (outside / "plan").read_text() == "the runner's secret"
    assert read_own(root, root / "plan") == b"of the job"


def test_a_pipe_or_a_folder_is_no_file_and_nobody_waits_for_it(root: Path) -> None:
    os.mkfifo(root / "pipe")
    assert read_own(root, root / "pipe") is None
    assert read_own(root, root / "source") is None


def test_the_way_to_the_jobs_folder_may_lead_through_a_link_of_the_operators(root: Path) -> None:
    alias = root.parent / "alias"
    alias.symlink_to(root)
    write_own(alias, root.resolve() / "source/file", b"x")
    assert read_own(alias, alias / "source/file") == b"x"


def test_a_reserved_file_is_empty_and_has_its_room_already(tmp_path: Path) -> None:
    reserve_own(tmp_path, tmp_path / "errored.tfstate", 1 << 20)
    facts = (tmp_path / "errored.tfstate").stat()
    assert (facts.st_size, facts.st_blocks * 512 >= 1 << 20) == (0, True)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        reserve_own(tmp_path, tmp_path / "link", 1 << 20)
    assert not (tmp_path / "elsewhere").exists()


def test_replacing_never_shows_half_a_file_and_follows_no_link(root: Path) -> None:
    file, outside = root / "source/token", root.parent / "outside"
    replace_own(root, file, b"first")
    with file.open("rb") as reader:
        replace_own(root, file, b"second")
        assert reader.read() == b"first", "somebody who is reading has the whole old content"
    assert file.read_bytes() == b"second"
    assert file.stat().st_mode & 0o777 == 0o600
    file.unlink()
    file.symlink_to(outside / "plan")
    replace_own(root, file, b"third")
    assert (outside / "plan").read_text() == "the runner's secret"
    assert [each.name for each in file.parent.iterdir() if each.is_file()] == ["token"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_replaced_file_belongs_to_the_user_of_its_folder(root: Path) -> None:
    os.chown(root / "source", 20_001, 20_001)
    replace_own(root, root / "source/token", b"x")
    assert (root / "source/token").stat().st_uid == 20_001


def test_replacing_a_folder_fails_and_leaves_nothing_behind(root: Path) -> None:
    (root / "source/token").mkdir()
    with pytest.raises(OSError, match="directory"):
        replace_own(root, root / "source/token", b"x")
    assert sorted(each.name for each in (root / "source").iterdir()) == ["module", "token"]


def test_removing_follows_no_link_and_tolerates_a_missing_file(root: Path) -> None:
    outside = root.parent / "outside"
    (root / "folder").symlink_to(outside)
    for path in (root / "folder/plan", root / "nothing"):
        remove_own(root, path)
    assert (outside / "plan").exists()
    replace_own(root, root / "token", b"x")
    remove_own(root, root / "token")
    assert not (root / "token").exists()
