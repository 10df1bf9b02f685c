"""A client command: a function of its place (who, where, how to print) and its own arguments."""

import inspect
import sys
from collections.abc import Callable
from functools import cached_property, wraps
from typing import Annotated, Any, TypeVar

import typer

from cli.client.api import Api
from cli.client.organization import Organization, find_organization
from cli.client.profiles import Profile
from cli.errors import Usage
from cli.output import Printer

Function = TypeVar("Function", bound=Callable[..., Any])
COMMON = {
    "organization": Annotated[
        str | None, typer.Option("--organization", "-o", help="Slug or id; not needed if you have one.")
    ],
    "profile": Annotated[str | None, typer.Option("--profile", help="A login of `runyard login --profile`.")],
    "as_json": Annotated[bool, typer.Option("--json", help="For programs.")],
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
        own = inspect.signature(function, eval_str=True)

        @wraps(function)
        def run(**given: Any) -> None:
            here = Here(given.pop("organization"), given.pop("profile"), given.pop("as_json"))
            function(here, **given)

        parameters = [each.replace(kind=each.KEYWORD_ONLY) for each in list(own.parameters.values())[1:]]
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
