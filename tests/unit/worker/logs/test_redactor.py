"""The redactor: the same answer however the stream is cut, and no secret in any spelling."""

import base64
import itertools
import json
import re
import shlex
import subprocess
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.logs.redactor import LONGEST_HELD_LINE, MASK, Redactor
from worker.logs.texts import OutputDecoder

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
        ("AWS_SECRET_ACCESS_KEY=" + "a" * 40 + " end", "AWS_SECRET_ACCESS_KEY=*** end"),
        ("key sb_secret_" + "aB3-_" * 6 + " end", "key *** end"),
        *((f"token gh{kind}_" + "aB3" * 12 + " end", "token *** end") for kind in "pousr"),
    ],
)
def test_shapes_are_masked_without_being_registered(text: str, expected: str) -> None:
    assert stream(Redactor(), list(text)) == expected


@pytest.mark.parametrize("text", ["light_" + "a" * 36, "ghx_" + "a" * 36, "sb_publishable_" + "a" * 30, "ryw_short"])
def test_words_like_a_shape_stay(text: str) -> None:
    assert Redactor().redact(text) == text


ESCAPED = [
    rf"pass{sign}word{sign}end"
    for sign in (r"\f", r"\b", r"\a", r"\v", r"\t", r"\n", r"\r", r"\\", r"\043", r"\0101", r"\0")
]


@pytest.mark.parametrize("secret", [*ESCAPED, r"pass\fword\cnever", r"\x41\efiddle\ework"])
@pytest.mark.parametrize(
    "command", [["dash", "-c", 'echo "$S"'], ["bash", "-c", 'echo -e "$S"'], ["bash", "-c", "printf '%b\n' \"$S\""]]
)
def test_a_value_that_a_shell_prints_with_its_escapes_interpreted_is_masked(secret: str, command: list[str]) -> None:
    shown = subprocess.run(command, env={"S": secret}, capture_output=True, check=True).stdout
    assert shown.strip() != secret.encode() or "\\x" in secret
    left = stream(Redactor([secret]), [OutputDecoder().feed(shown, is_last=True)])
    assert not re.search(r"pass|word|fiddle|work", left)


@pytest.mark.parametrize("before", [b"", b"x", b"xy", b"xyz", b"user:"])
@pytest.mark.parametrize("secret", ["s3cret", "p4ssw0rd"])
def test_a_short_value_is_masked_at_every_offset_of_base64(before: bytes, secret: str) -> None:
    assert MASK in Redactor([secret]).redact(base64.b64encode(before + secret.encode() + b"tail").decode())


@pytest.mark.parametrize("inner", [b"", b"u:", b"user:"])
@pytest.mark.parametrize("outer", [b"", b"a", b"ab"])
def test_base64_of_base64_is_masked(inner: bytes, outer: bytes) -> None:
    secret = "correct-horse-battery"
    once = base64.b64encode(inner + secret.encode() + b"tail")
    shown = Redactor([secret]).redact(base64.b64encode(outer + once + b"tail").decode())
    assert MASK in shown
    assert len(shown) < 40


@pytest.mark.parametrize(
    "spelling",
    [
        "".join(f"\\u{ord(sign):04x}" for sign in SECRET),
        "".join(f"\\u{ord(sign):04X}" for sign in SECRET),
        "".join(
            sign if (sign.isalnum() and sign.isascii()) or sign in "/$" else f"\\u{ord(sign):04X}" for sign in SECRET
        ),
        "\u200b".join(SECRET),
        "\ufffd".join(SECRET),
    ],
    ids=["lower", "upper", "as .NET does", "zero width", "UTF-16"],
)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_escaped_and_stretched_values_are_masked(spelling: str, size: int) -> None:
    text = f"value={spelling};\n"
    assert stream(Redactor([SECRET]), [text[at : at + size] for at in range(0, len(text), size)]) == f"value={MASK};\n"


@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_value_as_json_is_masked_from_its_first_character_to_its_last(ascii_only: bool) -> None:
    secret = '"quoted"\\é<pass&word>"'
    assert Redactor([secret]).redact(json.dumps(secret, ensure_ascii=ascii_only)) == f'"{MASK}"'


def test_short_values_do_not_blank_out_ordinary_words() -> None:
    assert Redactor(["yes", "10"]).redact("yes 10 times") == "yes 10 times"


