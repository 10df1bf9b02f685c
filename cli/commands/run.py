"""`runyard run plan|apply|destroy|drift|output`: queue a job, and follow it."""

import sys
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Queued:
    """The modules of a command, what their jobs are queued with, and whether it waits for them."""

    modules: Modules = None
    group: Group = None
    runner: OnlyRunner = None
    reason: Reason = None
    key: Key = None
    wait: Wait = False

    def options(self, here: Here, **more: Any) -> dict[str, Any]:
        """The options of the jobs; what nobody gave is left out."""
        runner = here.org.runner(self.runner)["id"] if self.runner else None
        given = {"pinned_worker_id": runner, "reason": self.reason, **more}
        return {name: value for name, value in given.items() if value}

    def found(self, here: Here) -> list[Row]:
        """The modules that are named, and those of the group."""
        found = [here.org.module(each) for each in self.modules or ()]
        found += here.org.modules(self.group) if self.group is not None else []
        if not found:
            problem = f'There is no module at or below "{self.group}".' if self.group else "Which module?"
            raise Usage(problem, "Name modules, or a group with --group. `runyard modules list` shows them.")
        return list({row["id"]: row for row in found}.values())

    def enqueue(self, here: Here, kind: str, options: dict[str, Any]) -> list[Row]:
        """Queue a job for each module."""
        return _enqueue(here, kind, self.found(here), options, self.key)


@dataclass(frozen=True)
class WithVariables(Queued):
    """The same, and variables for these jobs alone."""

    var: Variables = None

    def options(self, here: Here, **more: Any) -> dict[str, Any]:
        """The options with the variables."""
        return super().options(here, variables=given_inputs(self.var or []), **more)


@command(app, "plan", calls=("enqueue_job", "enqueue_jobs", "upload_source"), page=PAGE)
def plan(
    here: Here,
    asked: WithVariables,
    target: Targets = None,
    replace: Replace = None,
    refresh_only: RefreshOnly = False,
    destroy: Annotated[bool, Option("--destroy", help="Plan the removal of everything.")] = False,
    module: Annotated[
        str | None, Option("--module", help="Whose code a folder is, if its runyard.toml does not name it.")
    ] = None,
) -> None:
    """Show what an apply would do; with `.` what the code on this disk would, before it is pushed."""
    options = asked.options(here, targets=target, replace=replace, refresh_only=refresh_only, destroy=destroy)
    folders = [each for each in asked.modules or () if is_folder(each)]
    if folders:
        if len(asked.modules or ()) > 1 or asked.group is not None:
            raise Usage("A folder is planned alone.", "Leave out the other modules and --group.")
        _leave(here, [plan_folder(here, Path(folders[0]), module, options, asked.key)], asked.wait)
    else:
        _leave(here, asked.enqueue(here, "PLAN", options), asked.wait)


@command(app, "apply", calls=("enqueue_job", "enqueue_jobs"), page=PAGE)
def apply(
    here: Here,
    asked: WithVariables,
    plan_job: Annotated[str | None, Option("--plan", help="Apply what this finished plan saved.")] = None,
    target: Targets = None,
    replace: Replace = None,
    refresh_only: RefreshOnly = False,
    auto_approve: AutoApprove = False,
    review: Review = False,
) -> None:
    """Make the change: plans, asks, and applies that plan; with --auto-approve at once, with --review somebody confirms it."""
    options = asked.options(here, targets=target, replace=replace, refresh_only=refresh_only)
    if plan_job is not None:
        _leave(here, _apply_plan(here, here.org.run(plan_job)[0], asked.key, auto_approve), asked.wait)
    elif auto_approve:
        _leave(here, asked.enqueue(here, "APPLY", options), asked.wait)
    elif review:
        _leave_to_review(here, asked.enqueue(here, "PLAN", {**options, "confirm": True}), asked.wait)
    else:
        _need_terminal("apply")
        planned = _enqueue(here, "PLAN", asked.found(here), options, None)
        _leave(here, [row for job in planned for row in _ask_and_apply(here, follow_one(here, job))], asked.wait)


@command(app, "destroy", calls=("enqueue_job", "enqueue_jobs"), page=PAGE)
def destroy(
    here: Here, asked: WithVariables, target: Targets = None, auto_approve: AutoApprove = False, review: Review = False
) -> None:
    """Destroy what the modules made; with --review it is planned, and somebody confirms that plan."""
    found, options = asked.found(here), asked.options(here, targets=target)
    if review:
        plans = _enqueue(here, "PLAN", found, {**options, "destroy": True, "confirm": True}, asked.key)
        _leave_to_review(here, plans, asked.wait)
        return
    if not auto_approve:
        _need_terminal("destroy")
        paths = ", ".join(row["path"] for row in found)
        if not typer.confirm(f"Destroy everything that {paths} made?"):
            raise typer.Exit(1)
    _leave(here, _enqueue(here, "DESTROY", found, options, asked.key), asked.wait)


@command(app, "drift", calls=("enqueue_job", "enqueue_jobs"), page=PAGE)
def drift(here: Here, asked: WithVariables) -> None:
    """Look for differences between the infrastructure and the configuration."""
    _leave(here, asked.enqueue(here, "DRIFT", asked.options(here)), asked.wait)


@command(app, "output", calls=("enqueue_job", "enqueue_jobs"), page=PAGE)
def output(here: Here, asked: Queued) -> None:
    """Read the outputs again; `modules outputs` shows those that were read last."""
    _leave(here, asked.enqueue(here, "OUTPUT", asked.options(here)), asked.wait)


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
