"""Folders that are sent to be planned: what belongs to them, and what is refused before anything is sent."""

import io
import os
import tarfile
from pathlib import Path

import pytest

from cli.commands.run import is_folder
from cli.errors import CommandError, Missing, Usage
from cli.jobs.folder import is_ignored, pack, rules_of


def names(folder: Path) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(pack(folder).body)) as tar:
        return tar.getnames()


def write(folder: Path, *paths: str, text: str = "x") -> None:
    for path in paths:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def test_history_plugins_and_states_stay_here(tmp_path: Path) -> None:
    write(tmp_path, "main.tf", "modules/a/main.tf", ".git/config", ".terraform/providers/x", "terraform.tfstate")
    write(tmp_path, "modules/a/.terraform/x", "terraform.tfstate.backup", ".terraform.lock.hcl")
    assert names(tmp_path) == [".terraform.lock.hcl", "main.tf", "modules/a/main.tf"]


@pytest.mark.parametrize("name", [".runyardignore", ".terraformignore"])
def test_the_ignore_file_is_respected(tmp_path: Path, name: str) -> None:
    write(tmp_path, "main.tf", "docs/a.md", "a/docs/b.md", "big.zip", "keep.zip", "a/secret.txt", "a/b/secret.txt")
    write(tmp_path, name, text="# what is no code\n\n/docs\n*.zip\n!keep.zip\na/**/secret.txt\n")
    assert names(tmp_path) == [name, "a/docs/b.md", "keep.zip", "main.tf"]


@pytest.mark.parametrize(
    ("line", "path", "is_out"),
    [
        ("*.log", "a/b.log", True),
        ("/*.log", "a/b.log", False),
        ("build/", "build", False),
        ("a?c", "abc", True),
        ("a[bc]d", "acd", True),
        ("a.c", "abc", False),
        ("x/**", "x/y/z", True),
    ],
)
def test_patterns_mean_what_git_means(tmp_path: Path, line: str, path: str, is_out: bool) -> None:
    write(tmp_path, ".runyardignore", text=line)
    assert is_ignored(path, False, rules_of(tmp_path)) is is_out


def test_nothing_of_this_machine_goes_along(tmp_path: Path) -> None:
    write(tmp_path, "main.tf")
    first = pack(tmp_path)
    os.utime(tmp_path / "main.tf", (1, 1))
    with tarfile.open(fileobj=io.BytesIO(first.body)) as tar:
        member = tar.getmember("main.tf")
    assert (member.uid, member.uname, member.mtime) == (0, "", 0)


def test_two_gigabytes_are_refused_before_they_are_read(tmp_path: Path) -> None:
    write(tmp_path, "main.tf")
    with (tmp_path / "disk.img").open("wb") as file:
        file.truncate(2 * 1024**3)
    with pytest.raises(Usage, match="too large to send") as caught:
        pack(tmp_path)
    assert "disk.img (2048 MiB)" in str(caught.value)
    assert ".runyardignore" in str(caught.value)


def test_what_does_not_pack_well_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    (tmp_path / "noise.bin").write_bytes(os.urandom(27 * 1024 * 1024))
    with pytest.raises(Usage, match="25 MiB packed is the most"):
        pack(tmp_path)


def test_links_inside_are_files_and_links_outside_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    write(folder, "main.tf")
    (folder / "same.tf").symlink_to("main.tf")
    assert names(folder) == ["main.tf", "same.tf"]
    (folder / "passwd").symlink_to("/etc/passwd")
    with pytest.raises(CommandError, match="cannot be sent with the folder"):
        pack(folder)


def test_wrong_paths(tmp_path: Path) -> None:
    with pytest.raises(Missing, match="There is no folder"):
        pack(tmp_path / "nowhere")
    with pytest.raises(Usage, match="has no files to plan"):
        pack(tmp_path)
    assert [is_folder(text) for text in (".", "./a", "../a", "/a", "apps/site", "a.b")] == [True] * 4 + [False] * 2
