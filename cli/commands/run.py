"""`runyard run plan|apply|destroy|drift|output`: queue a job, and follow it."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from cli.client.organization import Row
from cli.command import Here, OnlyRunner, Wait, command, new_app
from cli.errors import Usage
from cli.jobs.follow import ENDS, call_keyed, patiently
from cli.jobs.plan import plan_lines
from cli.jobs.waiting import follow, follow_one, leave
from cli.output import say
from cli.variables.files import given_inputs

app = new_app("Queue a plan, apply, destroy, drift check or output, and follow it.")
# The most that one call of the database accepts.
MOST_AT_ONCE = 1000

Modules = Annotated[list[str] | None, Argument(metavar="MODULE…", help="Paths or ids of modules.")]
Group = Annotated[str | None, Option("--group", help="Every module at and below this path.")]
Targets = Annotated[list[str] | None, Option("--target", help="Only this resource; may be repeated.")]
Replace = Annotated[list[str] | None, Option("--replace", help="Replace this resource; may be repeated.")]
RefreshOnly = Annotated[bool, Option("--refresh-only", help="Only bring the state up to date.")]
Reason = Annotated[str | None, Option("--reason", help="Shown with the job.")]
AutoApprove = Annotated[bool, Option("--auto-approve", help="Do not ask here; approvals of others still count.")]
Review = Annotated[
    bool, Option("--review", help="Plan, and leave it to a person to confirm that plan on the job's page.")
]
Key = Annotated[str | None, Option("--key", help="The same key again queues nothing new (for pipelines).")]
Variables = Annotated[
    list[str] | None, Option("--var", help="name=value for this job alone; may be repeated. Lists and maps as JSON.")
]
COLUMNS = ("number", "type", "status", "module_path")
MODULE_FILE = "runyard.toml"
PAGE = "Module → Plan, Apply, …; New job"


@command(app, "plan", calls=("enqueue_job", "enqueue_jobs", "upload_source"), page=PAGE)
def plan(
    here: Here,
    modules: Modules = None,
    group: Group = None,
    target: Targets = None,
    replace: Replace = None,
    refresh_only: RefreshOnly = False,
    destroy: Annotated[bool, Option("--destroy", help="Plan the removal of everything.")] = False,
    runner: OnlyRunner = None,
    reason: Reason = None,
    key: Key = None,
    wait: Wait = False,
    var: Variables = None,
    module: Annotated[
        str | None, Option("--module", help="Whose code a folder is, if its runyard.toml does not name it.")
    ] = None,
) -> None:
    """Show what an apply would do; with `.` what the code on this disk would, before it is pushed."""
    options = _options(here, target, replace, refresh_only, runner, reason, var)
    options |= {"destroy": True} if destroy else {}
    folders = [each for each in modules or () if is_folder(each)]
    if folders:
        if len(modules or ()) > 1 or group is not None:
            raise Usage("A folder is planned alone.", "Leave out the other modules and --group.")
        _leave(here, [plan_folder(here, Path(folders[0]), module, options, key)], wait)
    else:
        _leave(here, _queue(here, "PLAN", modules, group, options, key), wait)


@command(app, "apply", calls=("enqueue_job", "enqueue_jobs"), page=PAGE)
def apply(
    here: Here,
    modules: Modules = None,
    group: Group = None,
    plan_job: Annotated[str | None, Option("--plan", help="Apply what this finished plan saved.")] = None,
    target: Targets = None,
    replace: Replace = None,
    refresh_only: RefreshOnly = False,
    runner: OnlyRunner = None,
    reason: Reason = None,
    key: Key = None,
    wait: Wait = False,
    auto_approve: AutoApprove = False,
    var: Variables = None,
    review: Review = False,
) -> None:
    """Make the change: plans, asks, and applies that plan; with --auto-approve at once, with --review somebody confirms it."""
    options = _options(here, target, replace, refresh_only, runner, reason, var)
    if plan_job is not None:
        _leave(here, _apply_plan(here, here.org.run(plan_job)[0], key, auto_approve), wait)
    elif auto_approve:
        _leave(here, _queue(here, "APPLY", modules, group, options, key), wait)
    elif review:
        _leave_to_review(here, _queue(here, "PLAN", modules, group, {**options, "confirm": True}, key), wait)
    else:
        _need_terminal("apply")
        planned = _queue(here, "PLAN", modules, group, options, None)
        _leave(here, [row for job in planned for row in _ask_and_apply(here, follow_one(here, job))], wait)


@command(app, "destroy", calls=("enqueue_job", "enqueue_jobs"), page=PAGE)
def destroy(
    here: Here,
    modules: Modules = None,
    group: Group = None,
    target: Targets = None,
    runner: OnlyRunner = None,
    reason: Reason = None,
    key: Key = None,
    wait: Wait = False,
    auto_approve: AutoApprove = False,
    var: Variables = None,
    review: Review = False,
) -> None:
    """Destroy what the modules made; with --review it is planned, and somebody confirms that plan."""
    found = _found(here, modules, group)
    if review:
        options = {**_options(here, target, None, False, runner, reason, var), "destroy": True, "confirm": True}
        _leave_to_review(here, _enqueue(here, "PLAN", found, options, key), wait)
        return
    if not auto_approve:
        _need_terminal("destroy")
        paths = ", ".join(row["path"] for row in found)
        if not typer.confirm(f"Destroy everything that {paths} made?"):
            raise typer.Exit(1)
    options = _options(here, target, None, False, runner, reason, var)
    _leave(here, _enqueue(here, "DESTROY", found, options, key), wait)


@command(app, "drift", calls=("enqueue_job", "enqueue_jobs"), page=PAGE)
def drift(
    here: Here,
    modules: Modules = None,
    group: Group = None,
    runner: OnlyRunner = None,
    reason: Reason = None,
    key: Key = None,
    wait: Wait = False,
    var: Variables = None,
) -> None:
    """Look for differences between the infrastructure and the configuration."""
    options = _options(here, None, None, False, runner, reason, var)
    _leave(here, _queue(here, "DRIFT", modules, group, options, key), wait)


@command(app, "output", calls=("enqueue_job", "enqueue_jobs"), page=PAGE)
def output(
    here: Here,
    modules: Modules = None,
    group: Group = None,
    runner: OnlyRunner = None,
    reason: Reason = None,
    key: Key = None,
    wait: Wait = False,
) -> None:
    """Read the outputs again; `modules outputs` shows those that were read last."""
    _leave(here, _queue(here, "OUTPUT", modules, group, _options(here, None, None, False, runner, reason), key), wait)


def _leave(here: Here, jobs: list[Row], wait: bool) -> None:
    """Print what was queued, or follow it and exit as it ended."""
    if not wait:
        here.printer.rows(jobs, COLUMNS)
        return
    leave(here, jobs)


def _leave_to_review(here: Here, plans: list[Row], wait: bool) -> None:
    """Print the queued plans, or follow each, then wait until somebody has confirmed it and its apply has ended."""
    if wait:
        leave(here, [row for plan in follow(here, plans) for row in _followed_by(here, plan)])
    _leave(here, plans, False)


def _followed_by(here: Here, plan: Row) -> list[Row]:
    if plan["status"] != "SUCCEEDED":
        raise typer.Exit(int(ENDS[plan["status"]]))
    made_of_it = {"plan_job_id": f"eq.{plan['id']}", "order": "id.desc", "limit": "1"}
    found = patiently(lambda: here.api.rows("provision_jobs", **made_of_it))
    if not found:
        say(f"{plan['module_path']}: no changes, nothing to apply.")
    return found


def _queue(
    here: Here, kind: str, modules: list[str] | None, group: str | None, options: dict[str, Any], key: str | None
) -> list[Row]:
    return _enqueue(here, kind, _found(here, modules, group), options, key)


def plan_folder(here: Here, folder: Path, module: str | None, options: dict[str, Any], key: str | None) -> Row:
    """Send a folder as a module's code, and queue its plan."""
    import base64

    from cli.jobs.folder import pack

    # A problem with the folder is reported before the question.
    packed = pack(folder)
    row = here.org.module(module or _module_of(folder))
    many = "1 file" if packed.files == 1 else f"{packed.files} files"
    say(f"Sending the {many} of {folder.resolve()} ({len(packed.body) / 1024:,.0f} KiB packed) as {row['path']}.")
    body = base64.b64encode(packed.body).decode()
    sent = here.api.call("upload_source", module=row["id"], body_base64=body, sha256=packed.sha256)
    return _enqueue(here, "PLAN", [row], {**options, "upload_id": sent["id"]}, key)[0]


