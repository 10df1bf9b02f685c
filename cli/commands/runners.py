"""`runyard runners`: register, list and look after them."""

from dataclasses import dataclass
from typing import Annotated, Any

from typer import Argument, Option

from cli.client.organization import Row
from cli.command import Here, RunnerName, Yes, command, given, new_app
from cli.runners import wording
from wire.tokens import make_token

app = new_app("Register, list and look after the runners of an organisation.")

COLUMNS = ("name", "type", "status", "version", "capacity", "labels", "id")
SHOWN = (
    "name", "type", "status", "status_reason", "version", "capacity", "labels", "accepted_job_types", "is_assigned_to_all_modules",
    "assignments", "service_account_id", "is_draining", "drain_reason", "is_disabled", "allow_multiple_instances", "id",
)  # fmt: skip
CLOUD = "cloud-hosted"


@dataclass(frozen=True)
class Settings:
    """The settings of a runner that people choose, and may choose again."""

    label: Annotated[list[str] | None, Option("--label", help='Such as "gpu" or "region=eu"; may be repeated.')] = None
    capacity: Annotated[int | None, Option("--capacity", help="Jobs at a time, 1 to 256.")] = None
    accept: Annotated[
        list[str] | None, Option("--accept", help="A type of job that it takes, such as PLAN; may be repeated.")
    ] = None
    service_account: Annotated[
        str | None, Option("--service-account", help="Name, client id or id of the account it signs in with.")
    ] = None
    all_modules: Annotated[
        bool | None, Option("--all-modules/--no-all-modules", help="Whether it serves every module.")
    ] = None
    several_instances: Annotated[
        bool | None, Option("--several-instances/--one-instance", help="Whether many processes may be one runner.")
    ] = None

    def options(self, here: Here) -> dict[str, Any]:
        """Those that are given, as the database names them."""
        return given(
            labels=self.label or None,
            capacity=self.capacity,
            accepted_job_types=self.accept or None,
            service_account_id=here.org.account(self.service_account)["id"] if self.service_account else None,
            is_assigned_to_all_modules=self.all_modules,
            allow_multiple_instances=self.several_instances,
        )


@command(app, "list", page="Runners")
def list_runners(here: Here) -> None:
    """List the runners of the organisation, and the shared ones."""
    here.printer.rows(here.org.runners(), COLUMNS, "No runners. `runyard runners register` adds one.")


@command(app, "show", page="Runner")
def show(here: Here, name: RunnerName) -> None:
    """Show one runner, what it serves, and its connected processes."""
    row = here.org.runner(name)
    paths = here.api.all_rows("worker_assignments", worker_id=f"eq.{row['id']}", order="path", select="path")
    instances = here.api.all_rows("worker_instances", worker_id=f"eq.{row['id']}", order="name")
    whole = {**row, "assignments": [each["path"] for each in paths], "instances": instances}
    types = {} if here.printer.as_json else {"accepted_job_types": row["accepted_job_types"] or "all"}
    here.printer.row(whole | types, SHOWN)
    if instances and not here.printer.as_json:
        here.printer.rows(instances, ("name", "status", "version", "hostname", "connected_at"))


@command(app, "load", calls=("fleet_overview",), page="Runners")
def load(here: Here) -> None:
    """Show the runners' live numbers: heartbeats, load and counts."""
    overview = here.api.call("fleet_overview", org=here.org.id)
    if here.printer.as_json:
        here.printer.document(overview)
        return
    known = {row["id"]: {"name": row["name"], "status_reason": row["status_reason"]} for row in here.org.runners()}
    rows = [{**known.get(row["id"], {}), **row} for row in overview["workers"]]
    here.printer.rows(rows, ("name", "status", "status_reason", "used", "capacity", "last_seen_at"), "No runners.")


@command(app, "figures", calls=("fleet_figures",), page="Figures")
def figures(here: Here, hours: Annotated[int, Option(help="1, 24 or 168.")] = 24) -> None:
    """Show waits, utilisation, throughput and pass rate, and where jobs waited longest."""
    here.printer.document(here.api.call("fleet_figures", org=here.org.id, hours=hours))


@command(app, "stats", calls=("fleet_stats",), page="Runners → Statistics")
def stats(here: Here, hours: Annotated[int, Option(min=1, max=168, help="How far back.")] = 24) -> None:
    """Print queue wait, throughput, pass rate and utilisation per hour, as JSON."""
    here.printer.document(here.api.call("fleet_stats", org=here.org.id, hours=hours))


@command(app, "history", calls=("worker_history",), page="Runner → History")
def history(
    here: Here, name: RunnerName, hours: Annotated[int, Option(min=1, max=168, help="How far back.")] = 24
) -> None:
    """Print a runner's quarters of an hour, as JSON."""
    here.printer.document(here.api.call("worker_history", worker=here.org.runner(name)["id"], hours=hours))


