"""`runyard orgs`: your organisations."""

import os
from typing import Annotated

import typer

from cli.client.profiles import profiles_of
from cli.command import Here, command, new_app
from cli.errors import Usage
from cli.output import say

app = new_app("Your organisations.")
SHARED_USE = ("never", "none-fits", "none-available")
MAKERS = ("everybody", "owners")
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
Days = Annotated[int | None, typer.Option("--log-retention-days", help="How long logs are kept.")]


@command(app, "list", calls=("my_organizations",), page="The menu of organisations")
def list_orgs(here: Here) -> None:
    """List your organisations, with your role in each."""
    here.printer.rows(here.api.call("my_organizations"), ("slug", "name", "role", "id"), "No organisations.")


@command(app, "create", calls=("create_organization",), page="Create organisation")
def create(
    here: Here,
    slug: Annotated[str, typer.Argument(help="Short name for addresses and commands.")],
    name: Annotated[str | None, typer.Option("--name", help="Display name.")] = None,
) -> None:
    """Create an organisation; you become its owner."""
    made = here.api.call("create_organization", name=name or slug, slug=slug)
    here.printer.result(made, lambda row: f"{row['slug']}  {row['id']}")


@command(app, "update", calls=("update_organization",), page="Settings → Organisation")
def update(
    here: Here,
    name: Annotated[str | None, typer.Option("--name", help="Display name.")] = None,
    log_retention_days: Days = None,
    own_approvals: Annotated[
        bool | None,
        typer.Option("--own-approvals/--no-own-approvals", help="Whether people may approve their own jobs."),
    ] = None,
) -> None:
    """Rename the organisation, change how long logs are kept, or whether people may approve their own jobs."""
    given = {"name": name, "log_retention_days": log_retention_days, "can_approve_own_jobs": own_approvals}
    wanted = {field: value for field, value in given.items() if value is not None}
    if not wanted:
        raise Usage("Nothing to change.", "Give --name, --log-retention-days or --own-approvals.")
    after = here.api.call("update_organization", org=here.org.id, **wanted)
    here.printer.result(after, lambda row: f"{row['slug']}  {row['name']}  logs {row['log_retention_days']} days")


@command(app, "delete", calls=("delete_organization",), page="Settings → Organisation → Delete organisation")
def delete(here: Here, slug: Annotated[str, typer.Argument(help="Its short name.")], yes: Yes = False) -> None:
    """Delete an organisation that has no modules and no runners any more, with its history."""
    from cli.client.organization import find_organization

    found = find_organization(here.api, slug)
    here.confirm(f"Delete {found.slug} with its jobs, logs, states and audit log? This cannot be undone.", yes)
    after = here.api.call("delete_organization", org=found.id, confirm_slug=found.slug)
    here.printer.result(after, lambda row: f"Deleted {row['slug']}")


@command(app, "shared-runners", calls=("set_shared_runners",), page="Settings → Organisation")
def shared_runners(
    here: Here,
    use: Annotated[str, typer.Argument(help="never, none-fits (no own runner is set up) or none-available.")],
) -> None:
    """Set when shared runners may take the organisation's jobs."""
    if use not in SHARED_USE:
        raise Usage(f'"{use}" is not a choice.', f"Choose from {', '.join(SHARED_USE)}.")
    after = here.api.call("set_shared_runners", org=here.org.id, use=use.replace("-", "_").upper())
    here.printer.result(after, lambda _: f"{here.org.slug}: {use}")


@command(app, "makers", calls=("organization_makers", "set_organization_makers"), page="Create organisation")
def makers(
    here: Here,
    who: Annotated[str | None, typer.Argument(help="everybody, or owners (of one); with SUPABASE_SECRET_KEY.")] = None,
) -> None:
    """Show or set who can create organisations on this installation."""
    if who is None:
        here.printer.result(here.api.call("organization_makers"), lambda row: str(row["who"]).lower())
        return
    if who not in MAKERS:
        raise Usage(f'"{who}" is not a choice.', f"Choose from {', '.join(MAKERS)}.")
    after = here.operator.call("set_organization_makers", who=who.upper())
    here.printer.result(after, lambda row: str(row["who"]).lower())


@command(app, "use", page="The menu of organisations")
def use(here: Here, slug: Annotated[str, typer.Argument(help="Its slug.")]) -> None:
    """Let this profile's commands act in an organisation unless another is named."""
    from cli.client.organization import find_organization

    found = find_organization(here.api, slug)
    profiles = profiles_of(os.environ)
    profile = here.identity[1]
    if profile.name not in profiles.names():
        raise Usage("The environment signs you in, not a profile.", "Set RUNYARD_ORGANIZATION there, too.")
    profiles.choose_organization(profile.name, found.slug)
    say(f"Using {found.slug}.")


@command(app, "audit", page="Settings → Audit log")
def audit(
    here: Here, limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many of the newest.")] = 50
) -> None:
    """List what people did, the newest first. Admins."""
    rows = here.api.rows("audit_events", org_id=f"eq.{here.org.id}", order="id.desc", limit=str(limit))
    here.printer.rows(
        rows, ("at", "actor_label", "address", "action", "target_label", "detail"), "No events that you may see."
    )
