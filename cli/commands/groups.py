"""`runyard groups`: the tree that modules stand in."""

from typing import Annotated

from typer import Argument, Option

from cli.command import Here, TimeLimits, Yes, command, from_json, limits_of, new_app
from cli.commands import sets
from cli.errors import first
from cli.modules.files import with_variables
from cli.variables.files import given_pairs

app = new_app("The groups of modules; their hooks and variables apply to every module below.")
app.registered_commands.extend(sets.app.registered_commands)
Path = Annotated[str, Argument(metavar="PATH", help="Such as platform/network.")]
APPLY_HELP = (
    "How modules below apply plans of their repository: after-merge, before-merge, merge-queue, never or inherit."
)

DRIFT_HELP = (
    "What is done about drift: tell, plan (and wait), apply (if only drifted resources are touched), accept or inherit."
)


@command(app, "list", page="Modules")
def list_groups(here: Here) -> None:
    """List the groups."""
    rows = here.api.all_rows("groups", org_id=f"eq.{here.org.id}", order="path")
    here.printer.rows(
        with_variables(here.org, rows),
        ("path", "description", "env", "hooks", "git_apply", "time_limits", "drift_action"),
        "No groups.",
    )


@command(app, "set", calls=("upsert_group",), page="Modules → Group")
def set_group(
    here: Here,
    path: Path,
    description: Annotated[str | None, Option(help="What it is for.")] = None,
    env: Annotated[
        list[str] | None, Option("--env", help="NAME=VALUE; together they replace the present ones.")
    ] = None,
    hooks: Annotated[str | None, Option("--hooks", help='JSON, such as {"before_plan": "…"}.')] = None,
    apply: Annotated[str | None, Option("--apply", help=APPLY_HELP)] = None,
    time_limits: TimeLimits = None,
    drift: Annotated[str | None, Option("--drift", help=DRIFT_HELP)] = None,
) -> None:
    """Create a group, with those above it, or change it."""
    here.do(
        "upsert_group",
        "{path}  {id}",
        org=here.org.id,
        path=path,
        description=description,
        env=given_pairs(env) if env else None,
        hooks=from_json(hooks, "--hooks") if hooks else None,
        git_apply=apply.replace("-", "_") if apply else None,
        time_limits=limits_of(time_limits),
        drift_action=drift,
    )


@command(app, "drifted", calls=("drift_overview",), page="Modules → with drift")
def drifted(here: Here, path: Annotated[str, Argument(metavar="PATH", help="All groups without.")] = "") -> None:
    """List the groups with drift: how many modules and resources, since when, what is done about it, which channels know."""
    rows = here.api.call("drift_overview", org=here.org.id, path=path.strip("/"))
    here.printer.rows(rows, ("path", "modules", "resources", "since", "action", "told"), "No drift is known.")


@command(app, "delete", calls=("delete_group",), page="Modules → Group → Delete")
def delete(here: Here, path: Path, yes: Yes = False) -> None:
    """Delete an empty group."""
    rows = here.api.rows("groups", org_id=f"eq.{here.org.id}", path=f"eq.{path.strip('/')}")
    found = first(rows, f'There is no group "{path}".', "`runyard groups list` shows all groups.")
    here.confirm(f"Delete the group {path}?", yes)
    here.do("delete_group", lambda _: f"Deleted {path}", group=found["id"])
