"""`runyard rollouts`: updating the outdated runners in waves."""

from typing import Annotated, Any

from typer import Argument, Option

from cli.client.organization import is_id
from cli.command import Here, Yes, command, new_app
from cli.errors import NotFound, Usage

app = new_app("Updating the outdated runners in waves.")
Rollout = Annotated[str | None, Argument(metavar="ROLLOUT", help="Its id; the newest if it is left out.")]
COLUMNS = ("id", "version", "status", "wave", "reason", "created_at", "finished_at")
PAGE = "Runners → Rollout"
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


@command(app, "list", page=PAGE)
def list_rollouts(here: Here) -> None:
    """List the rollouts, the newest first."""
    rows = here.api.all_rows("rollouts", org_id=f"eq.{here.org.id}", order="created_at.desc")
    here.printer.rows(rows, COLUMNS, "No rollouts.")


@command(app, "start", calls=("update_outdated_workers",), page="Runners → Update outdated")
def start(here: Here) -> None:
    """Update every outdated runner that a job can update: one, then a quarter, then the rest."""
    made = here.api.call("update_outdated_workers", org=here.org.id)
    here.printer.result(made, lambda row: f"Rollout {row.get('id')}  {row.get('version')}  {row.get('status')}")


@command(app, "pause", calls=("pause_rollout",), page=f"{PAGE} → Pause")
def pause(here: Here, rollout: Rollout = None) -> None:
    """Start no further wave; queued updates continue."""
    _act(here, "pause_rollout", rollout)


@command(app, "resume", calls=("resume_rollout",), page=f"{PAGE} → Resume")
def resume(here: Here, rollout: Rollout = None) -> None:
    """Go on with a paused rollout."""
    _act(here, "resume_rollout", rollout)


@command(app, "abort", calls=("abort_rollout",), page=f"{PAGE} → Abort")
def abort(here: Here, rollout: Rollout = None, yes: Yes = False) -> None:
    """End a rollout and cancel its queued jobs; runners that were updated stay updated."""
    here.confirm("End the rollout?", yes)
    _act(here, "abort_rollout", rollout)


@command(app, "policy", calls=("update_policy", "set_update_policy"), page="Runners → Versions")
def policy(
    here: Here,
    mode: Annotated[str | None, Argument(metavar="MODE", help="off, window or now; shows it if left out.")] = None,
    days: Annotated[str | None, Option("--days", help="When a window begins, such as sat,sun.")] = None,
    hours: Annotated[str | None, Option("--hours", help="Such as 02:00-05:00.")] = None,
    zone: Annotated[str | None, Option("--zone", help="Such as Europe/Lisbon.")] = None,
) -> None:
    """Show or set when outdated runners update automatically."""
    spec = _policy(mode, days, hours, zone)
    if spec:
        after = here.api.call("set_update_policy", org=here.org.id, spec=spec)
    else:
        after = here.api.call("update_policy", org=here.org.id)
    here.printer.row(after, ("mode", "days", "begins_at", "ends_at", "zone", "next_window", "version", "outdated"))


def _policy(mode: str | None, days: str | None, hours: str | None, zone: str | None) -> dict[str, Any]:
    spec: dict[str, Any] = {"mode": mode.upper()} if mode else {}
    if days:
        names = days.lower().replace(" ", "").split(",")
        if unknown := [name for name in names if name[:3] not in DAYS]:
            raise Usage(f'"{unknown[0]}" is not a day.', "Write days as sat,sun.")
        spec["days"] = [DAYS.index(name[:3]) for name in names]
    if hours:
        begins, _, ends = hours.partition("-")
        spec |= {"begins_at": begins.strip(), "ends_at": ends.strip()}
    return spec | ({"zone": zone} if zone else {})


def _act(here: Here, function: str, rollout: str | None) -> None:
    wanted = {"id": f"eq.{rollout}"} if rollout and is_id(rollout) else {}
    found = here.api.rows("rollouts", org_id=f"eq.{here.org.id}", order="created_at.desc", limit="1", **wanted)
    if not found or (rollout and not wanted):
        raise NotFound(f"There is no rollout {rollout or ''}".rstrip() + ".", "`runyard rollouts start` begins one.")
    here.do(function, "Rollout {id}  {status}", rollout=found[0]["id"])
