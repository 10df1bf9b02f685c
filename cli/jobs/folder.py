"""A folder on this disk as a job's source: what belongs to it, and the archive that is sent."""

import hashlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.errors import CommandError, Missing, Usage

MOST_BYTES = 256 * 1024 * 1024
MOST_PACKED = 25 * 1024 * 1024
MOST_FILES = 20_000
IGNORE_FILES = (".runyardignore", ".terraformignore")
# Nothing takes it back.
HISTORY = ".git"
# Not part of the code: plugins, states and what this machine alone needs.
ALWAYS = (".terraform/", ".runyard/", "*.tfstate", "*.tfstate.*", "node_modules/", "__pycache__/", ".DS_Store")


@dataclass(frozen=True)
class Rule:
    """One line of an ignore file, translated by pathspec."""

    pattern: re.Pattern[str]
    is_kept: bool

    def fits(self, path: str, is_folder_here: bool) -> bool:
        """Whether the line is about this entry itself: pathspec's patterns fit everything below a folder, too."""
        text = f"{path}/" if is_folder_here else path
        for found in self.pattern.finditer(text):
            # The slash behind the name of a folder; patterns such as `x/**` have none, and do not fit x itself.
            if found.groupdict().get("ps_d") is None:
                return self.pattern.search(path) is not None
            if found.end("ps_d") == len(path) + 1:
                return True
        return False


@dataclass(frozen=True)
class Packed:
    """The archive, and what it was made of."""

    body: bytes
    files: int
    bytes: int

    @property
    def sha256(self) -> str:
        """The checksum that goes with it."""
        return hashlib.sha256(self.body).hexdigest()


def pack(folder: Path) -> Packed:
    """Pack what belongs to a folder; one that is too large is refused before anything is read."""
    if not folder.is_dir():
        raise Missing(f"There is no folder {folder}.")
    files = list(files_of(folder))
    if not files:
        raise Usage(
            f"{folder} has no files to plan.", "Is it the right folder? An ignore file may leave all of them out."
        )
    import tarfile

    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=6) as tar:
        for file in files:
            tar.add(file.resolve(), str(file.relative_to(folder)), recursive=False, filter=_plain)
    packed = Packed(out.getvalue(), len(files), sum(file.stat().st_size for file in files))
    if len(packed.body) > MOST_PACKED:
        raise _too_large(folder, files, f"{_size(len(packed.body))} packed", f"{_size(MOST_PACKED)} packed")
    return packed


def files_of(folder: Path) -> Iterator[Path]:
    """The files that belong to a folder; one with too many is refused."""
    found, total = [], 0
    for file in _walk(folder, folder, rules_of(folder)):
        found.append(file)
        total += file.stat().st_size
        if total > MOST_BYTES:
            raise _too_large(folder, found, f"more than {_size(MOST_BYTES)}", _size(MOST_BYTES))
        if len(found) > MOST_FILES:
            raise _too_large(folder, found, f"more than {MOST_FILES:,} files", f"{MOST_FILES:,} files")
    return iter(found)


def _walk(root: Path, folder: Path, rules: list[Rule]) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        is_folder_here = entry.is_dir() and not entry.is_symlink()
        # A folder that is ignored is not entered: as in git, nothing below it can be taken back.
        if is_ignored(entry.relative_to(root).as_posix(), is_folder_here, rules):
            continue
        if entry.is_symlink():
            _check_link(root, entry)
        if is_folder_here:
            yield from _walk(root, entry, rules)
        elif entry.is_file():
            yield entry


def _check_link(root: Path, link: Path) -> None:
    target = link.resolve()
    if not target.is_relative_to(root.resolve()) or target.is_dir():
        raise CommandError(
            f"{link} leads to {target}, which cannot be sent with the folder.",
            f"Replace the link, or leave it out with a line in {IGNORE_FILES[0]}.",
        )


def rules_of(folder: Path) -> list[Rule]:
    """Read the rules for files to leave out: files that never belong to code, and the ignore file's lines, which may include some again."""
    from pathspec import GitIgnoreSpec

    file = next((folder / name for name in IGNORE_FILES if (folder / name).is_file()), None)
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines() if file else []
    # pathspec applies `x/**/` to the folder x itself, git to the folders in it.
    lines = [f"{line}*/" if line.endswith("/**/") else line for line in lines]
    try:
        patterns = GitIgnoreSpec.from_lines([*ALWAYS, *lines, HISTORY]).patterns
    except ValueError as error:
        raise CommandError(f"{file} has a line that is not a pattern: {error}") from error
    return [Rule(each.regex, not each.include) for each in patterns if each.include is not None and each.regex]


def is_ignored(path: str, is_folder_here: bool, rules: list[Rule]) -> bool:
    """Whether the last rule that fits leaves it out."""
    return next((not rule.is_kept for rule in reversed(rules) if rule.fits(path, is_folder_here)), False)


def _plain(member: Any) -> Any:
    """Nothing of this machine goes along: no owner, no times."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = 0
    return member


def _too_large(folder: Path, files: list[Path], found: str, most: str) -> Usage:
    largest = sorted(files, key=lambda file: file.stat().st_size, reverse=True)[:3]
    named = ", ".join(f"{file.relative_to(folder)} ({_size(file.stat().st_size)})" for file in largest)
    return Usage(
        f"{folder} is too large to send: {found}, and {most} is the most.",
        f"Leave out files that are not code with {IGNORE_FILES[0]}. The largest so far: {named}.",
    )


def _size(count: float) -> str:
    return f"{count / 1024:.0f} KiB" if count < 1024 * 1024 else f"{count / 1024 / 1024:.0f} MiB"
