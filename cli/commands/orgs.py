"""`runyard orgs`: your organisations."""

import os
from typing import Annotated

from typer import Argument, Option

from cli.client.profiles import profiles_of
from cli.command import Here, TimeLimits, Yes, command, given, limits_of, new_app, one_of
from cli.errors import Usage
from cli.output import say

app = new_app("Your organisations.")
SHARED_USE = ("never", "none-fits", "none-available")
MAKERS = ("everybody", "owners")
Days = Annotated[int | None, Option("--log-retention-days", help="How long logs are kept.")]


@command(app, "list", calls=("my_organizations",), page="The menu of organisations")
def list_orgs(here: Here) -> None:
    """List your organisations, with your role in each."""
    here.printer.rows(here.api.call("my_organizations"), ("slug", "name", "role", "id"), "No organisations.")


@command(app, "create", calls=("create_organization",), page="Create organisation")
def create(
    here: Here,
    slug: Annotated[str, Argument(help="Short name for addresses and commands.")],
    name: Annotated[str | None, Option("--name", help="Display name.")] = None,
) -> None:
    """Create an organisation; you become its owner."""
    here.do("create_organization", "{slug}  {id}", name=name or slug, slug=slug)


@command(app, "update", calls=("update_organization",), page="Settings → General")
def update(
    here: Here,
    name: Annotated[str | None, Option("--name", help="Display name.")] = None,
    log_retention_days: Days = None,
    own_approvals: Annotated[
        bool | None, Option("--own-approvals/--no-own-approvals", help="Whether people may approve their own jobs.")
    ] = None,
    time_limits: TimeLimits = None,
) -> None:
    """Rename the organisation, change how long logs are kept and jobs may take, or whether people may approve their own jobs."""
    wanted = given(
        name=name, log_retention_days=log_retention_days, can_approve_own_jobs=own_approvals, time_limits=limits_of(time_limits)
    )  # fmt: skip
    if not wanted:
        raise Usage("Nothing to change.", "Give --name, --log-retention-days, --own-approvals or --time-limits.")
    here.do("update_organization", "{slug}  {name}  logs {log_retention_days} days", org=here.org.id, **wanted)


@command(app, "delete", calls=("delete_organization",), page="Settings → General → Delete organisation")
def delete(here: Here, slug: Annotated[str, Argument(help="Its short name.")], yes: Yes = False) -> None:
    """Delete an organisation that has no modules and no runners any more, with its history."""
    from cli.client.organization import find_organization

    found = find_organization(here.api, slug)
    here.confirm(f"Delete {found.slug} with its jobs, logs, states and audit log? This cannot be undone.", yes)
    here.do("delete_organization", "Deleted {slug}", org=found.id, confirm_slug=found.slug)


@command(app, "shared-runners", calls=("set_shared_runners",), page="Settings → General")
def shared_runners(
    here: Here, use: Annotated[str, Argument(help="never, none-fits (no own runner is set up) or none-available.")]
) -> None:
    """Set when shared runners may take the organisation's jobs."""
    one_of(use, SHARED_USE, '"{}" is not a choice.')
    after = here.api.call("set_shared_runners", org=here.org.id, use=use.replace("-", "_").upper())
    here.printer.result(after, lambda _: f"{here.org.slug}: {use}")


@command(app, "makers", calls=("organization_makers", "set_organization_makers"), page="Create organisation")
def makers(
    here: Here,
    who: Annotated[str | None, Argument(help="everybody, or owners (of one); with SUPABASE_SECRET_KEY.")] = None,
) -> None:
    """Show or set who can create organisations on this installation."""
    if who is None:
        here.do("organization_makers", lambda row: str(row["who"]).lower())
        return
    one_of(who, MAKERS, '"{}" is not a choice.')
    after = here.operator.call("set_organization_makers", who=who.upper())
    here.printer.result(after, lambda row: str(row["who"]).lower())


@command(app, "use", page="The menu of organisations")
def use(here: Here, slug: Annotated[str, Argument(help="Its slug.")]) -> None:
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
    here: Here, limit: Annotated[int, Option("--limit", min=1, max=1000, help="How many of the newest.")] = 50
) -> None:
    """List what people did, the newest first. Admins."""
    rows = here.api.rows("audit_events", org_id=f"eq.{here.org.id}", order="id.desc", limit=str(limit))
    here.printer.rows(
        rows, ("at", "actor_label", "address", "action", "target_label", "detail"), "No events that you may see."
    )
