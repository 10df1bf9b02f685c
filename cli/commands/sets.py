"""`runyard groups plan|apply|destroy|drift|progress|review|confirm|why|cancel|retry`: all modules below a group, as one thing."""

import time
from typing import Annotated, Any

import typer
from typer import Argument, Option

from cli.command import Here, Yes, command, new_app, with_id
from cli.errors import ExitCode
from cli.jobs.follow import call_keyed, patiently
from cli.output import say

app = new_app("Many jobs as one thing.")
Path = Annotated[str, Argument(metavar="PATH", help='A group, such as platform/network; "" is all modules.')]
Set = Annotated[str | None, Argument(metavar="SET", help="Its id; the newest if it is left out.")]
Wait = Annotated[bool, Option("--wait", help="Until all are done; exits with 20 if some failed.")]
Key = Annotated[str | None, Option("--key", help="A second request with it starts nothing new.")]
PAGE = "Modules → Group"
POLL_EVERY_SECONDS = 2.0
WORDS = {"PLAN": "Plan all", "DRIFT": "Check all for drift", "APPLY": "Apply all", "DESTROY": "Destroy all"}


@command(app, "plan", calls=("start_set",), page=f"{PAGE} → Plan all")
def plan(here: Here, path: Path, wait: Wait = False, key: Key = None) -> None:
    """Plan all modules below a group."""
    _start(here, "PLAN", path, wait, key)


@command(app, "apply", calls=("start_set",), page=f"{PAGE} → Apply all in order")
def apply(here: Here, path: Path, wait: Wait = False, key: Key = None, yes: Yes = False) -> None:
    """Apply all modules below a group, each after what it depends on."""
    here.confirm(f"Apply all modules below {path or 'everything'}?", yes)
    _start(here, "APPLY", path, wait, key)


@command(app, "destroy", calls=("start_set",), page=f"{PAGE} → Destroy all")
def destroy(here: Here, path: Path, wait: Wait = False, key: Key = None, yes: Yes = False) -> None:
    """Destroy what all modules below a group have made, each before what it depends on."""
    here.confirm(f"Destroy what all modules below {path or 'everything'} have made?", yes)
    _start(here, "DESTROY", path, wait, key)


@command(app, "drift", calls=("start_set",), page=f"{PAGE} → Check all for drift")
def drift(here: Here, path: Path, wait: Wait = False, key: Key = None) -> None:
    """Check all modules below a group for drift."""
    _start(here, "DRIFT", path, wait, key)


@command(app, "sets", calls=("list_sets",), page=PAGE)
def sets(here: Here, path: Annotated[str | None, Option("--path", help="Of this group alone.")] = None) -> None:
    """List the sets of jobs, the running ones first."""
    rows = here.api.call("list_sets", org=here.org.id, path=path)
    columns = ("id", "type", "path", "status", "done", "total", "failed", "created_by_label", "created_at")
    here.printer.rows(rows, columns, "No sets.")


@command(app, "progress", calls=("set_progress",), page=PAGE)
def progress(here: Here, made: Set = None, wait: Wait = False) -> None:
    """Show how far a set is, and what failed."""
    _show(here, _find(here, made), wait)


@command(app, "review", calls=("set_review",), page=f"{PAGE} → Review")
def review(here: Here, made: Set = None) -> None:
    """Show the plans of a set by the steps of their order: what each changes, and whether it can be applied."""
    rows = here.api.call("set_review", org=here.org.id, set=_find(here, made))["rows"]
    columns = ("step", "module_path", "job", "changes", "state")
    here.printer.rows([{**row, **reviewed(row)} for row in rows], columns, "No jobs.")


@command(app, "confirm", calls=("confirm_set", "set_review"), page=f"{PAGE} → Review → Apply")
def confirm(
    here: Here,
    made: Set = None,
    module: Annotated[
        list[str] | None, Option("--module", metavar="PATH", help="Of this module; may be repeated.")
    ] = None,
    wait: Wait = False,
    yes: Yes = False,
) -> None:
    """Apply the plans of a set that were reviewed, in order, and approve its jobs that wait for it."""
    found = _find(here, made)
    ids = [here.org.module(path)["id"] for path in module or []]
    rows = here.api.call("set_review", org=here.org.id, set=found)["rows"]
    chosen = [row for row in rows if row["decision"] and (not ids or row["module_id"] in ids)]
    here.confirm(f"Apply or approve {', '.join(row['module_path'] for row in chosen) or 'nothing'}?", yes)
    # The reviewed ones by name: a plan that ends meanwhile was seen by nobody.
    done = here.api.call("confirm_set", set=found, modules=[row["module_id"] for row in chosen])
    if wait and done["set_id"]:
        _show(here, done["set_id"], wait)
    else:
        here.printer.result(done, confirmation)


