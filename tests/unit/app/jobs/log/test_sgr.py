"""Terminal text becomes text with class names, whatever a job writes."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.jobs.log.sgr import MAX_LINE, MAX_SEGMENTS, Line, Parser, strip

CLASS_NAME = re.compile(r"(?:a-x?[krgyumcwbdinsv]|a-o[krgyumcw])(?: (?:a-x?[krgyumcwbdinsv]|a-o[krgyumcw]))*")

# Attacks that a log may try: markup, links, title setting, clipboard writing, screen clearing, right-to-left overrides.
HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "javascript:alert(1)",
    "\x1b]8;;javascript:alert(1)\x07click\x1b]8;;\x07",
    "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "\x1b]0;title\x07after",
    "\x1b]52;c;cm0gLXJmIC8=\x07after",
    "\x1b[2J\x1b[H\x1b[?25lcleared",
    "\x1bP+q544e\x1b\\after",
    "\x1b_app\x1b\\\x1b^pm\x1b\\\x1bXsos\x1b\\after",
    "\x9b31mred\x9b0m",
    "user\u202etxt.exe\u202c",
    "\u2066\u2067\u2068\u2069\u200e\u200f\u061cbidi",
    "null\x00bell\x07back\x08del\x7f",
    "\ud800lone surrogate",
    "\U000e0041hidden tags",
    "{{constructor.constructor('alert(1)')()}}",
    "</pre></div><style>*{display:none}</style>",
]


def lines(body: str) -> list[Line]:
    return Parser().feed(body)


def only(body: str) -> tuple[tuple[str, str], ...]:
    [line] = lines(body)
    return line.segments


def test_plain_text_is_one_segment_without_style() -> None:
    assert only("aws_iam_role.nodes: Creating...\n") == (("aws_iam_role.nodes: Creating...", ""),)


def test_colour_bold_and_reset() -> None:
    assert only("\x1b[1m\x1b[32m+\x1b[0m create") == (("+", "a-b a-g"), (" create", ""))


@pytest.mark.parametrize(
    ("params", "classes"),
    [
        ("31", "a-r"),
        ("1;31", "a-b a-r"),
        ("91", "a-xr"),
        ("38;5;9", "a-xr"),
        ("38;5;196", "a-xr"),
        ("38;5;240", "a-xk"),
        ("38;2;10;160;60", "a-g"),
        ("38:2::255:80:80", "a-xr"),
        ("48;5;2", "a-og"),
        ("103", "a-oy"),
        ("7", "a-v"),
        ("4;3;9;2", "a-d a-i a-n a-s"),
    ],
)
def test_sgr_parameters(params: str, classes: str) -> None:
    assert only(f"\x1b[{params}mx") == (("x", classes),)


@pytest.mark.parametrize(
    "params", ["", "0", "99999999999", "38;5", "38;5;999", "38;2;1;2", "58;5;1", ">4;2", "?1", "8"]
)
def test_odd_sgr_parameters_leave_plain_text(params: str) -> None:
    assert only(f"\x1b[{params}mx") == (("x", ""),)


def test_a_style_continues_over_lines_and_pieces() -> None:
    parser = Parser()
    first, second = parser.feed("\x1b[31mone\ntwo\n")
    [third] = parser.feed("three\x1b[39m.")
    assert [first.segments, second.segments] == [(("one", "a-r"),), (("two", "a-r"),)]
    assert third.segments == (("three", "a-r"), (".", ""))


def test_a_sequence_split_over_two_pieces_is_still_one() -> None:
    parser = Parser()
    assert parser.feed("a\x1b[3")[0].text == "a"
    assert parser.feed("1mb")[0].segments == (("b", "a-r"),)


def test_an_unfinished_link_does_not_swallow_the_next_line() -> None:
    assert [line.text for line in lines("\x1b]8;;https://evil.example\nnext\n")] == ["", "next"]


def test_a_carriage_return_leaves_the_last_text() -> None:
    assert only("10 %\r55 %\r100 %\r\n") == (("100 %", ""),)


def test_a_links_text_is_kept_and_its_address_removed() -> None:
    assert only("see \x1b]8;;https://evil.example\x1b\\docs\x1b]8;;\x1b\\.") == (("see docs.", ""),)


def test_a_long_line_is_cut_and_counts_the_hidden_characters() -> None:
    [line] = lines("x" * (MAX_LINE + 250))
    assert (len(line.text), line.hidden) == (MAX_LINE, 250)


def test_a_line_of_colour_changes_stays_small() -> None:
    [line] = lines("".join(f"\x1b[3{n % 8}m{n % 10}" for n in range(3_000)))
    assert len(line.segments) <= MAX_SEGMENTS
    assert len(line.text) == 3_000


def is_harmless(char: str) -> bool:
    if char == "\t":
        return True
    return unicodedata.category(char) not in {"Cc", "Cs", "Zl", "Zp"} and unicodedata.bidirectional(char) not in {
        *("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"),
    }


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_text_is_text(hostile: str) -> None:
    for line in lines(hostile + "\n"):
        assert all(map(is_harmless, line.text))
        assert all(not classes or CLASS_NAME.fullmatch(classes) for _, classes in line.segments)


@pytest.mark.parametrize("markup", HOSTILE[:4])
def test_markup_is_kept_as_it_was_written(markup: str) -> None:
    assert lines(markup)[0].text == markup


TERMINAL = st.text(alphabet=st.sampled_from("ab<\x1b[]m;0138:\x07\\\r\n\t\x9b\x9c\u202eP^_?"), max_size=200)


@given(st.lists(st.one_of(TERMINAL, st.text(max_size=80)), max_size=6))
def test_any_input_gives_harmless_segments(pieces: list[str]) -> None:
    parser = Parser()
    for piece in pieces:
        for line in parser.feed(piece):
            assert all(map(is_harmless, line.text))
            assert all(text and (not classes or CLASS_NAME.fullmatch(classes)) for text, classes in line.segments)


@given(st.one_of(TERMINAL, st.text(max_size=200)))
def test_stripped_text_keeps_its_lines_and_loses_its_controls(body: str) -> None:
    stripped = strip(body)
    assert stripped.count("\n") == body.count("\n")
    assert all(map(is_harmless, stripped.replace("\n", "")))
