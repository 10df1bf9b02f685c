"""Folders that are sent to be planned: their files, and the folders that are refused before anything is sent."""

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from cli.commands.run import is_folder
from cli.errors import CommandError, Missing, Usage
from cli.jobs.folder import pack


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
    write(tmp_path, name, text="# files without code\n\n/docs\n*.zip\n!keep.zip\na/**/secret.txt\n")
    assert names(tmp_path) == [name, "a/docs/b.md", "keep.zip", "main.tf"]


TREE = (
    "a.log", "b/a.log", "build", "b/build/x", "b/c/build/y", "abc", "acd", "a.c", "x/y/z", "x/y/deep/z", "foo/bar", "b/foo/bar", "!odd",
    "#odd", "sp ace", "trail ", "d/keep.tf", "d/drop.tf", "a[b]", "ab", "a-z", "a\\b", "logs/today/a", "é.tf", "e/f/g/h",
)  # fmt: skip
LINES = [
    "*.log", "/*.log", "build/", "build", "/build", "a?c", "a[bc]d", "a[!b]d", "a.c", "x/**", "x/**\n!x/y",
    "x/**\n!x/y/z", "**/z", "x/**/z", "foo/bar", "**/foo/bar", "foo/*", "\\!odd", "\\#odd", "#odd", "!odd",
    "sp ace", "sp*", "trail", "trail\\ ", "a\\[b\\]", "a[]-]z", "[a-", "d/*\n!d/keep.tf", "d/\n!d/keep.tf",
    "d\n!d/", "*\n!*/\n!*.tf", "*.tf\n!é.tf", "/*\n!/d", "e/**/h", "e/*/h", "e/", "**", "logs/*/a", "b/**/",
    "*\\b", "*.log\n!b/**", "x/*\n!x/y", "*/", "*/\n!b/", "a\n!a.log", "b/**/\n!b/c", "**/build/", "e/f/**", "  ",
    "/d/drop.tf",
]  # fmt: skip


@pytest.mark.parametrize("lines", LINES)
def test_patterns_match_the_same_files_as_git(tmp_path: Path, lines: str) -> None:
    """Real git judges the same tree by the same lines."""
    for path in TREE:
        write(tmp_path, path)
    write(tmp_path, ".gitignore", ".runyardignore", text=f"{lines}\n.gitignore\n.runyardignore\nmarker\n!marker\n")
    write(tmp_path, "marker")
    git = ["git", "-c", "core.quotePath=off", "-c", "core.excludesFile=", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    listed = subprocess.run(
        [*git, "ls-files", "-z", "--others", "--exclude-standard"], check=True, capture_output=True, text=True
    )
    wanted = sorted(name for name in listed.stdout.split("\0") if name)
    assert sorted(names(tmp_path)) == wanted


def test_an_archive_contains_no_owner_and_no_times(tmp_path: Path) -> None:
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


def test_a_folder_too_large_when_packed_is_refused(tmp_path: Path) -> None:
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


def test_a_missing_or_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Missing, match="There is no folder"):
        pack(tmp_path / "nowhere")
    with pytest.raises(Usage, match="has no files to plan"):
        pack(tmp_path)
    assert [is_folder(text) for text in (".", "./a", "../a", "/a", "apps/site", "a.b")] == [True] * 4 + [False] * 2