def is_folder(text: str) -> bool:
    """Whether an argument means a folder on this disk and no module: `.`, `./x`, `../x`, `/x`."""
    return text in (".", "..") or text.startswith(("./", "../", "/"))


def _module_of(folder: Path) -> str:
    from cli.modules.files import read_document

    file = folder / MODULE_FILE
    if not file.is_file():
        raise Usage(
            f"Which module is {folder.resolve()}?",
            f'Name it with --module, or keep a {MODULE_FILE} there that contains: path = "group/name"',
        )
    return str(read_document(file.read_text(encoding="utf-8"), str(file))["path"])


def _found(here: Here, modules: list[str] | None, group: str | None) -> list[Row]:
    found = [here.org.module(each) for each in modules or ()]
    found += here.org.modules(group) if group is not None else []
    if not found:
        problem = f'There is no module at or below "{group}".' if group else "Which module?"
        raise Usage(problem, "Name modules, or a group with --group. `runyard modules list` shows them.")
    return list({row["id"]: row for row in found}.values())


def _enqueue(here: Here, kind: str, modules: list[Row], options: dict[str, Any], key: str | None) -> list[Row]:
    common = {"org": here.org.id, "type": kind}
    ids = [row["id"] for row in modules]
    if len(ids) == 1:
        return [call_keyed(here.api, "enqueue_job", options, key, module=ids[0], **common)]
    # A key counts for each module separately, so that several calls may share it.
    calls = (ids[at : at + MOST_AT_ONCE] for at in range(0, len(ids), MOST_AT_ONCE))
    made = [row for some in calls for row in call_keyed(here.api, "enqueue_jobs", options, key, modules=some, **common)]
    paths = {row["id"]: row["path"] for row in modules}
    return [{"type": kind, "module_path": paths.get(row.get("module_id")), **row} for row in made]


