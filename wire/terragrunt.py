"""Units and stacks of Terragrunt, as far as their text tells. Terragrunt is not asked: it would run what the code names.

A path that only Terragrunt can compute, such as one from a command's output, is not known here.
"""

import os
import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from wire.hcl_blocks import TOKEN, string_end, template_end

UNIT, STACK, GENERATED, VALUES = "terragrunt.hcl", "terragrunt.stack.hcl", ".terragrunt-stack", "terragrunt.values.hcl"
MOCKS = ("mock_outputs", "skip_outputs")
_READ = re.compile(r"\b(find_in_parent_folders|read_terragrunt_config|read_tfvars_file|sops_decrypt_file|file)\(")
_CALL = re.compile(r"(\w+)\((.*)\)", re.DOTALL)
_NAME = re.compile(r"(local|values)\.([\w-]+)")
_OUTPUT = re.compile(r"""\bdependency\.([\w-]+)\.outputs(?:\.([\w-]+)|\[\s*"([\w-]+)"\s*\])?""")
_COMMAND = re.compile(r"\brun_cmd\s*\(|\b(?:before|after|error)_hook\b")
_HINT = re.compile("run_cmd|_hook")
_LEFT_OUT = frozenset({".git", ".terraform", ".terragrunt-cache", "node_modules"})
_FACTS = {
    ("terraform", "source"),
    ("remote_state", "backend"),
    ("terragrunt_version_constraint",),
    ("terraform_binary",),
}
_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")
# Locals may name each other, and so may files. A path is not known where it is longer than a path can be, or where more
# characters must be read for one unit than any real one needs; all stacks of a repository may have ten times as many.
_DEEPEST, _LONGEST, _MOST_READ = 20, 4096, 300_000


class Attribute(NamedTuple):
    """One attribute: the words of the outermost block around it, its name, its value's text, and where it stands."""

    block: tuple[str, ...]
    name: str
    value: str
    start: int
    end: int


class Place(NamedTuple):
    """The place where a text counts: the unit's folder, and the file that it is in."""

    unit: str
    file: str


@dataclass(frozen=True)
class Unit:
    """One unit. A dependency's folder is unknown (None) where its path can only be computed; `..` leads outside."""

    folder: str
    source: str = ""
    backend: str = ""
    version: str = ""
    engine: str = ""
    dependencies: Mapping[str, str | None] = field(default_factory=dict)
    outputs: Mapping[str, frozenset[str]] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()
    has_source: bool = False

    @property
    def producers(self) -> dict[str, dict[str, str]]:
        """The folders that must be applied first; for each, which of its outputs become which of this unit's inputs."""
        found: dict[str, dict[str, str]] = {folder: {} for folder in self.order}
        for name, folder in self.dependencies.items():
            if folder is not None:
                bound = {input_name(name, each): each for each in sorted(self.outputs.get(name, ()))}
                found[folder] = {**found.get(folder, {}), **bound}
        return found


