"""`runyard.yaml` as a file: read as YAML 1.2, so that `on` and `12:30` are texts, and without anchors, which grow without bound."""

import re
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from cli.errors import Usage

LARGEST_BYTES = 4 * 1024 * 1024
DEEPEST = 50
TAG = "tag:yaml.org,2002:"
TYPES = ("map", "seq", "str", "int", "float", "bool", "null")
SCALARS = {
    "bool": (r"^(?:true|false)$", "tf"),
    "null": (r"^(?:~|null|)$", ["~", "n", ""]),
    "int": (r"^[-+]?(?:0|[1-9][0-9]*)$", "-+0123456789"),
    "float": (
        r"^[-+]?(?=[0-9]*[.eE])(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$",
        "-+.0123456789",
    ),
}


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads what JSON has, each key once."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - as PyYAML declares it
    yaml_constructors = {  # noqa: RUF012 - the same
        tag: make
        for tag, make in yaml.SafeLoader.yaml_constructors.items()
        if tag is None or tag.removeprefix(TAG) in TYPES
    }

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:
        """Make an object; refuse a key that occurs twice or is not a text."""
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag != f"{TAG}str" or key.value in seen:
                problem = "is not a text" if key.tag != f"{TAG}str" else "occurs twice"
                raise yaml.constructor.ConstructorError(None, None, f'the key "{key.value}" {problem}', key.start_mark)
            seen.add(key.value)
        return dict(super().construct_mapping(node, deep))


class Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Writes texts of several lines as blocks, and quotes what some reader would not take for a text."""


def _text(dumper: Any, text: str) -> Any:
    is_plain = text.isprintable()
    is_block = "\n" in text and text.replace("\n", "").isprintable() and text[0] not in " \n"
    return dumper.represent_scalar(f"{TAG}str", text, style=None if is_plain else "|" if is_block else '"')


for name, (pattern, first) in SCALARS.items():
    for each in (Loader, Dumper):
        each.add_implicit_resolver(f"{TAG}{name}", re.compile(pattern), list(first))
Dumper.add_representer(str, _text)


def read_manifest(file: Path) -> Any:
    """Read a manifest; what is in it is the project's to judge."""
    try:
        if file.stat().st_size > LARGEST_BYTES:
            raise Usage(f"{file} has more than 4 MiB.", "Divide it: each file lists kinds of its own.")
        text = file.read_text(encoding="utf-8")
        _check_shape(text)
        return yaml.load(text, Loader=Loader)  # noqa: S506 - it makes plain values alone
    except (OSError, ValueError) as error:
        raise Usage(f"{file} cannot be read: {error}.", "`runyard export` writes one.") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{file}, line {mark.line + 1}" if mark else str(file)
        raise Usage(f"{place}: {error.problem or error.context}.", "Correct it and try again.") from error
    except yaml.YAMLError as error:
        raise Usage(f"{file} is not YAML: {error}.", "Correct it and try again.") from error


def write_manifest(manifest: dict[str, Any]) -> str:
    """Write a manifest, in the order that it has."""
    return str(yaml.dump(manifest, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=100))


def _check_shape(text: str) -> None:
    """Refuse anchors, aliases and deep nests before anything is built of them."""
    depth = 0
    for event in yaml.parse(text, Loader=Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        problem = "it is nested too deeply" if depth > DEEPEST else ""
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            problem = "a manifest has no anchors and aliases"
        if problem:
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
