"""`runyard jobs`: list, show, follow, decide."""

import json
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from cli.client.organization import Row
from cli.command import Here, Wait, Yes, command, new_app, one_of
from cli.jobs.follow import Follower, describe
from cli.jobs.plan import change_lines, plan_lines
from cli.jobs.waiting import leave
from cli.output import plain, say

app = new_app("List, show, follow, approve, cancel and retry jobs.")

Job = Annotated[str, Argument(metavar="JOB", help="The job's number.")]
Comment = Annotated[str | None, Option("--comment", help="Shown with the decision.")]
LISTED = "id,number,type,status,phase,module_path,worker_name,created_by_label,created_at,started_at,finished_at,error"
COLUMNS = ("number", "type", "status", "module_path", "worker_name", "created_by_label", "created_at")
CUT = ("module_path", "worker_name", "created_by_label")
SHOWN = (
    "number", "type", "status", "phase", "module_path", "message", "worker_name", "instance_name", "attempt", "created_by_label",
    "created_at", "queued_at", "started_at", "finished_at", "approvals_required", "approvals_received", "cancel_kind",
)  # fmt: skip
KINDS = {"after-step": "AFTER_STEP", "graceful": "GRACEFUL", "kill": "KILL"}
RUNNING = ("CLAIMED", "PROCESSING")
STATUSES = ("AWAITING_APPROVAL", "QUEUED", *RUNNING, "SUCCEEDED", "FAILED", "CANCELLED", "NEEDS_ATTENTION")
TYPES = (
    "PLAN", "APPLY", "DESTROY", "OUTPUT", "DRIFT", "STATE", "RESOLVE", "DEPLOY_WORKER", "UPDATE_WORKER", "REMOVE_WORKER",
    "VERIFY_IDENTITY", "POLICY_TEST",
)  # fmt: skip
RESOLUTIONS = ("refresh-plan", "retry", "mark-failed", "release-lock")


@command(app, "list", page="Jobs")
def list_jobs(
    here: Here,
    status: Annotated[list[str] | None, Option("--status", help="Such as QUEUED or FAILED; may be repeated.")] = None,
    module: Annotated[str | None, Option("--module", help="Only this module's.")] = None,
    kind: Annotated[str | None, Option("--type", help="Such as PLAN.")] = None,
    limit: Annotated[int, Option("--limit", min=1, max=1000, help="How many of the newest.")] = 30,
) -> None:
    """List the newest jobs; a plan and the apply that follows it are one."""
    filters = {"is_followed": "is.false", "order": "id.desc", "limit": str(limit), "select": LISTED}
    if status:
        wanted = [one_of(each.upper(), STATUSES, '"{}" is not a status of a job.') for each in status]
        filters["status"] = f"in.({','.join(wanted)})"
    if kind:
        filters["type"] = "eq." + one_of(kind.upper(), TYPES, '"{}" is not a type of job.')
    filters["org_id"] = f"eq.{here.org.id}"
    if module:
        filters["module_id"] = f"eq.{here.org.module(module)['id']}"
    here.printer.rows(here.api.rows("provision_jobs", **filters), COLUMNS, "No jobs match.", cut=CUT)


@command(app, "show", calls=("job_by_number",), page="Job")
def show(here: Here, job: Job) -> None:
    """Show a job with its plan and its apply, and what the plan changes."""
    phases = here.org.run(job)
    here.printer.row({**phases[-1], "phases": phases} if here.printer.as_json else phases[-1], SHOWN)
    if here.printer.as_json:
        return
    if phases[-1]["slimmed_at"]:
        say("Its source, steps, plan and outputs were removed 90 days after it ended.")
    print(plain("\n".join(_phase(each) for each in phases)))
    if summary := phases[-1]["plan_summary"] or phases[0]["plan_summary"]:
        print(plain("\n".join(plan_lines(summary))))


@command(app, "changes", calls=("plan_changes",), page="Job → Plan")
def changes(
    here: Here, job: Job, resource: Annotated[str | None, Option("--resource", help="Only this address.")] = None
) -> None:
    """Show what a job's plan changes, attribute by attribute; sensitive values are masked."""
    here.do("plan_changes", lambda value: "\n".join(change_lines(value)), job=here.org.job(job)["id"], address=resource)


@command(app, "comment", calls=("comment_on_job",), page="Job → Comments")
def comment(here: Here, job: Job, text: Annotated[str, Argument(help="The comment.")]) -> None:
    """Comment on a job for all its viewers."""
    row = here.org.job(job)
    here.do("comment_on_job", lambda _: f"Comment added to job {row['number']}.", job=row["id"], body=text)


@command(app, "logs", page="Job → Log")
def logs(
    here: Here,
    job: Job,
    follow_it: Annotated[
        bool, Option("--follow", "-f", help="Until the job has ended; the exit code shows how.")
    ] = False,
    attempt: Annotated[int | None, Option("--attempt", help="An earlier attempt's log.")] = None,
) -> None:
    """Print a job's log: the plan's, then the apply's."""
    *earlier, row = here.org.run(job)
    for phase in earlier if attempt is None else ():
        _print_log(here, phase, phase["attempt"], is_headed=True)
    if follow_it:
        leave(here, [row])
    _print_log(here, row, attempt or row["attempt"], is_headed=bool(earlier))


