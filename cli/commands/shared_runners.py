"""`runyard shared-runners`: the installation's own runners, from a file, with the secret key."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from cli.command import Here, command, new_app, one_of
from cli.runners import wording

app = new_app(
    "The installation's own runners, from a file. It needs SUPABASE_URL and SUPABASE_SECRET_KEY, which "
    'eval "$(runyard env)" sets for the local stack.'
)

ACTIONS = ("drain", "resume", "disable", "enable", "end-sessions")


@command(app, "list")
def list_shared(here: Here) -> None:
    """List the shared runners."""
    rows = here.operator.all_rows("workers", is_shared="is.true", removed_at="is.null", order="name")
    here.printer.rows(rows, ("name", "status", "version", "capacity", "labels", "id"), "No shared runners.")


@command(app, "apply", calls=("ensure_shared_worker", "remove_shared_worker"))
def apply(
    here: Here,
    file: Annotated[Path, Argument(help="TOML with a [[shared_runners]] table for each; see docs/runner/shared.md.")],
    rotate: Annotated[list[str] | None, Option("--rotate", help="Give this one a new token; may be repeated.")] = None,
) -> None:
    """Make, change and remove shared runners until they are as the file says; tokens of new ones are printed once."""
    from cli.runners.shared import apply_configuration, read_configuration

    wanted = read_configuration(file)
    done = apply_configuration(here.operator, wanted, frozenset(rotate or ()))
    here.printer.result([asdict(outcome) for outcome in done], wording.outcomes)


@command(app, "set", calls=("set_shared_worker",))
def set_shared(
    here: Here,
    name: Annotated[str, Argument(help="The shared runner's name.")],
    action: Annotated[str, Argument(help=", ".join(ACTIONS))],
    reason: Annotated[str | None, Option("--reason", help="Shown with the runner.")] = None,
) -> None:
    """Drain, resume, disable or enable a shared runner, or end its sessions."""
    one_of(action, ACTIONS, '"{}" is not an action for shared runners.')
    done = here.operator.call("set_shared_worker", name=name, action=action.replace("-", "_"), reason=reason)
    here.printer.result(done, lambda _: f"{name}: {action}")
