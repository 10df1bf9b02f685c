"""A .tfvars file: names and expressions. Expressions that are plain values are read as such, others stay HCL."""

import json
import re
from typing import Any

from cli.errors import CommandError
from wire.hcl_blocks import string_end

_BLANK = re.compile(r"(?:\s|\#[^\n]*|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_NAME = re.compile(r'"?(?P<name>[A-Za-z_][\w-]*)"?[^\S\n]*=(?!=)[^\S\n]*')
_HEREDOC = re.compile(r"<<-?(?P<end>[\w-]+)[^\n]*\n.*?^[ \t]*(?P=end)[ \t]*$", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"\#|//|/\*")
_DEPTH = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}


def read_tfvars(text: str, place: str) -> list[dict[str, Any]]:
    """The inputs of a file, as `set_variables` expects them."""
    return [_variable(name, expression) for name, expression in _attributes(text, place).items()]


def _attributes(text: str, place: str) -> dict[str, str]:
    found: dict[str, str] = {}
    at = _skip_blank(text, 0)
    while at < len(text):
        name = _NAME.match(text, at)
        if name is None:
            line = text.count("\n", 0, at) + 1
            raise CommandError(f"{place}, line {line}: this is not NAME = VALUE.", "Blocks do not belong into .tfvars.")
        end = _expression_end(text, name.end())
        found[name["name"]] = text[name.end() : end].strip()
        at = _skip_blank(text, end)
    return found


def _skip_blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _expression_end(text: str, at: int) -> int:
    """The place where an expression ends: its line's end, unless a bracket, a text or a heredoc is open."""
    depth = 0
    while at < len(text):
        if text[at] == '"':
            at = string_end(text, at + 1)
        elif heredoc := _HEREDOC.match(text, at):
            at = heredoc.end()
        elif depth == 0 and (text[at] == "\n" or _COMMENT.match(text, at)):
            return at
        elif depth and _COMMENT.match(text, at):
            at = max(at + 1, _skip_blank(text, at))
        else:
            depth += _DEPTH.get(text[at], 0)
            at += 1
    return at


def _variable(name: str, expression: str) -> dict[str, Any]:
    try:
        is_template = "${" in expression or "%{" in expression
        value = None if is_template else json.loads(expression)
    except ValueError:
        is_template = True
    if is_template:
        return {"kind": "input", "name": name, "value": expression, "is_hcl": True}
    return {"kind": "input", "name": name, "value": value}