class Layout:
    """The `.hcl` files of a repository by their paths, and the paths of everything in it."""

    def __init__(self, texts: Mapping[str, str], paths: Collection[str]) -> None:
        """Add the units that stacks generate from folders of the repository."""
        self._left = 10 * _MOST_READ
        self.texts = {path: text for path, text in texts.items() if path.endswith(".hcl")}
        self.paths = {*paths, *self.texts}
        for path in list(self.paths):
            while path := posixpath.dirname(path):
                self.paths.add(path)
        # Each generated folder, with its stack's file and its source's folder.
        self.generated: dict[str, tuple[str, ...]] = {}
        for path in sorted(self.texts):
            if posixpath.basename(path) == STACK and GENERATED not in path.split("/"):
                self._generate(posixpath.dirname(path), posixpath.dirname(path), self.texts[path])

    def units(self) -> list[str]:
        """The folders of all units: what stacks are made of, and what units include, is none."""
        found = {posixpath.dirname(path) for path in self.texts if posixpath.basename(path) == UNIT}
        found = (found | self.generated.keys()) - {each[1] for each in self.generated.values()}
        included = {path for folder in found for path in self._included(folder)}
        return sorted(folder for folder in found if posixpath.join(folder, UNIT) not in included)

    def unit(self, folder: str) -> Unit:
        """Read one unit with the files that it includes."""
        own = posixpath.join(folder, UNIT)
        includes = self._included(folder)
        files = [path for path in (own, *includes) if path in self.texts]
        facts: dict[str, str] = {}
        dependencies: dict[str, str | None] = {}
        order: list[str] = []
        for place, (block, name, value, *_) in self._attributes(folder, files):
            if (*block[:1], name) == ("dependency", "config_path"):
                dependencies["".join(block[1:])] = self._folder(value, place)
            elif (*block, name) == ("dependencies", "paths"):
                order += filter(None, (self._folder(one, place) for one in _items(value)))
            elif (*block, name) in _FACTS:
                facts[name] = self._value(value, place) or ""
        source = facts.get("source", "")
        return Unit(
            folder, _joined(folder, source.replace("//", "/")) if source.startswith(("/", ".")) else "",
            facts.get("backend", ""), facts.get("terragrunt_version_constraint", ""),
            posixpath.basename(facts.get("terraform_binary", "")), dependencies, self._outputs(files),
            tuple(dict.fromkeys(order)), tuple(sorted(self._reads(folder, files))), includes,
            "source" in facts,
        )  # fmt: skip

    def _attributes(self, folder: str, files: list[str]) -> Iterator[tuple[Place, Attribute]]:
        """The attributes of a unit's files; its own come last, and win."""
        for path in reversed(files):
            for each in attributes(self.texts[path]):
                yield Place(folder, path), each

    def missing(self, unit: Unit) -> list[str]:
        """List what a unit depends on or includes that is not in the repository; stacks may come from elsewhere."""
        return [
            each for each in (*unit.producers, *unit.includes)
            if each not in self.paths and posixpath.join(each, UNIT) not in self.texts and GENERATED not in each.split("/")
        ]  # fmt: skip

    def watched(self, folder: str) -> set[str]:
        """List what a unit's plan depends on beside its folder: files that it reads, its local source, its dependencies' folders."""
        unit = self.unit(folder)
        found = {*unit.includes, *unit.reads, *unit.producers, unit.source, *self.generated.get(folder, ())}
        # A generated folder is not in the repository: its stack and its source are.
        found = {each for one in found for each in self.generated.get(one, (one,))}
        return {each for each in found if each and not is_outside(each)}

    def _generate(self, stack: str, base: str, text: str, depth: int = 0) -> None:
        """Add the units of a stack where Terragrunt would generate them, with those of the stacks in it."""
        blocks: dict[tuple[str, ...], dict[str, str]] = {}
        for each in attributes(text):
            blocks.setdefault(each.block, {})[each.name] = each.value
        for block, values in blocks.items():
            place = Place(base, posixpath.join(stack, STACK))
            path, source = self._value(values.get("path", ""), place), self._value(values.get("source", ""), place)
            if block[:1] not in (("unit",), ("stack",)) or not path or source is None or depth > _DEEPEST:
                continue
            is_beside = values.get("no_dot_terragrunt_stack", "").strip() == "true"
            folder = _joined(base, path if is_beside else posixpath.join(GENERATED, path))
            origin = _joined(stack, source.replace("//", "/")) if source.startswith(("/", ".")) else ""
            if block[0] == "stack":
                self._generate(origin, folder, self.texts.get(posixpath.join(origin, STACK), ""), depth + 1)
                continue
            self.generated[folder] = (place.file, origin)
            self.texts.setdefault(posixpath.join(folder, UNIT), self.texts.get(posixpath.join(origin, UNIT), ""))
            self.texts.setdefault(posixpath.join(folder, VALUES), values.get("values", "").strip().strip("{}"))

    def _included(self, folder: str) -> tuple[str, ...]:
        self._left = _MOST_READ
        path = posixpath.join(folder, UNIT)
        text, place = self.texts.get(path, ""), Place(folder, path)
        paths = (each for each in attributes(text) if each.block[:1] == ("include",) and each.name == "path")
        return tuple(filter(None, (self._folder(each.value, place) for each in paths)))

    def _outputs(self, files: list[str]) -> dict[str, frozenset[str]]:
        found: dict[str, set[str]] = {}
        for path in files:
            for name, dotted, quoted in _OUTPUT.findall(_without_comments(self.texts[path])):
                found.setdefault(name, set()).update({dotted or quoted} - {""})
        return {name: frozenset(each) for name, each in found.items()}

    def _reads(self, folder: str, files: list[str]) -> set[str]:
        """The files that functions of these files find or read, and so on."""
        waiting, found = list(files), set[str]()
        while waiting:
            path = waiting.pop()
            text = _without_comments(self.texts.get(path, ""))
            for each in _READ.finditer(text):
                call = text[each.start() : _group_end(text[: each.end() + _LONGEST], each.end())]
                if not self._spend(len(call)):
                    break
                argument = call if each[1] == "find_in_parent_folders" else call[each.end(1) - each.start() + 1 : -1]
                read = self._folder(argument, Place(folder, path))
                if read is not None and read in self.paths and read not in found:
                    found.add(read)
                    waiting.append(read)
        return found

    def _folder(self, text: str, place: Place) -> str | None:
        value = self._value(text, place)
        return None if value is None else _joined(place.unit, value)

    def _value(self, text: str, place: Place, depth: int = 0) -> str | None:
        """The text that an expression means, where it is one that is known; what begins with / is below the repository."""
        if depth > _DEEPEST or not self._spend(len(text) + 100):
            return None
        text = _without_comments(text).strip()
        if text.startswith('"') and string_end(text, 1) == len(text):
            return self._template(text[1:-1], place, depth)
        if call := _CALL.fullmatch(text):
            argument = self._value(next(_items(call[2]), ""), place, depth + 1)
            return self._called(call[1], argument, place)
        if name := _NAME.fullmatch(text):
            path = place.file if name[1] == "local" else posixpath.join(place.unit, VALUES)
            block = ("locals",) if name[1] == "local" else ()
            for each in attributes(self.texts.get(path, "")):
                if each.block == block and each.name == name[2]:
                    return self._value(each.value, place, depth + 1)
        return None

    def _template(self, text: str, place: Place, depth: int) -> str | None:
        done, at = "", 0
        while (begin := text.find("${", at)) >= 0:
            end = template_end(text, begin + 2)
            value = self._value(text[begin + 2 : end - 1], place, depth + 1)
            if value is None or len(done) > _LONGEST:
                return None
            done, at = done + text[at:begin] + value, end
        return done + text[at:]

    def _spend(self, size: int) -> bool:
        """Whether so many characters may still be read."""
        self._left -= size
        return self._left >= 0

    def _called(self, name: str, argument: str | None, place: Place) -> str | None:
        beside = posixpath.dirname(place.file)
        if name == "find_in_parent_folders":
            return self._above(argument or UNIT, place.unit)
        if name == "dirname":
            return None if argument is None else posixpath.dirname(argument)
        return {
            "get_terragrunt_dir": f"/{place.unit}",
            "get_original_terragrunt_dir": f"/{place.unit}",
            "get_parent_terragrunt_dir": f"/{beside}",
            "get_repo_root": "/",
            "get_path_to_repo_root": _from_to(place.unit, ""),
            "get_path_from_repo_root": place.unit,
            "path_relative_to_include": _from_to(beside, place.unit),
            "path_relative_from_include": _from_to(place.unit, beside),
        }.get(name)

    def _above(self, name: str, folder: str) -> str | None:
        while folder:
            folder = posixpath.dirname(folder)
            if (found := posixpath.join(folder, name)) in self.paths:
                return f"/{found}"
        return None


