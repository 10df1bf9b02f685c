"""`runyard events`: what happened to runners and jobs, searched."""

from datetime import UTC, datetime
from typing import Annotated, Any

from typer import Argument, Option

from cli.command import Here, command, moment, new_app, one_of

app = new_app("What happened to runners and jobs.")
COLUMNS = ("at", "kind", "event", "job_number", "module_path", "worker_name", "actor", "reason")
KINDS = ("job", "runner")
PAGE = 200


@command(app, "events", calls=("list_events",), page="Events")
def events(
    here: Here,
    search: Annotated[str | None, Argument(help="Words in the event, its reason, who, or the runner.")] = None,
    kind: Annotated[str | None, Option("--kind", help="Only of jobs, or only of runners: job or runner.")] = None,
    event: Annotated[list[str] | None, Option("--event", help="Such as lost; may be repeated.")] = None,
    runner: Annotated[str | None, Option("--runner", help="Only this runner's, and what it did to jobs.")] = None,
    job: Annotated[str | None, Option("--job", help="Only this job's.")] = None,
    since: Annotated[str, Option("--since", help="Such as 30m, 24h, 7d or 2026-11-15T12:00Z.")] = "24h",
    until: Annotated[str | None, Option("--until", help="The same.")] = None,
    limit: Annotated[int, Option("--limit", min=1, max=10_000, help="How many of the newest.")] = 50,
) -> None:
    """List what happened to runners and jobs, newest first; with --json for programs."""
    filters: dict[str, Any] = {"since": moment(since, is_ahead=False)}
    filters |= {"kind": [one_of(kind, KINDS, 'There are no events of "{}".')]} if kind is not None else {}
    filters |= {"event": event} if event else {}
    filters |= {"worker_id": here.org.runner(runner)["id"]} if runner else {}
    filters |= {"job": str(here.org.job(job)["number"])} if job else {}
    # New events would push others from one page to the next.
    filters["until"] = moment(until, is_ahead=False) if until else datetime.now(UTC).isoformat()
    rows = here.api.listed("list_events", PAGE, limit, org=here.org.id, search=search, filters=filters)
    here.printer.rows(rows, COLUMNS, "Nothing has happened in this time.")
