"""`runyard schedules`: jobs that start by the clock."""

from typing import Annotated, Any

from typer import Argument, Option

from cli.command import Here, Yes, command, given, new_app, with_id
from cli.errors import Usage

app = new_app("Jobs that start on a schedule.")
Schedule = Annotated[str, Argument(metavar="SCHEDULE", help="Its id, or as much of its beginning as is needed.")]
Target = Annotated[str, Argument(metavar="PATH", help='A module or group, such as platform/network; "" is all.')]
Cron = Annotated[str, Argument(metavar="CRON", help='Such as "30 7 * * 1-5" for weekdays at 07:30.')]
Zone = Annotated[str, Option("--zone", help="Such as Europe/Lisbon.")]
PAGE = "Jobs → Schedules"
COLUMNS = ("id", "is_on", "type", "path", "words", "zone", "next_local", "last_result")


@command(app, "list", calls=("list_schedules",), page=PAGE)
def list_schedules(
    here: Here,
    path: Annotated[str | None, Option("--path", help="Those of this module or group, and above it.")] = None,
) -> None:
    """List the schedules: when each is next due, and how its last run went."""
    rows = here.api.call("list_schedules", org=here.org.id, path=path)
    here.printer.rows([row | {"last_result": _last(row)} for row in rows], COLUMNS, "No schedules.")


@command(app, "preview", calls=("preview_schedule",), page=f"{PAGE} → Create schedule")
def preview(here: Here, cron: Cron, zone: Zone = "UTC") -> None:
    """Show in words when that is, and the next five times."""
    here.do("preview_schedule", _times, org=here.org.id, cron=cron, zone=zone)


@command(app, "create", calls=("create_schedule",), page=f"{PAGE} → Create schedule")
def create(
    here: Here,
    operation: Annotated[str, Argument(metavar="OPERATION", help="drift, plan, apply or destroy.")],
    path: Target,
    cron: Cron,
    zone: Zone = "UTC",
) -> None:
    """Start jobs for a module, or for all modules below a group, at these times."""
    spec = {"type": _operation(operation), "path": path.strip("/"), "cron": cron, "zone": zone}
    here.do("create_schedule", _sentence, org=here.org.id, spec=spec)


@command(app, "set", calls=("update_schedule",), page=f"{PAGE} → Edit")
def set_schedule(
    here: Here,
    schedule: Schedule,
    cron: Annotated[str | None, Option("--cron", help="When.")] = None,
    zone: Annotated[str | None, Option("--zone", help="Such as Europe/Lisbon.")] = None,
    path: Annotated[str | None, Option("--path", help="Another module or group.")] = None,
    operation: Annotated[str | None, Option("--operation", help="drift, plan, apply or destroy.")] = None,
) -> None:
    """Change what is named."""
    kind = _operation(operation) if operation else None
    _update(here, schedule, given(cron=cron, zone=zone, path=path, type=kind))


@command(app, "off", calls=("update_schedule",), page=f"{PAGE} → Off")
def off(here: Here, schedule: Schedule, reason: Annotated[str | None, Option("--reason", help="Why.")] = None) -> None:
    """Turn it off until it is turned on again."""
    _update(here, schedule, {"is_on": False, "reason": reason})


@command(app, "on", calls=("update_schedule",), page=f"{PAGE} → On")
def on(here: Here, schedule: Schedule) -> None:
    """Turn it on again, from its next time."""
    _update(here, schedule, {"is_on": True})


@command(app, "run", calls=("run_schedule",), page=f"{PAGE} → Run now")
def run(here: Here, schedule: Schedule) -> None:
    """Run it now; its next time stays as it is."""
    here.do("run_schedule", "Set {id}  {total} jobs", schedule=_find(here, schedule)["id"])


@command(app, "remove", calls=("remove_schedule",), page=f"{PAGE} → Remove")
def remove(here: Here, schedule: Schedule, yes: Yes = False) -> None:
    """Remove a schedule; its jobs stay."""
    found = _find(here, schedule)
    here.confirm(f"Remove the schedule of {found['path'] or 'all modules'}?", yes)
    here.do("remove_schedule", "Removed {id}", schedule=found["id"])


def _update(here: Here, schedule: str, spec: dict[str, Any]) -> None:
    here.do("update_schedule", _sentence, schedule=_find(here, schedule)["id"], spec=spec)


def _find(here: Here, text: str) -> dict[str, Any]:
    return with_id(here.api.call("list_schedules", org=here.org.id), text, "schedule", "schedules list")


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
