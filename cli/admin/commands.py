"""`runyard runner …`, `… service-account …` and `… shared-runners …`."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from cli.admin import wording
from cli.admin.api import installation, signed_in
from cli.admin.fleet import Fleet
from cli.admin.shared import Outcome, apply_configuration, read_configuration

WHO = (
    'Who you are comes from the environment: SUPABASE_URL and SUPABASE_PUBLISHABLE_KEY, which eval "$(make env)" sets for '
    "the local stack, with RUNYARD_EMAIL and RUNYARD_PASSWORD, or RUNYARD_ACCESS_TOKEN. Whoever has several "
    "organisations names one: --organization, or RUNYARD_ORGANIZATION."
)
INSTALLATION = (
    'It acts for the installation, so it needs SUPABASE_URL and SUPABASE_SECRET_KEY, which eval "$(make env)" sets for '
    "the local stack."
)
T = TypeVar("T")

runner = typer.Typer(
    help="Register, list and look after the runners of an organisation.", epilog=WHO, no_args_is_help=True
)
service_account = typer.Typer(
    help="Identities that runners sign in with instead of a token.", epilog=WHO, no_args_is_help=True
)
shared = typer.Typer(help="The installation's own runners, from a file.", epilog=INSTALLATION, no_args_is_help=True)

Organization = Annotated[str | None, typer.Option("--organization", help="Slug or id; not needed if you have one.")]
Json = Annotated[bool, typer.Option("--json", help="For programs.")]
Runner = Annotated[str, typer.Argument(metavar="RUNNER", help="The runner's name, or its id.")]
Labels = Annotated[list[str] | None, typer.Option("--label", help='Such as "gpu" or "region=eu"; may be repeated.')]
Capacity = Annotated[int | None, typer.Option("--capacity", help="Jobs at a time, 1 to 256.")]
Types = Annotated[
    list[str] | None, typer.Option("--accept", help="A type of job that it takes, such as PLAN; may be repeated.")
]
Account = Annotated[
    str | None, typer.Option("--service-account", help="Name, client id or id of the account it signs in with.")
]
AllModules = Annotated[
    bool | None, typer.Option("--all-modules/--no-all-modules", help="Whether it serves every module.")
]
Several = Annotated[
    bool | None, typer.Option("--several-instances/--one-instance", help="Whether many processes may share the record.")
]


@runner.command()
def register(
    name: Annotated[str, typer.Argument(help="A name that no other runner of the organisation has.")],
    assign: Annotated[
        list[str] | None, typer.Option("--assign", help="A group or module that it serves; may be repeated.")
    ] = None,
    label: Labels = None,
    capacity: Capacity = None,
    accept: Types = None,
    service_account: Account = None,
    all_modules: AllModules = None,
    several_instances: Several = None,
    token: Annotated[
        bool, typer.Option("--token/--no-token", help="--no-token: it signs in with its service account only.")
    ] = True,
    organization: Organization = None,
    as_json: Json = False,
) -> None:
    """Register a self-hosted runner; its id and token are printed, the token this once."""

    async def act(fleet: Fleet) -> dict[str, Any]:
        options = _options(None, label, capacity, accept, all_modules, several_instances)
        options |= {"assignments": assign} if assign else {}
        if service_account:
            options["service_account_id"] = await fleet.service_account(service_account)
        return await fleet.register(name, options, with_token=token)

    _print(_as_person(organization, act), as_json, wording.credentials)


@runner.command("list")
def list_runners(organization: Organization = None, as_json: Json = False) -> None:
    """List the runners of the organisation, and the shared ones."""
    _print(_as_person(organization, Fleet.rows), as_json, wording.table)


@runner.command()
def update(
    name: Runner,
    new_name: Annotated[str | None, typer.Option("--name", help="Another name.")] = None,
    label: Labels = None,
    no_labels: Annotated[bool, typer.Option("--no-labels", help="Take all labels away.")] = False,
    capacity: Capacity = None,
    accept: Types = None,
    accept_all: Annotated[bool, typer.Option("--accept-all", help="Take every type of job.")] = False,
    service_account: Account = None,
    no_service_account: Annotated[
        bool, typer.Option("--no-service-account", help="Sign in with its token again.")
    ] = False,
    all_modules: AllModules = None,
    several_instances: Several = None,
    organization: Organization = None,
    as_json: Json = False,
) -> None:
    """Change a runner's settings; only what is named changes, and lists replace what was there."""

    async def act(fleet: Fleet) -> dict[str, Any]:
        options = _options(new_name, label, capacity, accept, all_modules, several_instances)
        options |= {"labels": []} if no_labels else {}
        options |= {"accepted_job_types": None} if accept_all else {}
        options |= {"service_account_id": None} if no_service_account else {}
        if service_account:
            options["service_account_id"] = await fleet.service_account(service_account)
        return await fleet.act("update_worker", name, options=options)

    _print(_as_person(organization, act), as_json, wording.sentence)