def _ask_and_apply(here: Here, planned: Row) -> list[Row]:
    """After a plan: show what it changes, ask, and queue the apply of exactly that."""
    if planned["status"] != "SUCCEEDED":
        raise typer.Exit(int(ENDS[planned["status"]]))
    if not (planned["plan_summary"] or {}).get("has_changes", True):
        say(f"{planned['module_path']}: no changes, nothing to apply.")
        return []
    (row,) = here.api.rows("provision_jobs", id=f"eq.{planned['id']}")
    return _apply_plan(here, row, None, False)


def _apply_plan(here: Here, planned: Row, key: str | None, is_agreed: bool) -> list[Row]:
    if not is_agreed:
        _need_terminal("apply")
        say("\n".join([f"{planned['module_path']}:", *plan_lines(planned["plan_summary"] or {})]))
        if not typer.confirm("Apply this plan?"):
            raise typer.Exit(1)
    module = {"id": planned["module_id"], "path": planned["module_path"]}
    return _enqueue(here, "APPLY", [module], {"plan_job_id": planned["id"]}, key)


def _need_terminal(what: str) -> None:
    if not sys.stdin.isatty():
        raise Usage(
            f"run {what} asks before it changes anything, and there is no terminal to ask on.",
            "Add --review to have its plan confirmed by a person, or --auto-approve.",
        )


def _options(
    here: Here,
    targets: list[str] | None,
    replace: list[str] | None,
    refresh_only: bool,
    runner: str | None,
    reason: str | None,
    variables: list[str] | None = None,
) -> dict[str, Any]:
    given: dict[str, Any] = {
        "variables": given_inputs(variables or []),
        "targets": targets,
        "replace": replace,
        "refresh_only": refresh_only or None,
        "pinned_worker_id": here.org.runner(runner)["id"] if runner else None,
        "reason": reason,
    }
    return {name: value for name, value in given.items() if value}