@command(app, "cancel", calls=("cancel_job",), page="Job → Cancel")
def cancel(
    here: Here,
    job: Job,
    kind: Annotated[str, Option("--kind", help="after-step, graceful or kill.")] = "graceful",
    reason: Annotated[str | None, Option("--reason", help="Shown with the job.")] = None,
) -> None:
    """Cancel a job: one that waits at once, one that runs after the step, gracefully, or now."""
    one_of(kind, KINDS, '"{}" is no way to stop a job.')
    row = here.org.job(job)
    here.do("cancel_job", _sentence, job=row["id"], kind=KINDS[kind], reason=reason)


@command(app, "approve", calls=("approve_job",), page="Job → Approve")
def approve(
    here: Here,
    job: Job,
    comment: Comment = None,
    override: Annotated[
        str | None, Option("--override-reason", help="An owner who is alone approves their own job, and says why.")
    ] = None,
    yes: Yes = False,
    wait: Wait = False,
) -> None:
    """Show what a job would change, and approve it."""
    row = here.org.job(job)
    summary = _planned(here, row)
    if not here.printer.as_json:
        why = [f"  Message: {row['message']}"] if row["message"] else []
        plan = plan_lines(summary) if summary else ["  No plan was saved for it."]
        say("\n".join([_sentence(row), *why, *plan]))
        say(f"  `runyard jobs changes {row['number']}` shows each attribute.")
    here.confirm(f"Approve job {row['number']}?", yes)
    after = here.api.call("approve_job", job=row["id"], decision="approve", comment=comment, override_reason=override)
    _end(here, after, wait)


@command(app, "reject", calls=("approve_job",), page="Job → Reject")
def reject(here: Here, job: Job, comment: Comment = None) -> None:
    """Reject a job that waits for approval, or a plan that nobody has applied: the plan is never applied."""
    here.do("approve_job", _sentence, job=here.org.job(job)["id"], decision="reject", comment=comment)


@command(app, "retry", calls=("retry_job",), page="Job → Retry")
def retry(
    here: Here,
    job: Job,
    reason: Annotated[str | None, Option("--reason", help="Shown with the new job.")] = None,
    wait: Wait = False,
) -> None:
    """Queue a failed or cancelled job again, as a new job with what the old one had."""
    _end(here, here.api.call("retry_job", job=here.org.job(job)["id"], reason=reason), wait)


@command(app, "resolve", calls=("resolve_attention",), page="Job → Needs attention")
def resolve(
    here: Here,
    job: Job,
    action: Annotated[str, Argument(help=", ".join(RESOLUTIONS))],
    proof: Annotated[str | None, Option("--proof", help="For release-lock: the lock's id.")] = None,
) -> None:
    """Decide about a job whose runner was lost while it changed infrastructure."""
    one_of(action, RESOLUTIONS, '"{}" is not a decision.')
    row = here.org.job(job)
    here.do("resolve_attention", _sentence, job=row["id"], action=action.replace("-", "_"), proof=proof)


@command(app, "why", calls=("explain_queue",), page="Job → Why is it waiting?")
def why(here: Here, job: Job) -> None:
    """Explain why a job waits: for which runners, and what would help."""
    here.do("explain_queue", _explanation, job=here.org.job(job)["id"])


@command(app, "events", page="Job → Timeline")
def events(
    here: Here,
    job: Job,
    export: Annotated[Path | None, Option("--export", help="Write JSON Lines to this file.")] = None,
) -> None:
    """List everything that happened to a job, from its plan to the end of its apply."""
    ids = ",".join(str(phase["id"]) for phase in here.org.run(job))
    found = here.api.all_rows("job_events", job_id=f"in.({ids})", order="id")
    if export is not None:
        export.write_text("".join(f"{json.dumps(each)}\n" for each in found))
        say(f"{len(found)} events are in {export}.")
        return
    here.printer.rows(found, ("at", "event", "from_status", "to_status", "actor_label", "reason"))


def _end(here: Here, row: Row, wait: bool) -> None:
    if not wait:
        here.printer.result(row, _sentence)
        return
    leave(here, [row])


def _planned(here: Here, row: Row) -> dict[str, Any] | None:
    if row["plan_job_id"] is None:
        return None
    found = here.api.rows("provision_jobs", id=f"eq.{row['plan_job_id']}", select="plan_summary")
    return found[0]["plan_summary"] if found else None


def _phase(row: Row) -> str:
    where = f" on {row['worker_name']}" if row["worker_name"] and row["status"] not in RUNNING else ""
    return f"  {row['type'].capitalize()}{where}: {describe(row)}"


def _print_log(here: Here, row: Row, attempt: int, *, is_headed: bool) -> None:
    if is_headed:
        where = f" on {row['worker_name']}" if row["worker_name"] else ""
        print(f"--- {row['type'].capitalize()} of job {row['number']}{where} ---", flush=True)
    Follower(here.api, int(row["id"])).print_log(row, attempt)


def _sentence(row: Row) -> str:
    return f"job {row['number']}  {row['type']} {row.get('module_path') or ''}  {row['status']}"


def _explanation(answer: dict[str, Any]) -> str:
    lines = [answer["summary"], answer["help"]] if answer["help"] else [answer["summary"]]
    if answer["position"]:
        lines.append(f"It is number {answer['position']} in line.")
    lines += [
        f"  {each['name']} ({each['status']}): {each['reason']} {each['help'] or ''}".rstrip()
        for each in answer["runners"]
    ]
    return "\n".join(lines)
