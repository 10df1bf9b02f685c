"""`runyard members`: people with access, and what they can do."""

import hashlib
import secrets
from typing import Annotated

from typer import Argument, Option

from cli.command import Here, Member, Yes, command, new_app
from cli.errors import NotFound, Usage
from cli.output import say

app = new_app("People with access, and what they can do.")

Role = Annotated[str, Option("--role", help="guest, viewer, operator, admin or owner.")]
PAGE = "Settings → People → Members"


@command(app, "list", page=PAGE)
def list_members(here: Here) -> None:
    """List the members and their roles."""
    rows = here.api.all_rows("memberships", org_id=f"eq.{here.org.id}", order="email")
    here.printer.rows(rows, ("email", "role", "created_at", "user_id"))


@command(app, "sign-ins", calls=("member_sign_ins",), page=PAGE)
def sign_ins(here: Here) -> None:
    """List which members have two-step sign-in, and when each last signed in; for admins."""
    rows = here.api.call("member_sign_ins", org=here.org.id)
    here.printer.rows(rows, ("email", "has_two_step", "last_sign_in_at"))


@command(app, "invite", calls=("invite_member",), page=f"{PAGE} → Invite member")
def invite(here: Here, email: Annotated[str, Argument(help="Who is invited.")], role: Role = "operator") -> None:
    """Invite an address; the link's secret is printed this once and sent to nobody."""
    # Typed as an argument of `accept`: one that began with a dash would be taken for an option.
    secret = secrets.token_hex(32)
    digest = hashlib.sha256(secret.encode()).hexdigest()
    made = here.api.call("invite_member", org=here.org.id, email=email, role=role, token_hash=digest)
    dashboard = here.identity[1].dashboard
    link = f"{dashboard}/invite#{made['id']}.{secret}" if dashboard else ""
    here.printer.result(
        {**made, "secret": secret, "link": link or None},
        lambda row: link or f"runyard members accept {row['id']} {secret}",
    )


@command(app, "invitations", page=PAGE)
def invitations(here: Here) -> None:
    """List the invitations that were neither accepted nor withdrawn."""
    open_ones = {"accepted_at": "is.null", "revoked_at": "is.null"}
    rows = here.api.all_rows("invitations", org_id=f"eq.{here.org.id}", order="created_at", **open_ones)
    here.printer.rows(rows, ("id", "email", "role", "expires_at"), "No invitations.")


@command(app, "accept", calls=("accept_invitation",), page="The link of an invitation")
def accept(
    here: Here,
    invitation: Annotated[str, Argument(help="The invitation's id.")],
    secret: Annotated[str, Argument(help="The secret of its link.")],
) -> None:
    """Accept an invitation to the address that you are signed in with."""
    digest = hashlib.sha256(secret.encode()).hexdigest()
    here.do("accept_invitation", "Accepted. `runyard orgs list` shows it.", invitation=invitation, token_hash=digest)


@command(app, "revoke", calls=("revoke_invitation",), page=f"{PAGE} → Withdraw invitation")
def revoke(here: Here, invitation: Annotated[str, Argument(help="The invitation's id, or its address.")]) -> None:
    """Withdraw an invitation."""
    number = _invitation(here, invitation)
    here.do("revoke_invitation", lambda _: f"Withdrew {invitation}", invitation=number)


@command(app, "role", calls=("set_member_role",), page=f"{PAGE} → Role")
def change_role(here: Here, member: Member, role: Annotated[str, Argument(help="The new role.")]) -> None:
    """Change a member's role."""
    row = here.org.member(member)
    here.do("set_member_role", lambda _: f"{row['email']}  {role}", org=here.org.id, user=row["user_id"], role=role)


@command(app, "remove", calls=("remove_member",), page=f"{PAGE} → Remove")
def remove(here: Here, member: Member, yes: Yes = False) -> None:
    """Remove a member; everybody may leave."""
    row = here.org.member(member)
    here.confirm(f"Remove {row['email']} from {here.org.slug}?", yes)
    here.do("remove_member", lambda _: f"Removed {row['email']}", org=here.org.id, user=row["user_id"])
    if not here.printer.as_json:
        say("Their logins elsewhere are not touched.")


def _invitation(here: Here, wanted: str) -> str:
    if "@" not in wanted:
        return wanted
    found = here.api.rows(
        "invitations", org_id=f"eq.{here.org.id}", email=f"eq.{wanted}", accepted_at="is.null", revoked_at="is.null"
    )
    if not found:
        raise NotFound(f"There is no open invitation for {wanted}.")
    if len(found) > 1:
        raise Usage(f"There are {len(found)} invitations for {wanted}.", "Name one by its id.")
    return str(found[0]["id"])
