"""The redactor: the same answer however the stream is cut, and no secret in any spelling."""

import base64
import itertools
import json
import shlex
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.logs.redactor import LONGEST_HELD_LINE, MASK, Redactor

SECRET = "s3cr3t/+pa$$'\"wörd&<x>"
JWT = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhYmMifQ.c2lnbmF0dXJl"


def stream(redactor: Redactor, pieces: list[str]) -> str:
    return "".join([redactor.feed(piece) for piece in pieces] + [redactor.flush()])


@st.composite
def cut_text(draw: st.DrawFn) -> tuple[str, list[str]]:
    fragments = st.sampled_from(
        [
            "hunter2",
            "hunter2hunter2",
            "hunt",
            "er2",
            "multi\nline-secret",
            "multi\n",
            " ",
            "\n",
            "\r",
            "https://bob:",
            "pass@host/x",
            JWT,
            JWT[:30],
            JWT[30:],
            "AKIAABCDEFGHIJKLMNOP",
            "AKIA",
            "x",
        ]
    )
    text = "".join(draw(st.lists(fragments, max_size=20)))
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12)))
    edges = [0, *cuts, len(text)]
    return text, [text[a:b] for a, b in itertools.pairwise(edges)]


@given(cut_text())
def test_result_does_not_depend_on_where_the_stream_is_cut(case: tuple[str, list[str]]) -> None:
    text, pieces = case
    secrets = ["hunter2", "multi\nline-secret"]
    assert stream(Redactor(secrets), pieces) == Redactor(secrets).redact(text)


@given(cut_text())
def test_no_known_secret_survives(case: tuple[str, list[str]]) -> None:
    shown = stream(Redactor(["hunter2", "multi\nline-secret"]), case[1])
    assert "hunter2" not in shown
    assert "line-secret" not in shown


@given(st.text(max_size=200), st.integers(1, 7))
def test_text_without_secrets_passes_unchanged(text: str, size: int) -> None:
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    assert stream(Redactor(["a-secret-that-is-not-there"]), pieces) == text


@pytest.mark.parametrize(
    "spelling",
    [
        SECRET,
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        quote(SECRET, safe=""),
        shlex.quote(SECRET),
        base64.b64encode(SECRET.encode()).decode(),
        base64.urlsafe_b64encode(b"user:" + SECRET.encode()).decode(),
        base64.b64encode(b"ab" + SECRET.encode() + b"tail").decode(),
    ],
)
def test_each_spelling_is_masked(spelling: str) -> None:
    shown = Redactor([SECRET]).redact(f"value={spelling};")
    assert MASK in shown
    assert "cr3t" not in shown
    assert base64.b64encode(SECRET.encode()).decode()[4:-6] not in shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("clone https://bob:hunter22@example.com/x.git", "clone https://bob:***@example.com/x.git"),
        (f"Bearer {JWT} ok", "Bearer *** ok"),
        ("key AKIAABCDEFGHIJKLMNOP end", "key *** end"),
        ("aws_secret_access_key = " + "a" * 40, "aws_secret_access_key = ***"),
        ('"SecretAccessKey": "' + "Ab/+" * 10 + '"', '"SecretAccessKey": "***"'),
        ("token ryw_" + "a" * 43, "token ***"),
    ],
)
def test_shapes_are_masked_without_being_registered(text: str, expected: str) -> None:
    assert stream(Redactor(), list(text)) == expected


def test_short_values_do_not_blank_out_ordinary_words() -> None:
    assert Redactor(["yes", "10"]).redact("yes 10 times") == "yes 10 times"


def test_a_secret_inside_an_endless_line_is_masked_and_little_is_held() -> None:
    redactor = Redactor(["hunter2secret"])
    filler = "x" * 1000
    shown = ""
    for index in range(200):
        shown += redactor.feed(filler + ("hunter2" if index % 2 else "secret"))
        assert index * 1000 - len(shown) <= LONGEST_HELD_LINE + 2000
    shown += redactor.feed("hunter2") + redactor.feed("secret") + redactor.flush()
    assert "hunter2secret" not in shown
    assert shown.endswith(MASK)


def test_lines_are_released_as_soon_as_they_end() -> None:
    redactor = Redactor(["hunter2"])
    assert redactor.feed("one\ntwo") == "one\n"
    assert redactor.feed("\n") == "two\n"


def test_a_secret_added_later_is_masked_from_then_on() -> None:
    redactor = Redactor()
    redactor.add("late-secret")
    assert stream(redactor, ["late-", "secret\n"]) == "***\n"


def test_an_endless_chain_of_overlapping_secrets_is_masked_and_does_not_fill_the_memory() -> None:
    redactor = Redactor(["abcabc", "xabcabcabcabcy"])
    shown = ""
    for _ in range(60):
        shown += redactor.feed("abc" * 2000)
        assert len(redactor._held) <= 8 * LONGEST_HELD_LINE
    shown += redactor.flush()
    assert set(shown) == {"*"}
