"""The fingerprint of everything that a module's plan depends on at a commit: a digest of the git hashes of its folders."""

import hashlib
import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from wire.terragrunt import UNIT, Layout

# As git's own expression language and as Python's.
SOURCE_LINE = '(^|[^A-Za-z0-9_-])source"?[[:space:]]*[=:][[:space:]]*"\\.\\.?[/"]'
_SOURCE = re.compile(r'(?<![A-Za-z0-9_-])source"?\s*[=:]\s*"(\.\.?(?:/[^"]*)?)"')
TERRAGRUNT_FILES = ("*.hcl", ":(exclude)*.terraform.lock.hcl")
CODE_FILES = ("*.tf", "*.tofu", "*.tf.json", "*.tofu.json")


@dataclass(frozen=True)
class Tree:
    """A commit's files and folders, each with git's hash, and which folder uses which others."""

    entries: Mapping[str, str]
    uses: Mapping[str, frozenset[str]]
    layout: Layout = field(default_factory=lambda: Layout({}, ()))

    def watched(self, folder: str, paths: Iterable[str]) -> list[str]:
        """Return the module's folder, its local modules and theirs, what its unit reads, and the paths that people added."""
        found, waiting = {posixpath.normpath(path) for path in paths}, [normal(folder)]
        unit = "" if normal(folder) == "." else normal(folder)
        if posixpath.join(unit, UNIT) in self.layout.texts:
            waiting += self.layout.watched(unit)
        seen: set[str] = set()
        while waiting:
            place = waiting.pop()
            if place not in seen:
                seen.add(place)
                waiting += self.uses.get(place, ())
        return sorted(seen | found)

    def fingerprint(self, watched: Iterable[str]) -> str:
        """Return a digest that changes with the content of these paths, and with nothing else."""
        lines = (f"{path}\0{self.entries.get(path, 'missing')}\n" for path in sorted(watched))
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def places(self, folder: str, watched: Iterable[str], fingerprint: str) -> list[str]:
        """Return the folders that have the content now that a folder had when this was its fingerprint."""
        old, paths = normal(folder), sorted(watched)
        found = (path for path, what in self.entries.items() if "tree" in what.split(" "))
        return [place for place in found if self._as_if_moved(old, place, paths) == fingerprint]

    def _as_if_moved(self, old: str, new: str, watched: Iterable[str]) -> str:
        """Return the fingerprint under the old names; a missing path is read beside the new folder."""
        lines = []
        for path in watched:
            beside = posixpath.normpath(posixpath.join(new, posixpath.relpath(path, old)))
            lines.append(f"{path}\0{self.entries.get(path) or self.entries.get(beside, 'missing')}\n")
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def has(self, folder: str) -> bool:
        """Return whether there is such a folder."""
        return "tree" in self.entries.get(normal(folder), "").split(" ") or normal(folder) in self.layout.generated


def normal(folder: str) -> str:
    """Spell a folder as git does; "." is the root."""
    return posixpath.normpath(folder.strip("/") or ".")


def read_entries(root: str, listing: str) -> dict[str, str]:
    """Read `git ls-tree -r -t -z`; the root's own hash comes beside it."""
    entries = {".": f"040000 tree {root}"}
    for line in listing.split("\0"):
        what, _, path = line.partition("\t")
        if path:
            entries[path] = what
    return entries


def read_uses(found: str) -> dict[str, frozenset[str]]:
    """Read `git grep -z` for lines with a local source: which folder uses which."""
    uses: dict[str, set[str]] = {}
    for line in found.split("\n"):
        place, _, text = line.partition("\0")
        folder = posixpath.dirname(place.partition(":")[2]) or "."
        for source in _SOURCE.findall(text):
            target = posixpath.normpath(posixpath.join(folder, source))
            # Outside of the repository there is nothing that a commit changes.
            if target != ".." and not target.startswith("../"):
                uses.setdefault(folder, set()).add(target)
    return {folder: frozenset(targets) for folder, targets in uses.items()}


def read_files(found: str) -> dict[str, str]:
    """Read `git grep -z` for every line: the text of each file."""
    texts: dict[str, list[str]] = {}
    for line in found.split("\n"):
        place, separator, text = line.partition("\0")
        if separator:
            texts.setdefault(place.partition(":")[2], []).append(f"{text}\n")
    return {path: "".join(lines) for path, lines in texts.items()}
