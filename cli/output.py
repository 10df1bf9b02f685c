"""The output of commands: tables on a terminal, plain lines in a pipe, JSON for programs."""

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]
# Columns that a person knows by another name, and a time as they read it: to the minute, in UTC.
HEADINGS = {
    "created_by_label": "requested by",
    "actor_label": "by",
    "worker_name": "runner",
    "instance_name": "instance",
    "module_path": "module",
    "job_number": "job",
    "from_status": "from",
    "to_status": "to",
    "pinned_worker_id": "pinned to",
    "service_account_id": "service account",
    "is_assigned_to_all_modules": "all modules",
}
EMPTY: tuple[Any, ...] = (None, [], "", {})
TIME = re.compile(r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d):\d\d(?:\.\d+)?(?:\+00:00|Z)$")
CONTROLS = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]")
COLOURS = {
    "SUCCEEDED": "green", "ONLINE": "green", "FAILED": "red", "NEEDS_ATTENTION": "red", "CANCELLED": "yellow",
    "AWAITING_APPROVAL": "yellow", "DRAINING": "yellow", "PROCESSING": "cyan", "CLAIMED": "cyan",
}  # fmt: skip


@dataclass(frozen=True)
class Printer:
    """Prints as `--json` or the place that it prints to wants it."""

    as_json: bool = False

    @property
    def is_terminal(self) -> bool:
        """Whether a person reads it."""
        return sys.stdout.isatty()

    def rows(
        self, rows: Sequence[Row], columns: Sequence[str], nothing: str = "None.", *, cut: Sequence[str] = ()
    ) -> None:
        """A list: a table with headings, or a line of tab-separated values for each.

        A table with columns that may be `cut` has one line for each row; without, what is too long is folded.
        """
        if self.as_json:
            self.document(list(rows))
        elif not self.is_terminal:
            for row in rows:
                print("\t".join(cell(row.get(column)) for column in columns))
        elif rows:
            _table(rows, columns, cut)
        else:
            print(nothing)

    def row(self, row: Row, columns: Sequence[str]) -> None:
        """One thing: a line for each of its fields; a person sees those that have a value, in their words."""
        if self.as_json:
            self.document(row)
        elif not self.is_terminal:
            print("\n".join(f"{column}\t{cell(row.get(column))}" for column in columns))
        else:
            found = {heading(column): row[column] for column in columns if row.get(column) not in EMPTY}
            width = max(map(len, found), default=0) + 2
            for name, value in found.items():
                print(name.ljust(width) + TIME.sub(r"\1 \2 UTC", listed(value)))

    def result(self, value: Any, describe: Callable[[Any], str]) -> None:
        """Print the result: a sentence, or the thing itself."""
        if self.as_json:
            self.document(value)
        else:
            print(plain(describe(value)))

    def document(self, value: Any) -> None:
        """JSON, whatever the place."""
        print(json.dumps(value, indent=2, ensure_ascii=False))


def say(text: str, *, is_dim: bool = False) -> None:
    """A remark for the person; what programs read goes to stdout."""
    shown = plain(text)
    print(f"\x1b[2m{shown}\x1b[0m" if is_dim and is_coloured(sys.stderr) else shown, file=sys.stderr, flush=True)


def plain(text: str) -> str:
    """Mark every character that would control the terminal or turn the text's direction: anybody may have written it."""
    return CONTROLS.sub("\ufffd", text)


def cell(value: Any) -> str:
    """One value on one line."""
    if value in EMPTY:
        return "-"
    if isinstance(value, list):
        return ",".join(cell(each) for each in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return plain(json.dumps(value, ensure_ascii=False))
    return plain(" ".join(str(value).split()))


def listed(value: Any) -> str:
    """One value for a person: what is in it by name, and no JSON."""
    if isinstance(value, dict):
        return ", ".join(f"{name}={listed(each)}" for name, each in value.items())
    return ", ".join(listed(each) for each in value) if isinstance(value, list) else cell(value)


def heading(column: str) -> str:
    """Name a column of the database as people do."""
    return HEADINGS.get(column) or column.removeprefix("is_").removesuffix("_at").replace("_", " ")


def is_coloured(stream: Any = None) -> bool:
    """Whether colours are wanted there (https://no-color.org)."""
    return bool((stream or sys.stdout).isatty()) and not os.environ.get("NO_COLOR")


def _table(rows: Sequence[Row], columns: Sequence[str], cut: Sequence[str]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(heading(column).upper(), overflow="fold", no_wrap=bool(cut) and column not in cut)
    for row in rows:
        cells = [TIME.sub(r"\1 \2", cell(row.get(column))) for column in columns]
        shape: dict[str, Any] = {"no_wrap": True, "overflow": "ellipsis"} if cut else {}
        table.add_row(*(Text(text, style=COLOURS.get(text, ""), **shape) for text in cells))
    Console(no_color=not is_coloured()).print(table)
