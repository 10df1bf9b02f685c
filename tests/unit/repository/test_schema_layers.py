"""The files of `supabase/schemas/` are layers: a call goes to its own file or to one that comes before."""

import re
from collections.abc import Iterator

from tests.support.schemas import schema_files

MADE = re.compile(r"^create function (private\.\w+)", re.MULTILINE)
CALLED = re.compile(r"\b(private\.\w+)\s*\(")
COMMENT = re.compile(r"--[^\n]*|^comment on .*?;$", re.MULTILINE | re.DOTALL)


def calls_downward(texts: dict[str, str]) -> Iterator[str]:
    """Calls to files that come later, in the order of the files."""
    order = list(texts)
    home = {made: file for file, text in texts.items() for made in MADE.findall(text)}
    for file, text in texts.items():
        for called in sorted(set(CALLED.findall(COMMENT.sub("", text)))):
            if called in home and order.index(home[called]) > order.index(file):
                yield f"{file} calls {called} of {home[called]}"


def test_no_call_goes_to_a_file_that_comes_later() -> None:
    texts = {file.name: file.read_text() for file in schema_files()}
    assert len(texts) > 40
    assert list(calls_downward(texts)) == []


def test_a_call_to_a_later_file_is_noticed() -> None:
    first = "create function private.a() returns void as $$ select private.b() $$; -- private.c()"
    texts = {"first.sql": first, "second.sql": "create function private.b()\ncreate function private.c()"}
    assert list(calls_downward(texts)) == ["first.sql calls private.b of second.sql"]