def read_layout(top: Path) -> Layout:
    """Read the texts and names of a folder's files."""
    texts: dict[str, str] = {}
    paths: list[str] = []
    for folder, names, files in os.walk(top):
        names[:] = [each for each in names if each not in _LEFT_OUT]
        for name in files:
            file = Path(folder, name)
            paths.append(file.relative_to(top).as_posix())
            if name.endswith(".hcl") and not file.is_symlink():
                texts[paths[-1]] = file.read_text(encoding="utf-8", errors="replace")
    return Layout(texts, paths)


def runs_commands(top: Path) -> bool:
    """Whether a file has hooks or runs commands. Terragrunt reads what another file includes, whatever its name and folder."""
    files = (Path(folder, name) for folder, _, names in os.walk(top) for name in names)
    texts = (
        each.read_text(encoding="utf-8", errors="replace") for each in files if each.is_file() and not each.is_symlink()
    )
    return any(_COMMAND.search(_without_comments(text)) for text in texts if _HINT.search(text))


def input_name(dependency: str, output: str) -> str:
    """The input of a module that is an output of a unit's dependency."""
    return f"{dependency}:{output}"


def is_outside(folder: str) -> bool:
    """Whether a folder is not in the repository."""
    return folder == ".." or folder.startswith("../")


def without_mocks(text: str) -> str:
    """The text of a file without invented outputs: what is known is known, and all else waits."""
    for each in reversed(attributes(text)):
        if each.block[:1] == ("dependency",) and each.name.startswith(MOCKS):
            text = text[: each.start] + text[each.end :]
    return text