@runner.command()
def assign(
    name: Runner,
    path: Annotated[str, typer.Argument(help='A group or module, such as platform/network; "" is all modules.')],
    take_away: Annotated[bool, typer.Option("--remove", help="Take the assignment away instead.")] = False,
    organization: Organization = None,
    as_json: Json = False,
) -> None:
    """Let a runner serve a module, or all below a group."""
    _act("unassign_worker" if take_away else "assign_worker", name, organization, as_json, path=path)


@runner.command()
def drain(
    name: Runner,
    reason: Annotated[str | None, typer.Option(help="Shown with the runner until it is resumed.")] = None,
    organization: Organization = None,
    as_json: Json = False,
) -> None:
    """Let a runner finish what it runs and take nothing new."""
    _act("drain_worker", name, organization, as_json, reason=reason)


@runner.command()
def resume(name: Runner, organization: Organization = None, as_json: Json = False) -> None:
    """Let a drained runner take jobs again."""
    _act("resume_worker", name, organization, as_json)


@runner.command()
def disable(name: Runner, organization: Organization = None, as_json: Json = False) -> None:
    """Give a runner no new jobs; it stays connected."""
    _act("set_worker_disabled", name, organization, as_json, disabled=True)


@runner.command()
def enable(name: Runner, organization: Organization = None, as_json: Json = False) -> None:
    """Give a disabled runner jobs again."""
    _act("set_worker_disabled", name, organization, as_json, disabled=False)


@runner.command()
def rotate(
    name: Runner,
    overlap: Annotated[int, typer.Option(help="Seconds for which the old token works on.")] = 86400,
    organization: Organization = None,
    as_json: Json = False,
) -> None:
    """Give a runner a new token, printed this once."""
    _print(_as_person(organization, lambda fleet: fleet.rotate(name, overlap)), as_json, wording.credentials)


@runner.command()
def remove(
    name: Runner,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    organization: Organization = None,
    as_json: Json = False,
) -> None:
    """Remove a runner: its sessions end, and what it ran is handled as if it were lost. One in your cloud is taken down by a job."""
    if not yes and not typer.confirm(f"Remove {name}? Its token is void at once."):
        raise typer.Exit(1)
    after = _as_person(organization, lambda fleet: fleet.remove(name))
    _print(after, as_json, wording.sentence)


@service_account.command()
def create(
    name: Annotated[str, typer.Argument(help="A name that no other account of the organisation has.")],
    path: Annotated[
        str, typer.Option(help="The group it serves, with all below; none is the whole organisation.")
    ] = "",
    issuer: Annotated[str | None, typer.Option(help="Trust this OIDC issuer instead of making a secret.")] = None,
    audience: Annotated[str | None, typer.Option(help="The audience that the issuer's tokens must have.")] = None,
    claim: Annotated[
        list[str] | None, typer.Option("--claim", help="name=value that such a token must have; may be repeated.")
    ] = None,
    organization: Organization = None,
    as_json: Json = False,
) -> None:
    """Make a service account; its client id is printed, and its secret this once."""
    spec: dict[str, Any] = {"name": name, "path": path}
    if issuer:
        spec |= {"issuer": issuer, "audience": audience, "bound_claims": dict(_claim(text) for text in claim or ())}

    async def act(fleet: Fleet) -> dict[str, Any]:
        return await fleet.add_service_account(spec, with_secret=not issuer)

    _print(_as_person(organization, act), as_json, wording.account)


@shared.command()
def apply(
    file: Annotated[
        Path, typer.Argument(help="TOML with a [[shared_runners]] table for each; see docs/runner/shared.md.")
    ],
    rotate: Annotated[
        list[str] | None, typer.Option("--rotate", help="Give this one a new token; may be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make, change and remove shared runners until they are as the file says; tokens of new ones are printed once."""
    wanted = read_configuration(file)

    async def act() -> list[Outcome]:
        async with installation() as api:
            return await apply_configuration(api, wanted, frozenset(rotate or ()))

    _print([asdict(outcome) for outcome in asyncio.run(act())], as_json, wording.outcomes)


def _as_person(organization: str | None, act: Callable[[Fleet], Awaitable[T]]) -> T:
    async def run() -> T:
        async with signed_in() as person:
            return await act(await Fleet.of(person, organization))

    return asyncio.run(run())


def _act(function: str, name: str, organization: str | None, as_json: bool, **arguments: Any) -> None:
    after = _as_person(organization, lambda fleet: fleet.act(function, name, **arguments))
    _print(after, as_json, wording.sentence)


def _options(
    name: str | None,
    labels: list[str] | None,
    capacity: int | None,
    types: list[str] | None,
    all_modules: bool | None,
    several: bool | None,
) -> dict[str, Any]:
    given = {
        "name": name,
        "labels": labels,
        "capacity": capacity,
        "accepted_job_types": types,
        "is_assigned_to_all_modules": all_modules,
        "allow_multiple_instances": several,
    }
    return {key: value for key, value in given.items() if value is not None and value != []}


def _claim(text: str) -> tuple[str, str]:
    name, is_pair, value = text.partition("=")
    if not is_pair:
        raise typer.BadParameter(f'"{text}" is not name=value', param_hint="--claim")
    return name, value


def _print(value: T, as_json: bool, describe: Callable[[T], str]) -> None:
    typer.echo(json.dumps(value, indent=2) if as_json else describe(value))