@command(app, "register", calls=("register_worker",), page="Runners → Add runner")
def register(
    here: Here,
    name: Annotated[str, Argument(help="A name that no other runner of the organisation has.")],
    settings: Settings,
    assign: Annotated[
        list[str] | None, Option("--assign", help="A group or module that it serves; may be repeated.")
    ] = None,
    token: Annotated[
        bool, Option("--token/--no-token", help="--no-token: it signs in with its service account only.")
    ] = True,
) -> None:
    """Register a self-hosted runner; its id and token are printed, the token this once."""
    options = settings.options(here) | ({"assignments": assign} if assign else {})
    secret = make_token() if token else None
    made: Row = here.api.call(
        "register_worker",
        org=here.org.id,
        name=name,
        token_hash=secret.hash if secret else None,
        token_hint=secret.hint if secret else None,
        options=options,
    )
    here.printer.result({**made, "token": secret.text} if secret else made, wording.credentials)


@command(app, "update", calls=("update_worker",), page="Runner → Edit")
def update(
    here: Here,
    name: RunnerName,
    settings: Settings,
    new_name: Annotated[str | None, Option("--name", help="Another name.")] = None,
    no_labels: Annotated[bool, Option("--no-labels", help="Remove all labels.")] = False,
    accept_all: Annotated[bool, Option("--accept-all", help="Take every type of job.")] = False,
    no_service_account: Annotated[bool, Option("--no-service-account", help="Sign in with its token again.")] = False,
) -> None:
    """Change a runner's settings; only named settings change, and a list replaces the present one."""
    options = given(name=new_name) | settings.options(here) | ({"labels": []} if no_labels else {})
    options |= {"accepted_job_types": None} if accept_all else {}
    options |= {"service_account_id": None} if no_service_account and not settings.service_account else {}
    _act(here, "update_worker", name, options=options)


@command(app, "assign", calls=("assign_worker", "unassign_worker"), page="Runner → Assignments")
def assign_path(
    here: Here,
    name: RunnerName,
    path: Annotated[str, Argument(help='A group or module, such as platform/network; "" is all modules.')],
    take_away: Annotated[bool, Option("--remove", help="Remove the assignment instead.")] = False,
) -> None:
    """Assign a runner to a module, or to all below a group."""
    _act(here, "unassign_worker" if take_away else "assign_worker", name, path=path)


@command(app, "drain", calls=("drain_worker",), page="Runner → Drain")
def drain(
    here: Here,
    name: RunnerName,
    reason: Annotated[str | None, Option(help="Shown with the runner until it is resumed.")] = None,
) -> None:
    """Drain a runner: it finishes its jobs and takes no new ones."""
    _act(here, "drain_worker", name, reason=reason)


@command(app, "resume", calls=("resume_worker",), page="Runner → Resume")
def resume(here: Here, name: RunnerName) -> None:
    """Resume a drained runner."""
    _act(here, "resume_worker", name)


@command(app, "disable", calls=("set_worker_disabled",), page="Runner → Disable")
def disable(here: Here, name: RunnerName) -> None:
    """Give a runner no new jobs; it stays connected."""
    _act(here, "set_worker_disabled", name, disabled=True)


@command(app, "enable", calls=("set_worker_disabled",), page="Runner → Enable")
def enable(here: Here, name: RunnerName) -> None:
    """Give a disabled runner jobs again."""
    _act(here, "set_worker_disabled", name, disabled=False)


@command(app, "rotate", calls=("rotate_worker_token",), page="Runner → Tokens → Rotate")
def rotate(
    here: Here,
    name: RunnerName,
    overlap: Annotated[int, Option(help="Seconds for which the old token still works.")] = 86400,
) -> None:
    """Give a runner a new token, printed this once."""
    row, token = here.org.runner(name), make_token()
    here.api.call(
        "rotate_worker_token", worker=row["id"], token_hash=token.hash, token_hint=token.hint, overlap_seconds=overlap
    )
    here.printer.result({**row, "token": token.text}, wording.credentials)


@command(app, "remove", calls=("remove_worker", "remove_cloud_worker"), page="Runner → Remove")
def remove(here: Here, name: RunnerName, yes: Yes = False) -> None:
    """Remove a runner; of a cloud-hosted one its parts in the cloud, too, by a job."""
    row = here.org.runner(name)
    if row["type"] == CLOUD:
        here.confirm(f"Remove {row['name']} and its parts in the cloud?", yes)
        job = here.api.call("remove_cloud_worker", worker=row["id"])
        here.printer.result(job, lambda made: f"job {made['number']}  removes {row['name']} and its parts in the cloud")
        return
    here.confirm(f"Remove {row['name']}? Its token stops working at once.", yes)
    _act(here, "remove_worker", name)


@command(app, "upgrade", calls=("update_one_worker",), page="Runner → Update")
def upgrade(
    here: Here,
    name: RunnerName,
    version: Annotated[str | None, Option("--version", help="Another release than the newest stable one.")] = None,
) -> None:
    """Queue the update of one runner to the newest stable release, or to a named one."""
    job = here.api.call("update_one_worker", worker=here.org.runner(name)["id"], version=version)
    here.printer.result(job, lambda made: f"job {made['number']}  updates {name}")


def _act(here: Here, function: str, name: str, **arguments: Any) -> None:
    """Call a function about one runner, and print the result."""
    row = here.org.runner(name)
    here.api.call(function, worker=row["id"], **arguments)
    (after,) = here.api.rows("workers", id=f"eq.{row['id']}")
    here.printer.result(after, wording.sentence)
