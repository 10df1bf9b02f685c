"""`runyard schedules`: jobs that start by the clock."""

from typing import Annotated, Any

import typer

from cli.command import Here, command, new_app
from cli.errors import NotFound, Usage

app = new_app("Jobs that start on a schedule.")
Schedule = Annotated[str, typer.Argument(metavar="SCHEDULE", help="Its id, or as much of its beginning as is needed.")]
Target = Annotated[str, typer.Argument(metavar="PATH", help='A module or group, such as platform/network; "" is all.')]
Cron = Annotated[str, typer.Argument(metavar="CRON", help='Such as "30 7 * * 1-5" for weekdays at 07:30.')]
Zone = Annotated[str, typer.Option("--zone", help="Such as Europe/Lisbon.")]
PAGE = "Settings → Triggers"
COLUMNS = ("id", "is_on", "type", "path", "words", "zone", "next_local", "last_result")


@command(app, "list", calls=("list_schedules",), page=PAGE)
def list_schedules(
    here: Here,
    path: Annotated[str | None, typer.Option("--path", help="Those of this module or group, and above it.")] = None,
) -> None:
    """List the schedules: when each is next due, and how its last run went."""
    rows = here.api.call("list_schedules", org=here.org.id, path=path)
    here.printer.rows([row | {"last_result": _last(row)} for row in rows], COLUMNS, "No schedules.")


@command(app, "preview", calls=("preview_schedule",), page=f"{PAGE} → Create schedule")
def preview(here: Here, cron: Cron, zone: Zone = "UTC") -> None:
    """Show in words when that is, and the next five times."""
    here.printer.result(here.api.call("preview_schedule", org=here.org.id, cron=cron, zone=zone), _times)


@command(app, "create", calls=("create_schedule",), page=f"{PAGE} → Create schedule")
def create(
    here: Here,
    operation: Annotated[str, typer.Argument(metavar="OPERATION", help="drift, plan, apply or destroy.")],
    path: Target,
    cron: Cron,
    zone: Zone = "UTC",
) -> None:
    """Start jobs for a module, or for all modules below a group, at these times."""
    spec = {"type": _operation(operation), "path": path.strip("/"), "cron": cron, "zone": zone}
    here.printer.result(here.api.call("create_schedule", org=here.org.id, spec=spec), _sentence)


@command(app, "set", calls=("update_schedule",), page=f"{PAGE} → Edit")
def set_schedule(
    here: Here,
    schedule: Schedule,
    cron: Annotated[str | None, typer.Option("--cron", help="When.")] = None,
    zone: Annotated[str | None, typer.Option("--zone", help="Such as Europe/Lisbon.")] = None,
    path: Annotated[str | None, typer.Option("--path", help="Another module or group.")] = None,
    operation: Annotated[str | None, typer.Option("--operation", help="drift, plan, apply or destroy.")] = None,
) -> None:
    """Change what is named."""
    kind = _operation(operation) if operation else None
    given = {"cron": cron, "zone": zone, "path": path, "type": kind}
    _update(here, schedule, {name: value for name, value in given.items() if value is not None})


@command(app, "off", calls=("update_schedule",), page=f"{PAGE} → Off")
def off(
    here: Here, schedule: Schedule, reason: Annotated[str | None, typer.Option("--reason", help="Why.")] = None
) -> None:
    """Turn it off until it is turned on again."""
    _update(here, schedule, {"is_on": False, "reason": reason})


@command(app, "on", calls=("update_schedule",), page=f"{PAGE} → On")
def on(here: Here, schedule: Schedule) -> None:
    """Turn it on again, from its next time."""
    _update(here, schedule, {"is_on": True})


@command(app, "run", calls=("run_schedule",), page=f"{PAGE} → Run now")
def run(here: Here, schedule: Schedule) -> None:
    """Run it now; its next time stays as it is."""
    made = here.api.call("run_schedule", schedule=_find(here, schedule)["id"])
    here.printer.result(made, lambda row: f"Set {row['id']}  {row['total']} jobs")


@command(app, "remove", calls=("remove_schedule",), page=f"{PAGE} → Remove")
def remove(
    here: Here, schedule: Schedule, yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False
) -> None:
    """Remove a schedule; its jobs stay."""
    found = _find(here, schedule)
    here.confirm(f"Remove the schedule of {found['path'] or 'all modules'}?", yes)
    gone = here.api.call("remove_schedule", schedule=found["id"])
    here.printer.result(gone, lambda row: f"Removed {row['id']}")


def _update(here: Here, schedule: str, spec: dict[str, Any]) -> None:
    after = here.api.call("update_schedule", schedule=_find(here, schedule)["id"], spec=spec)
    here.printer.result(after, _sentence)


def _find(here: Here, text: str) -> dict[str, Any]:
    rows = here.api.call("list_schedules", org=here.org.id)
    found = [row for row in rows if row["id"].startswith(text)] if text else []
    if len(found) != 1:
        raise NotFound(f'"{text}" is not a schedule.', "`runyard schedules list` shows all schedules.")
    return dict(found[0])


def _operation(text: str) -> str:
    if text.upper() not in ("DRIFT", "PLAN", "APPLY", "DESTROY"):
        raise Usage(f'"{text}" is not an operation.', "Write drift, plan, apply or destroy.")
    return text.upper()


def _last(row: dict[str, Any]) -> str:
    run = row.get("last_run")
    if row.get("last_note") or not run:
        return row.get("last_note") or ""
    return f"{run['status']} {run['done']}/{run['total']}"


def _sentence(row: dict[str, Any]) -> str:
    when = f"next {row['next_local']}" if row["is_on"] else "off"
    return f"{row['id']}  {row['type']} {row['path'] or 'all modules'}: {row['words']}, {row['zone']}; {when}"


def _times(found: dict[str, Any]) -> str:
    return "\n".join([found["words"], *(each["local"] for each in found["next"])])
