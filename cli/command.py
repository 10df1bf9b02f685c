"""A client command: a function of its place (who, where, how to print) and its own arguments, some of which several have."""

import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer import Argument, Option

from cli.client.api import Api
from cli.client.organization import Organization, find_organization
from cli.client.profiles import Profile
from cli.errors import Missing, NotFound, Usage
from cli.output import Printer
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

Function = TypeVar("Function", bound=Callable[..., Any])
COMMON = {
    "organization": Annotated[
        str | None, Option("--organization", "-o", help="Slug or id; not needed if you have one.")
    ],
    "profile": Annotated[str | None, Option("--profile", help="A login of `runyard login --profile`.")],
    "as_json": Annotated[bool, Option("--json", help="For programs.")],
}


class Here:
    """The context of a command: the person who acts, the organisation, and the format of the output."""

    def __init__(self, organization: str | None, profile: str | None, as_json: bool) -> None:
        self._organization = organization
        self._profile = profile
        self.printer = Printer(as_json)

    @cached_property
    def identity(self) -> tuple[Api, Profile]:
        """The person who acts, and the profile with their sign-in."""
        from cli.client.identity import person

        return person(self._profile)

    @property
    def api(self) -> Api:
        """Calls as the person who acts."""
        return self.identity[0]

    @cached_property
    def operator(self) -> Api:
        """Calls for the installation, with its secret key."""
        from cli.client.identity import operator

        return operator()

    @cached_property
    def org(self) -> Organization:
        """The organisation that is meant."""
        return find_organization(self.api, self._organization or self.identity[1].organization)

    def do(self, function: str, said: str | Callable[[Any], str], **arguments: Any) -> None:
        """Call a function and print its answer: `said` describes it, or is a text with the names of its fields in braces."""
        self.printer.result(self.api.call(function, **arguments), said.format_map if isinstance(said, str) else said)

    def confirm(self, question: str, is_agreed: bool) -> None:
        """Ask before something that cannot be undone; a pipeline cannot answer."""
        if is_agreed:
            return
        if not sys.stdin.isatty():
            raise Usage(f"{question} There is no terminal to ask on.", "Add --yes if you are sure.")
        if not typer.confirm(question):
            raise typer.Exit(1)


def new_app(help_text: str) -> typer.Typer:
    """A group of commands."""
    return typer.Typer(
        help=help_text,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )


def command(
    app: typer.Typer, name: str, *, calls: tuple[str, ...] = (), page: str = ""
) -> Callable[[Function], Function]:
    """Add a command; `calls` are the public functions behind it, `page` is where the dashboard does the same."""

    def add(function: Function) -> Function:
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]

        @wraps(function)
        def run(**given: Any) -> None:
            here = Here(given.pop("organization"), given.pop("profile"), given.pop("as_json"))
            for each in filter(_is_bundle, own):
                names = [field.name for field in fields(each.annotation)]
                given[each.name] = each.annotation(**{name: given.pop(name) for name in names})
            function(here, **given)

        parameters = [one for each in own for one in _options_of(each)]
        for common, annotation in COMMON.items():
            default = False if common == "as_json" else None
            parameters.append(
                inspect.Parameter(common, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            )
        del run.__wrapped__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        run.calls, run.page = calls, page  # type: ignore[attr-defined]
        app.command(name)(run)
        return function

    return add


def _is_bundle(parameter: inspect.Parameter) -> bool:
    return is_dataclass(parameter.annotation)


def _options_of(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    """The parameter itself; of a dataclass its fields, which are options that several commands share."""
    if not _is_bundle(parameter):
        return [parameter.replace(kind=parameter.KEYWORD_ONLY)]
    return [
        inspect.Parameter(each.name, parameter.KEYWORD_ONLY, default=each.default, annotation=each.type)
        for each in fields(parameter.annotation)
    ]


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


def read_text(file: Path, hint: str = "") -> str:
    """A file as text."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Missing(f"{file} cannot be read: {error}", hint) from error


def piped(what: str, option: str) -> str:
    """A line of the standard input, for what should not be in a shell's history."""
    text = sys.stdin.readline().strip()
    if not text:
        raise Usage(f"There is no {what} in standard input.", f"Pipe it: `… {option} < file`.")
    return text


def with_id(rows: list[dict[str, Any]], text: str, kind: str, command: str) -> dict[str, Any]:
    """Return the one whose id begins with a text; `command` lists them."""
    found = [row for row in rows if row["id"].startswith(text)] if text else []
    if len(found) != 1:
        raise NotFound(f'"{text}" is not a {kind}.', f"`runyard {command}` shows all {kind}s.")
    return found[0]


def moment(text: str, *, is_ahead: bool, now: datetime | None = None) -> str:
    """Read a time as it is written, or so long ago or ahead."""
    if span := re.fullmatch(r"(\d{1,5})([mhd])", text):
        away = timedelta(**{{"m": "minutes", "h": "hours", "d": "days"}[span[2]]: int(span[1])})
        here = now or datetime.now(UTC)
        return (here + away if is_ahead else here - away).isoformat()
    try:
        return datetime.fromisoformat(text).astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        raise Usage(f'"{text}" is not a time.', "Write it as 30m, 24h, 7d or 2030-01-31T08:00Z.") from None


def from_json(text: str, place: str) -> Any:
    """Read JSON that was given there."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise Usage(f"{place} is not JSON: {error}") from error