@command(app, "why", calls=("explain_set",), page=PAGE)
def why(here: Here, made: Set = None) -> None:
    """Show which modules of a set wait for which, and which were left out."""
    here.do("explain_set", explanation, set=_find(here, made))


@command(app, "cancel", calls=("cancel_set",), page=f"{PAGE} → Cancel the rest")
def cancel(here: Here, made: Set = None) -> None:
    """Cancel what waits of a set; what runs, finishes."""
    here.do("cancel_set", sentence, set=_find(here, made))


@command(app, "retry", calls=("retry_set",), page=f"{PAGE} → Retry failed")
def retry(here: Here, made: Set = None, wait: Wait = False) -> None:
    """Retry what failed of a set."""
    found = _find(here, made)
    here.api.call("retry_set", set=found)
    _show(here, found, wait)


def _start(here: Here, kind: str, path: str, wait: bool, key: str | None) -> None:
    made = call_keyed(here.api, "start_set", {}, key, org=here.org.id, type=kind, path=path.strip("/"))
    _show(here, made["id"], wait)


def _show(here: Here, made: str, is_waiting: bool) -> None:
    def ask() -> dict[str, Any]:
        return dict(here.api.call("set_progress", set=made))

    now = patiently(ask) if is_waiting else ask()
    said = ""
    while is_waiting and now["status"] == "RUNNING":
        if sentence(now) != said and not here.printer.as_json:
            said = sentence(now)
            say(said)
        time.sleep(POLL_EVERY_SECONDS)
        now = patiently(ask)
    here.printer.result(now, _details)
    if is_waiting and now["failed"] + now["left_out"]:
        raise typer.Exit(ExitCode.JOB_FAILED)


def sentence(row: dict[str, Any]) -> str:
    """A set's progress in one line."""
    failed = f", {row['failed']} failed" if row["failed"] else ""
    left_out = f", {row['left_out']} left out" if row.get("left_out") else ""
    left_out += f", {row['waiting_for_apply']} wait for an apply" if row.get("waiting_for_apply") else ""
    what = WORDS.get(row["type"], row["type"])
    where = f"by {row['created_by_label']}" if row.get("cause_job_id") else f"below {row['path'] or 'all'}"
    return f"{row['id']}  {what} {where}: {row['done']} of {row['total']} done{failed}{left_out}"


def explanation(found: dict[str, Any]) -> str:
    """Explain what each module of a set waits for, and which were left out, a line for each."""
    lines = [f"{row['module_path']} waits for {_befores(row['waits_for'])}" for row in found["waiting"]]
    lines += [f"{row['module_path']}: {row['message']}" for row in found["waiting_for_apply"]]
    lines += [f"{row['module_path']} is left out. {row['message']}" for row in found["left_out"]]
    return "\n".join(lines) or "No module of this set waits for another."


def reviewed(row: dict[str, Any]) -> dict[str, str]:
    """Describe the changes of a plan of a set, and whether it can be applied."""
    counts = row["counts"]
    changes = f"+{counts['create']} ~{counts['update']} ±{counts['replace']} -{counts['delete']}"
    decisions = {"apply": "can be applied", "approve": "waits for approval"}
    state = decisions.get(row["decision"]) or row["message"] or ("preview" if row["is_preview"] else "")
    number = row["apply_number"] or row["job_number"]
    return {
        "job": f"#{number}" if number else "-",
        "changes": changes if row["has_changes"] else "none" if row["status"] == "SUCCEEDED" else "",
        "state": state or str(row["apply_status"] or row["status"] or "waits for its turn"),
    }


def confirmation(done: dict[str, Any]) -> str:
    """Describe the result of a confirmation, with the modules that it refused."""
    lines = [f"{done['applying']} plans are applied, {done['approved']} jobs are approved."]
    return "\n".join(lines + [f"{one['module_path']}: {one['message']}" for one in done["refused"]])


def _befores(rows: list[dict[str, Any]]) -> str:
    named = (
        f"{row['module_path']} (#{row['job_number']} {row['status']})" if row["job_number"] else row["module_path"]
        for row in rows
    )
    return ", ".join(named) or "its turn"


def _details(row: dict[str, Any]) -> str:
    failures = [f"  #{one['job_number'] or '-'}  {one['module_path']}  {one['message']}" for one in row["failures"]]
    return "\n".join([sentence(row), *failures])


def _find(here: Here, text: str | None) -> str:
    rows = here.api.call("list_sets", org=here.org.id, limit=100)
    newest = max((str(row["created_at"]) for row in rows), default="")
    chosen = rows if text else [row for row in rows if row["created_at"] == newest]
    return str(with_id(chosen, text or (chosen[0]["id"] if chosen else ""), "set", "groups sets")["id"])
