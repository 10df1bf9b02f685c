"""Files that a job brings along stay below its directory."""

import errno
import io
import os
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.errors import JobFailed
from worker.files.archive import MOST_FILES, unpack
from worker.files.safe_writer import SafeWriter, split_path


def writer(root: Path, *, most_bytes: int = 10_000, most_files: int = 10) -> SafeWriter:
    return SafeWriter(root, most_bytes=most_bytes, most_files=most_files)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "../x",
        "a/../../x",
        "a//b",
        "./a",
        "a/.",
        "~/.ssh/x",
        "a\\b",
        "a\0b",
        "a\nb",
        "/".join("a" * 40),
        "x" * 300,
        "\ud800",
    ],
)
def test_paths_that_could_lead_elsewhere_are_refused(path: str) -> None:
    with pytest.raises(JobFailed) as caught:
        split_path(path)
    assert caught.value.code == "unsafe_path"


@given(st.text(max_size=40))
def test_every_accepted_path_stays_below_the_root(path: str) -> None:
    try:
        names = split_path(path)
    except JobFailed:
        return
    resolved = os.path.normpath("/base/" + "/".join(names))
    assert resolved == "/base/" + path


def test_a_file_is_created_with_its_parents(tmp_path: Path) -> None:
    with writer(tmp_path) as safe:
        safe.write("a/b/c.txt", b"hello", mode=0o755)
    assert (tmp_path / "a/b/c.txt").read_bytes() == b"hello"
    assert (tmp_path / "a/b/c.txt").stat().st_mode & 0o777 == 0o755


def test_setuid_and_world_writable_bits_are_dropped(tmp_path: Path) -> None:
    with writer(tmp_path) as safe:
        safe.write("x", b"", mode=0o6777)
    assert (tmp_path / "x").stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize("path", ["link/x", "link", "dir/inner/x"])
def test_links_in_the_way_are_not_followed(tmp_path: Path, path: str) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "dir").mkdir(parents=True)
    outside.mkdir()
    (root / "link").symlink_to(outside)
    (root / "dir/inner").symlink_to(outside)
    with writer(root) as safe, pytest.raises(JobFailed):
        safe.write(path, b"escaped")
    assert list(outside.iterdir()) == []


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "main.tf").write_text("original")
    with writer(tmp_path) as safe, pytest.raises(JobFailed, match="already exists"):
        safe.write("main.tf", b"other")
    assert (tmp_path / "main.tf").read_text() == "original"


def test_limits_on_size_and_number(tmp_path: Path) -> None:
    with writer(tmp_path, most_bytes=10, most_files=2) as safe:
        safe.write("a", b"12345")
        with pytest.raises(JobFailed, match="size limit"):
            safe.write("b", b"123456")
        with pytest.raises(JobFailed, match="Too many files"):
            safe.write("c", b"")


