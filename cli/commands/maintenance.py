"""`runyard maintenance`: for a while no runner takes a job."""

from typing import Annotated, Any

from typer import Argument, Option

from cli.command import Here, command, moment, new_app

app = new_app(
    "Keep an organisation's jobs waiting for a while, or those of all with the secret key; running jobs finish."
)
Installation = Annotated[bool, Option("--installation", help="For every organisation, with SUPABASE_SECRET_KEY.")]


@command(app, "show", calls=("maintenance",), page="Settings → General")
def show(here: Here) -> None:
    """Show whether maintenance keeps the organisation's jobs waiting."""
    here.do("maintenance", _sentence, org=here.org.id)


@command(app, "start", calls=("set_maintenance", "set_installation_maintenance"), page="Settings → General")
def start(
    here: Here,
    how_long: Annotated[str, Argument(metavar="TIME", help="Such as 30m, 2h or 1d, or a time like 2030-01-31T08:00Z.")],
    reason: Annotated[str, Option("--reason", help="Shown with every job that waits.")],
    installation: Installation = False,
) -> None:
    """Let jobs wait until then."""
    _set(here, moment(how_long, is_ahead=True), reason, installation)


@command(app, "end", calls=("set_maintenance", "set_installation_maintenance"), page="Settings → General")
def end(here: Here, installation: Installation = False) -> None:
    """End the maintenance at once."""
    _set(here, None, None, installation)


def _set(here: Here, until: str | None, reason: str | None, is_for_all: bool) -> None:
    if is_for_all:
        after = here.operator.call("set_installation_maintenance", until=until, reason=reason)
    else:
        after = here.api.call("set_maintenance", org=here.org.id, until=until, reason=reason)
    here.printer.result(after["maintenance"], _sentence)


def _sentence(now: dict[str, Any] | None) -> str:
    return f"Until {now['until']}: {now['reason']}" if now else "No maintenance."
