"""`runyard.yaml` as a file: what is written is read, and a wrong file is refused by its line."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.errors import Usage
from cli.manifest import read_manifest, write_manifest

ODD = st.sampled_from("\n\r\t :-#'\"|>~01eyn<&*!%@`{}[],?\x85\u2028\ufeff\U0001f600")
TEXT = st.text(st.one_of(st.characters(exclude_categories=["Cs"]), ODD)) | st.from_regex(r"\A[-+.0-9eEyon~:_]{1,8}\Z")
NUMBER = st.integers(-(10**15), 10**15) | st.floats(allow_nan=False, allow_infinity=False)
VALUE = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


def read(folder: Path, text: str) -> Any:
    file = folder / "runyard.yaml"
    file.write_text(text, encoding="utf-8")
    return read_manifest(file)


@settings(deadline=None)
@given(VALUE)
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    text = write_manifest({"version": 1, "x": value})
    found = read(tmp_path_factory.getbasetemp(), text)
    assert json.dumps(found) == json.dumps({"version": 1, "x": value})
    assert write_manifest(found) == text


def test_texts_of_several_lines_are_blocks() -> None:
    assert write_manifest({"hook": "echo a\n  echo b\n"}) == "hook: |\n  echo a\n    echo b\n"


def test_words_and_times_are_texts(tmp_path: Path) -> None:
    found = read(tmp_path, "a: on\nb: 12:30\nc: 2030-01-31\nd: 010\ne: 1.5\nf: true\ng: ~\nh: 1_000\n")
    assert found == {
        "a": "on",
        "b": "12:30",
        "c": "2030-01-31",
        "d": "010",
        "e": 1.5,
        "f": True,
        "g": None,
        "h": "1_000",
    }


BOMB = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(20)
)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (BOMB, 1, "a manifest has no anchors and aliases"),
        ("version: 1\na: *b\n", 2, "a manifest has no anchors and aliases"),
        ("a: " + "[" * 100_000, 1, "it is nested too deeply"),
        ("a: 1\nb: 2\na: 3\n", 3, 'the key "a" occurs twice'),
        ("groups:\n- 1: x\n", 2, 'the key "1" is not a text'),
        ("a: !!python/object/apply:os.system [ls]\n", 1, "could not determine a constructor"),
        ("a: !!binary aGk=\n", 1, "could not determine a constructor"),
        ("a: b: c\n", 1, "mapping values are not allowed"),
        ("a: 1\n---\nb: 2\n", 2, "but found another document"),
    ],
)
def test_a_wrong_file_is_refused_by_its_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    with pytest.raises(Usage) as caught:
        read(tmp_path, text)
    assert f"runyard.yaml, line {line}: " in str(caught.value)
    assert words in str(caught.value)


def test_ten_megabytes_are_not_read(tmp_path: Path) -> None:
    with pytest.raises(Usage, match="has more than 4 MiB"):
        read(tmp_path, "a: b\n" * 2_000_000)


@pytest.mark.parametrize("content", [b"\xff\xfe\xfa", b"a: \x00\n", b"a: " + b"9" * 5000])
def test_bytes_of_another_encoding_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "runyard.yaml").write_bytes(content)
    with pytest.raises(Usage):
        read_manifest(tmp_path / "runyard.yaml")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(Usage, match=r"nowhere\.yaml cannot be read"):
        read_manifest(tmp_path / "nowhere.yaml")