def test_a_secret_inside_an_endless_line_is_masked_and_little_is_buffered() -> None:
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


LONG_SECRET = "correct-horse-battery-staple-" * 5


def wrapped(data: bytes, width: int, end: str = "\n") -> str:
    text = base64.b64encode(data).decode()
    return end.join(text[at : at + width] for at in range(0, len(text), width)) + end


@pytest.mark.parametrize("before", [b"", b"x", b"user:", b"y" * 40, b"z" * 200])
@pytest.mark.parametrize(("width", "end"), [(76, "\n"), (64, "\n"), (76, "\r\n"), (64, "\n    ")])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_base64_that_is_wrapped_is_masked(before: bytes, width: int, end: str, size: int) -> None:
    text = "value: " + wrapped(before + LONG_SECRET.encode() + b"tail", width, end) + "done\n"
    shown = stream(Redactor([LONG_SECRET]), [text[at : at + size] for at in range(0, len(text), size)])
    assert shown.endswith("done\n")
    encoded = "".join(shown.removesuffix("done\n").split())
    kept = base64.b64encode(before + LONG_SECRET.encode()).decode()
    longest = max(len(part) for part in encoded.removeprefix("value:").split(MASK))
    assert MASK in shown
    # What is left belongs to the neighbours, and to the characters that they share with the secret.
    assert longest <= len(base64.b64encode(before)) + 8
    assert kept[-40:-8] not in encoded


@pytest.mark.parametrize("before", [b"", b"a", b"ab", b"abc", b"abcd"])
@pytest.mark.parametrize("is_lower", [False, True])
def test_base32_is_masked_wherever_the_secret_begins(before: bytes, is_lower: bool) -> None:
    encoded = base64.b32encode(before + SECRET.encode() + b"tail").decode()
    shown = Redactor([SECRET]).redact(encoded.lower() if is_lower else encoded)
    left = shown.replace(MASK, "").rstrip("=")
    # What is left belongs to the neighbours, and to the characters that they share with the secret.
    assert MASK in shown
    assert len(left) <= len(base64.b32encode(before).rstrip(b"=")) + len(base64.b32encode(b"tail").rstrip(b"=")) + 1


@pytest.mark.parametrize("spelling", [SECRET.upper(), SECRET.lower()])
def test_another_case_is_masked(spelling: str) -> None:
    assert Redactor([SECRET]).redact(f"value={spelling};") == f"value={MASK};"


@pytest.mark.parametrize(
    "spelling",
    [
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
        json.dumps({"inner": json.dumps({"password": SECRET})}),
        json.dumps(json.dumps(SECRET, ensure_ascii=False), ensure_ascii=False),
        "\x1b[31ms3cr3\x1b[0;1mt/+pa$$'\"wörd&<x>\x1b[0m",
        "".join(f"\x1b[38;5;{index}m{sign}" for index, sign in enumerate(SECRET)),
    ],
)
@pytest.mark.parametrize("size", [1, 5, 1000])
def test_spellings_within_spellings_are_masked(spelling: str, size: int) -> None:
    text = f"value={spelling};\n"
    shown = stream(Redactor([SECRET]), [text[at : at + size] for at in range(0, len(text), size)])
    assert MASK in shown
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert "s3cr3" not in plain
    assert SECRET.encode().hex()[4:-4] not in plain.lower()


def test_a_large_blob_is_not_buffered_until_its_end() -> None:
    redactor = Redactor(["hunter2secret"])
    shown = ""
    for index in range(2000):
        shown += redactor.feed("A" * 76 + "\n")
        assert 77 * (index + 1) - len(shown) <= 77 * 3
    assert shown + redactor.flush() == ("A" * 76 + "\n") * 2000


def test_a_secret_of_many_lines_is_masked_where_lines_look_wrapped() -> None:
    key = "-----BEGIN KEY-----\n" + "\n".join("Ab3+" * 16 for _ in range(5)) + "\n-----END KEY-----"
    assert "Ab3+" not in stream(Redactor([key]), [f"{key}\n"])


def test_a_secret_longer_than_the_buffered_part_of_a_line_is_masked() -> None:
    secret = "0123456789abcdef" * 2000
    pieces = ["x" * 20_000, secret[:15_000], secret[15_000:], "y" * 20_000, "\n"]
    assert stream(Redactor([secret]), pieces) == "x" * 20_000 + MASK + "y" * 20_000 + "\n"
