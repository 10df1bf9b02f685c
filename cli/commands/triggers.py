"""`runyard triggers`: pushes, pull requests and schedules that start jobs."""

from typing import Annotated, Any

from typer import Argument, Option

from cli.command import Here, command, new_app, one_of

app = new_app("Pushes, pull requests and schedules that start jobs.")
KINDS = {"push": "push", "pull-request": "pull_request", "schedule": "schedule"}
COLUMNS = ("kind", "path", "is_on", "when", "apply", "last_at", "last_result", "job", "reason")
PAGE = 200


@command(app, "triggers", calls=("list_triggers",), page="Jobs → Schedules")
def triggers(
    here: Here,
    search: Annotated[str | None, Argument(help="Part of a module, group or repository.")] = None,
    kind: Annotated[str | None, Option("--kind", help="push, pull-request or schedule.")] = None,
) -> None:
    """List pushes, pull requests and schedules that start jobs, with the last event of each; with --json for programs."""
    problem = 'There are no triggers of the kind "{}".'
    filters = {} if kind is None else {"kind": [KINDS[one_of(kind, KINDS, problem)]]}
    rows = here.api.listed("list_triggers", PAGE, org=here.org.id, search=search, filters=filters)
    here.printer.rows(rows if here.printer.as_json else [line(row) for row in rows], COLUMNS, "No triggers.")


def line(row: dict[str, Any]) -> dict[str, Any]:
    """Reduce a trigger to what the table shows: when it starts jobs, and what its last event led to."""
    if row["kind"] == "schedule":
        run = row.get("last_run") or {}
        when, result, at = f"{row['words']}, {row['zone']}", run.get("status"), run.get("created_at")
        job, reason = row.get("job_number"), row.get("last_note")
    else:
        last, way = row.get("last") or {}, "to" if row["kind"] == "push" else "into"
        when, result, at = (
            f"{way} {row.get('branch') or 'the default branch'}",
            last.get("verdict"),
            last.get("received_at"),
        )
        job, reason = last.get("job_number"), last.get("reason")
    names = {label: key for key, label in KINDS.items()}
    return {
        "kind": names[row["kind"]], "path": row["path"], "is_on": row["is_on"], "when": when, "apply": row.get("apply"),
        "last_at": at, "last_result": result, "job": job, "reason": reason,
    }  # fmt: skip
