"""Facts in a folder of OpenTofu or Terraform code that no engine prints: backend, versions, providers, module sources."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

STATE_FILE = "terraform.tfstate"
WORKSPACES_FOLDER = "terraform.tfstate.d"
TOKEN = re.compile(
    r"""(?P<skip>[^\S\n]+|\#[^\n]*|//[^\n]*|/\*.*?(?:\*/|\Z))
    |<<-?(?P<heredoc>[\w-]+)[^\n]*\n.*?(?:^[ \t]*(?P=heredoc)[ \t]*$|\Z)
    |(?P<word>[A-Za-z_][\w-]*)|(?P<quote>")|(?P<sign>.)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_GROUPS = {"(": ")", "[": "]", "{": "}"}
_NAMES = (".tf", ".tf.json")
_TOFU_NAMES = (".tofu", ".tofu.json")


@dataclass
class Block:
    """One block: `backend "s3" { … }`. Only attributes with a plain text or an object as their value are kept."""

    kind: str
    labels: list[str] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    blocks: list["Block"] = field(default_factory=list)


@dataclass(frozen=True)
class Facts:
    """The facts of one folder; `backend` is the backend's kind, `place` the file that names it, `host` that of `cloud {}`."""

    backend: str = ""
    place: str = ""
    required_version: str = ""
    has_encryption: bool = False
    sources: tuple[str, ...] = ()
    workspaces: tuple[str, ...] = ()
    host: str = ""


def read_facts(folder: Path, *, is_tofu: bool, leave_out: Iterable[str] = ()) -> Facts:
    """Read the code of one folder, as its engine would choose the files."""
    files = [each for each in code_files(folder, is_tofu=is_tofu) if each.name not in leave_out]
    found = [(each.name, block) for each in files for block in parse(each.name, _text_of(each))]
    blocks = [block for _, block in found]
    settings = [block for block in blocks if block.kind == "terraform"]
    versions = [each.texts["required_version"] for each in settings if "required_version" in each.texts]
    return Facts(
        *_backend(folder, found),
        required_version=", ".join(versions),
        has_encryption=any(inner.kind == "encryption" for each in settings for inner in each.blocks),
        sources=tuple(block.texts.get("source", "") for block in blocks if block.kind == "module"),
        workspaces=_workspaces(folder, settings),
        host="".join(
            inner.texts.get("hostname", "") for each in settings for inner in each.blocks if inner.kind == "cloud"
        ),
    )


def declared_variables(folder: Path, *, is_tofu: bool) -> set[str]:
    """The variables that the code of one folder declares."""
    blocks = [block for each in code_files(folder, is_tofu=is_tofu) for block in parse(each.name, _text_of(each))]
    found = [block for block in blocks if block.kind == "variable"]
    # In JSON the names are keys of one block.
    return {name for block in found for name in block.labels or [inner.kind for inner in block.blocks]}


def remote_states(folder: Path, *, is_tofu: bool) -> list[tuple[str, str]]:
    """Organisation and workspace of each `terraform_remote_state` with the backend "remote"."""
    blocks = [block for each in code_files(folder, is_tofu=is_tofu) for block in parse(each.name, _text_of(each))]
    return sorted({each for block in blocks if block.kind == "data" for each in _remote_states(block)})


def _remote_states(block: Block) -> Iterator[tuple[str, str]]:
    for config in block.blocks if block.texts.get("backend") == "remote" else ():
        for inner in config.blocks:
            yield config.texts.get("organization", ""), inner.texts.get("name", "")
    # In JSON type and name are keys of blocks inside.
    for inner in block.blocks:
        yield from _remote_states(inner)


def _backend(folder: Path, found: list[tuple[str, Block]]) -> tuple[str, str]:
    """The backend's kind and the file that names it; an engine without a backend block uses the state file beside the code."""
    for name, block in found:
        for inner in block.blocks if block.kind == "terraform" else ():
            if inner.kind in ("backend", "cloud"):
                return "".join(inner.labels[:1]) or inner.kind, name
    return ("local", STATE_FILE) if (folder / STATE_FILE).is_file() else ("", "")


def _workspaces(folder: Path, settings: list[Block]) -> tuple[str, ...]:
    """The workspaces that the backend names, a prefix with a star, and those that are kept beside the code."""
    homes = [inner for each in settings for inner in each.blocks if inner.kind in ("backend", "cloud")]
    texts = [part.texts for home in homes for part in home.blocks if part.kind == "workspaces"]
    named = {each["name"] for each in texts if "name" in each} | {
        f"{each['prefix']}*" for each in texts if "prefix" in each
    }
    beside = folder / WORKSPACES_FOLDER
    return tuple(sorted(named | ({each.name for each in beside.iterdir()} if beside.is_dir() else set())))


def _text_of(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")


def code_files(folder: Path, *, is_tofu: bool) -> list[Path]:
    """The files that the engine reads: OpenTofu prefers main.tofu to a main.tf beside it."""
    endings = (*_NAMES, *_TOFU_NAMES) if is_tofu else _NAMES
    names = {each.name: each for each in folder.iterdir() if each.name.endswith(endings) and each.is_file()}
    hidden = {name.replace(".tofu", ".tf") for name in names if name.endswith(_TOFU_NAMES)}
    return [names[name] for name in sorted(names) if name not in hidden and not name.startswith(".")]


def parse(name: str, text: str) -> list[Block]:
    """The blocks of one file. Text that cannot be read gives none: its engine reports the mistake."""
    if not name.endswith(".json"):
        return _body(_tokens(text)).blocks
    try:
        document = json.loads(text)
    except ValueError:
        return []
    return _from_json(document) if isinstance(document, dict) else []


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    place = 0
    while found := TOKEN.match(text, place):
        place = found.end()
        kind = found.lastgroup or "sign"
        if kind == "quote":
            start, place = place, string_end(text, place)
            yield "text", text[start : place - 1]
        elif kind != "skip":
            yield kind, found.group()


def string_end(text: str, place: int) -> int:
    """The place after the closing quote; a template inside may have strings of its own."""
    return _end(text, place, '"')


def template_end(text: str, place: int) -> int:
    """The place after the brace that closes a template."""
    return _end(text, place, "}")


def _end(text: str, place: int, closing: str) -> int:
    """The place after what closes; without a call for each level, of which a file may have any number."""
    opened = [closing]
    while place < len(text):
        sign, is_text = text[place], opened[-1] == '"'
        if sign == opened[-1]:
            opened.pop()
        elif not is_text and sign in '"{':
            opened.append('"' if sign == '"' else "}")
        elif is_text and text.startswith(("$${", "%%{"), place):
            place += 2
        elif is_text and (sign == "\\" or text.startswith(("${", "%{"), place)):
            place += 1
            opened += "}" if sign != "\\" else ""
        place += 1
        if not opened:
            return place
    return len(text) + 1


def _body(tokens: Iterator[tuple[str, str]], kind: str = "", labels: Iterable[str] = ()) -> Block:
    """Read up to the brace that closes this block."""
    block = Block(kind, list(labels))
    words: list[str] = []
    name = ""
    for what, text in tokens:
        if what == "text" and name:
            block.texts.setdefault(name, text)
        elif what in ("word", "text"):
            words.append(text)
        elif text == "}":
            return block
        elif text == "{":
            # An object as an attribute's value is read like a block.
            inner = _body(tokens, "".join(words[:1]), () if name else words[1:])
            block.blocks += [inner] if words else []
        elif text in _GROUPS:
            _skip_group(tokens, _GROUPS[text])
        elif text == "=" and not name:
            name = "".join(words[-1:])
        elif text == "\n":
            words, name = [], ""
    return block


def _skip_group(tokens: Iterator[tuple[str, str]], closing: str) -> None:
    for what, text in tokens:
        if what == "sign" and text == closing:
            return
        if what == "sign" and text in _GROUPS:
            _skip_group(tokens, _GROUPS[text])


def _from_json(document: dict[str, Any]) -> list[Block]:
    found = []
    for kind, value in document.items():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict) and kind in ("module", "provider", "backend"):
                found += [_json_block(kind, [label], body) for label, body in each.items()]
            elif isinstance(each, dict):
                found.append(_json_block(kind, [], each))
    return found


def _json_block(kind: str, labels: list[str], body: Any) -> Block:
    body = body[0] if isinstance(body, list) and body else body
    if not isinstance(body, dict):
        return Block(kind, labels)
    texts = {name: value for name, value in body.items() if isinstance(value, str)}
    return Block(kind, labels, texts, _from_json(body))
