"""`runyard roles`: what each role may do, and the organisation's own roles."""

from typing import Annotated

from typer import Argument, Option

from cli.command import Here, command, new_app

app = new_app("Roles: what each may do, and the organisation's own.")


@command(app, "list", calls=("list_roles",))
def list_roles(here: Here) -> None:
    """List the roles and what each may do, built-in ones first."""
    rows = here.api.call("list_roles", org=here.org.id)
    here.printer.rows(rows, ("name", "is_own", "verbs"))


@command(app, "set", calls=("set_role",))
def set_role(
    here: Here,
    role: Annotated[str, Argument(help="Its name: lower-case letters, digits and hyphens.")],
    verbs: Annotated[list[str], Argument(metavar="VERB...", help="What it may do, such as job.plan.")],
    description: Annotated[str, Option(help="What it is for.")] = "",
) -> None:
    """Create or change a role; you need each of its verbs yourself."""
    made = here.api.call("set_role", org=here.org.id, name=role, verbs=verbs, description=description)
    here.printer.result(made, lambda row: f"{row['name']}: {', '.join(row['verbs'])}")


@command(app, "delete", calls=("delete_role",))
def delete_role(here: Here, role: Annotated[str, Argument(metavar="ROLE", help="Its name.")]) -> None:
    """Delete one of the organisation's own roles that nobody has."""
    here.do("delete_role", "Deleted {name}", org=here.org.id, name=role)
