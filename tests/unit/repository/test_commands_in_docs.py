"""Every command line of ours in the documentation is one that the programs understand."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from cli.main import cli
from tests.support.pages import PAGES, name_of
from worker.cli import app as worker

PROGRAMS = {"runyard": typer.main.get_command(cli), "runyard-worker": typer.main.get_command(worker)}
INNER = re.compile(r"\$\(([^()]*)\)")
BLOCK = re.compile(r"^ *```(?:sh|console)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]*\brunyard(?:-worker)? [a-z][^`\n]*)`")
ENDS = frozenset({"|", "||", "&&", "&", ";", ">", ">>", "<", "2>", ")"})


def lines_of(text: str) -> Iterator[tuple[str, bool]]:
    """Every line of a shell block, and every command in the text; only the former is complete."""
    for block in BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            yield line.strip().removeprefix("$ "), True
    for words in INLINE.findall(BLOCK.sub("", text)):
        yield words, False


def calls_in(line: str) -> Iterator[tuple[str, list[str]]]:
    """The calls of our programs in a line, each with its arguments."""
    for inner in INNER.findall(line):
        yield from calls_in(inner)
    line = INNER.sub("IT", line)
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;()<>")
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:  # A quote that ends on another line: a script, not a call.
        return
    for at, word in enumerate(words):
        rest = words[at + 1 :]
        # `/runyard` is a comment on a pull request; a user or a container may be called runyard, too.
        is_name = word == "/runyard" or (rest and rest[0] in PROGRAMS)
        if (name := word.rsplit("/", 1)[-1]) in PROGRAMS and not is_name and (at == 0 or is_start(words[at - 1])):
            end = next((index for index, one in enumerate(rest) if one in ENDS), len(rest))
            yield name, rest[:end]


def is_start(before: str) -> bool:
    """Whether the word after this one can be a program's name."""
    return before in ENDS or before in {"sudo", "exec", "(", "runyard"} or re.match(r"\w+=", before) is not None


def wrong_with(command: Any, words: list[str], *, is_whole: bool) -> str:
    """Return a program's complaint about its arguments; their values are the reader's own."""
    context = typer.Context(command, info_name=command.name)
    try:
        given, rest, _ = command.make_parser(context).parse_args(list(words))
    except TyperException as error:
        return error.format_message()
    if isinstance(command, TyperGroup):
        if not rest:
            return ""
        found = command.get_command(context, rest[0])
        return wrong_with(found, rest[1:], is_whole=is_whole) if found else f"no command {rest[0]}"
    if "help" in given or "--help" in words:
        return ""
    missing = [param.name for param in command.params if param.required and given.get(str(param.name)) in (None, ())]
    return f"extra {rest}" if rest else f"lacks {missing}" if missing and is_whole else ""


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_programs_understand_every_command_of_a_page(page: Path) -> None:
    found = {
        line: wrong
        for line, is_whole in lines_of(page.read_text())
        if "…" not in line and "..." not in line
        for name, words in calls_in(line)
        if (wrong := wrong_with(PROGRAMS[name], words, is_whole=is_whole))
    }
    assert found == {}


def test_a_wrong_command_is_found() -> None:
    lines = {"runyard jobs lisst": "no command lisst", "A=1 runyard jobs list --nowhere": "No such option: --nowhere"}
    for line, expected in lines.items():
        ((name, words),) = calls_in(line)
        assert expected in wrong_with(PROGRAMS[name], words, is_whole=True)
