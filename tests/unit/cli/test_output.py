"""The one printer of all commands: what anybody wrote into a name or a description does not control a terminal."""

import io
import json
import re
from typing import Any

import pytest

from cli.output import Printer, cell, say

HOSTILE = {
    "title": "\x1b]0;owned\x07", "link": "\x1b]8;;https://evil.example\x1b\\here", "clear": "\x1b[2J\x1b[H", "C1": "\x9b2J",
    "bidi": "\u202egnp.exe", "isolate": "\u2066x\u2069", "return": "fine\rgone", "backspace": "abc\x08\x08\x08xyz", "delete": "\x7f",
}  # fmt: skip


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, call: Any) -> str:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("sys.stdout", stream)
    monkeypatch.setattr("sys.stderr", stream)
    call()
    return stream.getvalue()


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("make", [Terminal, io.StringIO])
@pytest.mark.parametrize(
    "call",
    [
        lambda text: Printer().rows([{"name": text, "tags": [text], "more": {"a": text}}], ["name", "tags", "more"]),
        lambda text: Printer().row({"description": text}, ["description"]),
        lambda text: Printer().result({"name": text}, lambda value: f"Made {value['name']}\nwell."),
        say,
    ],
    ids=["rows", "row", "result", "remark"],
)
def test_no_text_controls_the_terminal(monkeypatch: pytest.MonkeyPatch, kind: str, make: Any, call: Any) -> None:
    shown = printed(monkeypatch, make(), lambda: call(f"before{HOSTILE[kind]}after"))
    assert "before" in shown
    # The styles of the table's own headings.
    shown = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert [sign for sign in shown if not (sign.isprintable() or sign in "\n\t")] == []


@pytest.mark.parametrize("kind", HOSTILE)
def test_json_is_data_and_stays_whole(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    shown = printed(monkeypatch, Terminal(), lambda: Printer(as_json=True).row({"name": HOSTILE[kind]}, ["name"]))
    assert json.loads(shown) == {"name": HOSTILE[kind]}


def test_letters_of_every_script_stay() -> None:
    text = "Grüße, 日本語, עברית, عربى, 👩‍💻"
    assert cell(text) == text


THING = {
    "module_path": "a/b", "is_draining": False, "created_at": "2026-11-17T18:29:50.1+00:00", "error": None, "labels": [],
    "hooks": {"before_plan": "lint"}, "approvals_required": 0,
}  # fmt: skip


def test_a_person_reads_no_column_name_no_json_and_nothing_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = printed(monkeypatch, Terminal(), lambda: Printer().row(THING, list(THING)))
    assert [re.split(" {2,}", line) for line in shown.splitlines()] == [
        ["module", "a/b"],
        ["draining", "no"],
        ["created", "2026-11-17 18:29 UTC"],
        ["hooks", "before_plan=lint"],
        ["approvals required", "0"],
    ]


def test_a_program_reads_every_column_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = printed(monkeypatch, io.StringIO(), lambda: Printer().row(THING, list(THING)))
    assert [line.split("\t")[0] for line in shown.splitlines()] == list(THING)
    assert "error\t-\n" in shown
