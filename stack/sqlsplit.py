"""Split an SQL file into statements, remembering the line each one starts on, or into queries that have names."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

# One token at a time: what may hide a semicolon comes first.
TOKEN = re.compile(
    r"""
      (?P<comment>--[^\n]*)
    | (?P<block>/\*)
    | (?P<dollar>\$(?:[A-Za-z_\x80-\uffff][\w\x80-\uffff]*)?\$)
    | (?P<escape>\b[eE]'(?:[^'\\]|''|\\.)*')
    | (?P<string>'(?:[^']|'')*')
    | (?P<quoted>"(?:[^"]|"")*")
    | (?P<word>[A-Za-z_][\w$]*)
    | (?P<end>;)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Statement:
    """One statement, and the line of the file its first word is on."""

    text: str
    line: int


def split_statements(source: str) -> list[Statement]:
    """Split at semicolons that are not in a string, a comment, a dollar quote or a `begin atomic` body."""
    statements: list[Statement] = []
    start, line, counted = 0, 1, 0
    for end in [*_boundaries(source), len(source)]:
        first = next((token for token in _tokens(source, start, end) if _counts(token)), None)
        if first is not None:
            line += source.count("\n", counted, first.start())
            counted = first.start()
            statements.append(Statement(source[counted:end].rstrip(), line))
        start = end + 1
    return statements


def _counts(token: re.Match[str]) -> bool:
    return token.lastgroup not in ("comment", "block") and not token.group().isspace()


def _boundaries(source: str) -> Iterator[int]:
    depth = 0
    for token in _tokens(source, 0, len(source)):
        word = token.group().lower() if token.lastgroup == "word" else ""
        if word == "atomic" or (depth and word == "case"):
            depth += 1
        elif depth and word == "end":
            depth -= 1
        elif token.lastgroup == "end" and not depth:
            yield token.start()


def _tokens(source: str, start: int, end: int) -> Iterator[re.Match[str]]:
    position = start
    while position < end:
        token = TOKEN.match(source, position, end)
        if token is None:
            return
        yield token
        position = _after(source, token, end)


def _after(source: str, token: re.Match[str], end: int) -> int:
    """Return the start of the next token; steps over dollar quotes and nested comments whole."""
    if token.lastgroup == "dollar":
        close = source.find(token.group(), token.end(), end)
        return end if close < 0 else close + len(token.group())
    if token.lastgroup == "block":
        return _after_comment(source, token.end(), end)
    return token.end()


def _after_comment(source: str, position: int, end: int) -> int:
    depth = 1
    for mark in re.compile(r"/\*|\*/").finditer(source, position, end):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return mark.end()
    return end


def load_queries(text: str) -> dict[str, bytes]:
    """Split a file at its `-- name:` lines."""
    parts = text.split("-- name: ")[1:]
    return {name.strip(): body.encode() for name, _, body in (part.partition("\n") for part in parts)}
