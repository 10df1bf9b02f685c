import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stack.realtime.shape import commit_timestamp, value_to_json


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("int8", "9007199254740993", b"9007199254740993"),
        ("numeric", "1.50", b"1.50"),
        ("numeric", "NaN", b'"NaN"'),
        ("float8", "-Infinity", b'"-Infinity"'),
        ("bool", "t", b"true"),
        ("jsonb", '{"a": 1}', b'{"a": 1}'),
        ("bytea", "\\xdead", b'"dead"'),
        ("timestamptz", "2026-01-02 03:04:05.6+00", b'"2026-01-02T03:04:05.6+00:00"'),
        ("timestamptz", "2026-01-02 03:04:05+05:30", b'"2026-01-02T03:04:05+05:30"'),
        ("timestamptz", "infinity", b'"infinity"'),
        ("timestamp", "2026-01-02 03:04:05", b'"2026-01-02T03:04:05"'),
        ("uuid", "x", b'"x"'),
    ],
)
def test_values(kind: str, text: str, expected: bytes) -> None:
    assert value_to_json(text, kind, None) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", []),
        ("{1,2}", ["1", "2"]),
        ('{NULL,null,"NULL"}', [None, "null", "NULL"]),
        ("{{a,b},{c,d}}", [["a", "b"], ["c", "d"]]),
        ("[0:1]={a,b}", ["a", "b"]),
        ('{"a\\"b","c\\\\d","e,f","{g}",""}', ['a"b', "c\\d", "e,f", "{g}", ""]),
    ],
)
def test_arrays(text: str, expected: list[object]) -> None:
    assert json.loads(value_to_json(text, "_text", "text")) == expected


@given(st.lists(st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"]))))
def test_quoted_arrays_are_read_back(items: list[str]) -> None:
    quoted = ('"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"' for item in items)
    assert json.loads(value_to_json("{" + ",".join(quoted) + "}", "_text", "text")) == items


def test_commit_timestamps_have_milliseconds() -> None:
    assert commit_timestamp(1_794_702_637_927_999) == "2026-11-15T00:30:37.927Z"
