"""Arguments and options that several commands have, and what commands make of texts."""

import json
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from typer import Argument, Option

from cli.errors import NotFound, Usage
from wire.spans import read_time_limits

Yes = Annotated[bool, Option("--yes", help="Do not ask.")]
ModuleName = Annotated[str, Argument(metavar="MODULE", help="The module's path, such as platform/vpc, or its id.")]
RunnerName = Annotated[str, Argument(metavar="RUNNER", help="The runner's name, or its id.")]
Member = Annotated[str, Argument(metavar="MEMBER", help="Their email address, or their id.")]
OnlyRunner = Annotated[str | None, Option("--runner", help="Only this runner may run it.")]
Wait = Annotated[bool, Option("--wait", "-w", help="Follow it; the exit code shows how it ended.")]
Place = Annotated[str, Argument(metavar="PATH", help='A module or group; "" is the whole organisation.')]
AnyPath = Annotated[str, Argument(metavar="PATH", help="A module or group; all modules without.")]

TimeLimits = Annotated[
    str | None, Option("--time-limits", help="Such as plan=1h,apply=4h,hook=60s; together they replace the present ones.")
]  # fmt: skip


def limits_of(text: str | None) -> dict[str, int] | None:
    """Read time limits that were given."""
    try:
        return None if text is None else read_time_limits(text)
    except ValueError as error:
        raise Usage(str(error)) from error


def given(**values: Any) -> dict[str, Any]:
    """The values that the command line names; the rest stays as it is."""
    return {name: value for name, value in values.items() if value is not None}


def pairs(texts: Sequence[str] | None, hint: str = "", form: str = "FIELD=VALUE") -> dict[str, str]:
    """Read name=value pairs."""
    split = [text.partition("=") for text in texts or ()]
    for text, (name, is_pair, _) in zip(texts or (), split, strict=True):
        if not is_pair or not name:
            raise Usage(f'"{text}" is not {form}.', hint)
    return {name: value for name, _, value in split}


def one_of(text: str, known: Iterable[str], problem: str) -> str:
    """Take a word that is one of those known; else `problem` names it."""
    if text not in known:
        raise Usage(problem.format(text), f"Choose from {', '.join(known)}.")
    return text


def with_id(rows: list[dict[str, Any]], text: str, kind: str, command: str) -> dict[str, Any]:
    """Return the one whose id begins with a text; `command` lists them."""
    found = [row for row in rows if row["id"].startswith(text)] if text else []
    if len(found) != 1:
        raise NotFound(f'"{text}" is not a {kind}.', f"`runyard {command}` shows all {kind}s.")
    return found[0]


def from_json(text: str, place: str) -> Any:
    """Read JSON that was given there."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise Usage(f"{place} is not JSON: {error}") from error