@lru_cache(256)
def attributes(text: str) -> tuple[Attribute, ...]:
    """The attributes of a file and of the blocks in it, but not of blocks inside of these."""
    return tuple(_attributes(text))


def _attributes(text: str) -> Iterator[Attribute]:
    words: list[str] = []
    blocks: list[tuple[str, ...]] = []
    start = place = 0
    while found := TOKEN.match(text, place):
        begin, place = place, found.end()
        sign = found.group()
        if found.lastgroup == "quote":
            place = string_end(text, place)
            words.append(text[begin + 1 : place - 1])
        elif found.lastgroup == "word":
            start, words = (start if words else begin), [*words, sign]
        elif sign == "{":
            blocks.append(tuple(words))
            words = []
        elif sign == "}":
            blocks = blocks[:-1]
            words = []
        elif sign == "=" and words:
            end = _value_end(text, place)
            if len(blocks) <= 1:
                yield Attribute(blocks[0] if blocks else (), words[-1], text[place:end], start, end)
            words, place = [], end
        elif sign == "\n":
            words = []


def _scan(text: str, place: int = 0) -> Iterator[tuple[str, int, int, int]]:
    """Each token from a place on, a string as one of them, with where it begins and ends and how deep it leaves the reader."""
    depth = 0
    while found := TOKEN.match(text, place):
        token, begin = found.group(), place
        place = string_end(text, found.end()) if found.lastgroup == "quote" else found.end()
        depth += (token in _OPEN) - (token in _CLOSE)
        yield token, begin, place, depth


def _value_end(text: str, place: int) -> int:
    """Return where an attribute's value ends: with its line, unless a group is open."""
    ends = (begin for sign, begin, _, depth in _scan(text, place) if depth < 0 or (sign == "\n" and depth == 0))
    return next(ends, len(text))


def _group_end(text: str, place: int) -> int:
    """Return where the group ends that is open at a place."""
    return next((end for _, _, end, depth in _scan(text, place) if depth < 0), len(text))


def _items(text: str) -> Iterator[str]:
    """The parts of a list, or of a call's arguments."""
    text = _without_comments(text).strip()
    text = text[1:-1] if text.startswith("[") else text
    start = 0
    for sign, begin, end, depth in _scan(text):
        if sign == "," and depth == 0:
            yield text[start:begin]
            start = end
    if text[start:].strip():
        yield text[start:]


def _without_comments(text: str) -> str:
    return "".join(text[begin:end] for sign, begin, end, _ in _scan(text) if not sign.startswith(("#", "//", "/*")))


def _joined(folder: str, path: str) -> str:
    """A path as git spells it, "" for the top; one that begins with / is below the repository already."""
    joined = posixpath.normpath(
        path.lstrip("/") or "." if path.startswith("/") else posixpath.join(folder, path) or "."
    )
    return "" if joined == "." else joined


def _from_to(start: str, end: str) -> str:
    return posixpath.relpath(f"/{end}", f"/{start}")