def make_tar(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def link(name: str, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


def test_a_tar_is_unpacked(tmp_path: Path) -> None:
    archive = make_tar(tmp_path / "m.tgz", [(tarfile.TarInfo("./mod/main.tf"), b"# hi")])
    (tmp_path / "out").mkdir()
    assert unpack(archive, tmp_path / "out") == 1
    assert (tmp_path / "out/mod/main.tf").read_bytes() == b"# hi"


def test_a_link_inside_of_a_tar_stays_a_link(tmp_path: Path) -> None:
    members = [(link("mod/vars.tf", "../shared/vars.tf"), b""), (tarfile.TarInfo("shared/vars.tf"), b"# hi")]
    (tmp_path / "out").mkdir()
    assert unpack(make_tar(tmp_path / "m.tgz", members), tmp_path / "out") == 2
    assert (tmp_path / "out/mod/vars.tf").is_symlink()
    assert (tmp_path / "out/mod/vars.tf").read_bytes() == b"# hi"


LONG = "../" * 40 + "etc/passwd"


@pytest.mark.parametrize(
    "members",
    [
        [(link("evil", LONG), b"")],
        [(link("a", "a"), b"")],
        [(tarfile.TarInfo("x"), b"x"), (link("x", "y"), b"")],
        [(link("../evil", "x"), b"")],
        # Each of them stays inside of the folder by its words, and both together lead out.
        [(tarfile.TarInfo("top/x"), b""), (link("p/q/d", "../../top"), b""), (link("evil", "p/q/d/../../.."), b"")],
        [(tarfile.TarInfo("top/x"), b""), (link("evil", "p/q/d/../../.."), b""), (link("p/q/d", "../../top"), b"")],
        [(tarfile.TarInfo("../evil"), b"x")],
        [(tarfile.TarInfo("/evil"), b"x")],
        [(link("evil", "/etc"), b"")],
        [(link("evil", ".."), b""), (tarfile.TarInfo("evil/x"), b"x")],
    ],
)
def test_a_hostile_tar_is_refused(tmp_path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    archive = make_tar(tmp_path / "m.tgz", members)
    (tmp_path / "out").mkdir()
    with pytest.raises(JobFailed):
        unpack(archive, tmp_path / "out")
    assert not (tmp_path / "evil").exists()
    assert not (tmp_path / "x").exists()


def test_a_zip_is_unpacked_and_a_hostile_one_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    good, bad, linked = tmp_path / "g.zip", tmp_path / "b.zip", tmp_path / "l.zip"
    with zipfile.ZipFile(good, "w") as zipped:
        zipped.writestr("mod/main.tf", "# hi")
    with zipfile.ZipFile(bad, "w") as zipped:
        zipped.writestr("../evil", "x")
    with zipfile.ZipFile(linked, "w") as zipped:
        info = zipfile.ZipInfo("evil")
        info.external_attr = 0o120777 << 16
        zipped.writestr(info, "/etc")
    assert unpack(good, tmp_path / "out") == 1
    for archive in (bad, linked):
        with pytest.raises(JobFailed):
            unpack(archive, tmp_path / "out")
    assert not (tmp_path / "evil").exists()


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.tgz").write_bytes(b"not an archive at all")
    (tmp_path / "out").mkdir()
    with pytest.raises(JobFailed) as caught:
        unpack(tmp_path / "m.tgz", tmp_path / "out")
    assert caught.value.code == "bad_archive"


def archive_code(archive: Path) -> str:
    (archive.parent / "out").mkdir(exist_ok=True)
    with pytest.raises(JobFailed) as caught:
        unpack(archive, archive.parent / "out")
    return caught.value.code


def folder(name: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = tarfile.DIRTYPE
    return info


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.LNKTYPE])
def test_an_archive_makes_no_device_pipe_or_second_name_of_a_file(tmp_path: Path, kind: bytes) -> None:
    info = tarfile.TarInfo("odd")
    info.type, info.linkname = kind, "main.tf"
    archive = make_tar(tmp_path / "m.tgz", [(tarfile.TarInfo("main.tf"), b""), (info, b"")])
    assert archive_code(archive) == "unsafe_archive"
    assert not (tmp_path / "out/odd").exists()


def test_a_name_comes_once_in_an_archive(tmp_path: Path) -> None:
    twice = make_tar(tmp_path / "m.tgz", [(tarfile.TarInfo("a"), b"1"), (tarfile.TarInfo("a"), b"2")])
    assert archive_code(twice) == "file_exists"
    assert (tmp_path / "out/a").read_bytes() == b"1"


def test_an_archive_s_folders_count_too(tmp_path: Path) -> None:
    names = (f"{at}" + "/d" * 25 for at in range(MOST_FILES // 25))
    archive = make_tar(tmp_path / "m.tgz", [(tarfile.TarInfo(name + "/f"), b"") for name in names])
    assert archive_code(archive) == "too_many_files"


def test_a_folder_that_comes_again_and_again_ends(tmp_path: Path) -> None:
    (tmp_path / "m.tar").write_bytes(folder("same").tobuf() * (3 * MOST_FILES + 1))
    assert archive_code(tmp_path / "m.tar") == "too_many_files"


def sparse(name: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = tarfile.GNUTYPE_SPARSE
    return info


def extended(name: str, headers: dict[str, str]) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.pax_headers = headers
    return info


@pytest.mark.parametrize(
    ("member", "code"),
    [
        (extended("a", {"comment": "x" * 300_000}), "bad_archive"),
        (extended("a", {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}), "unsafe_archive"),
        (sparse("a"), "unsafe_archive"),
        (tarfile.TarInfo("x" * 300_000), "bad_archive"),
    ],
)
def test_a_header_that_would_fill_the_memory_is_refused(tmp_path: Path, member: tarfile.TarInfo, code: str) -> None:
    assert archive_code(make_tar(tmp_path / "m.tgz", [(member, b"1\n0\n1\n" + b"\0" * 506)])) == code


def test_a_tar_of_headers_alone_is_a_broken_archive(tmp_path: Path) -> None:
    chain = b"".join(extended("a", {"comment": "x"}).tobuf(tarfile.PAX_FORMAT)[:1024] for _ in range(2000))
    (tmp_path / "m.tar").write_bytes(chain + b"\0" * 1024)
    assert archive_code(tmp_path / "m.tar") == "bad_archive"


@pytest.mark.parametrize("packed", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_file_is_unpacked_piece_by_piece_only(tmp_path: Path, packed: int) -> None:
    with zipfile.ZipFile(tmp_path / "m.zip", "w", packed) as zipped:
        zipped.writestr("main.tf", "# hi")
    assert archive_code(tmp_path / "m.zip") == "bad_archive"


def test_the_entries_of_a_zip_file_are_counted_before_they_are_read(tmp_path: Path) -> None:
    entries = (b"PK\x01\x02" + bytes(42)) * (4 * MOST_FILES)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0, 0, len(entries), 0, 0)
    (tmp_path / "m.zip").write_bytes(entries + end)
    assert archive_code(tmp_path / "m.zip") == "too_many_files"


def test_whatever_a_broken_archive_raises_is_the_archives_fault(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "m.zip", "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("a", "text " * 1000)
    whole = (tmp_path / "m.zip").read_bytes()
    (tmp_path / "m.zip").write_bytes(whole[:31] + b"\xff" * 8 + whole[39:])
    assert archive_code(tmp_path / "m.zip") == "bad_archive"


def test_a_full_disk_is_not_the_archives_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    archive = make_tar(tmp_path / "m.tgz", [(tarfile.TarInfo("a"), b"x")])
    (tmp_path / "out").mkdir()
    monkeypatch.setattr("worker.files.safe_writer.os.write", full)
    with pytest.raises(OSError, match="No space"):
        unpack(archive, tmp_path / "out")
