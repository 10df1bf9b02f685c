"""`runyard accounts`: service accounts."""

from typing import Annotated, Any

from typer import Argument, Option

from cli.command import Here, Yes, command, given, new_app, pairs
from cli.errors import NotFound
from cli.runners import wording
from wire.tokens import SERVICE_ACCOUNT, make_token

app = new_app("Service accounts: identities that runners and pipelines sign in with.")

Account = Annotated[str, Argument(metavar="ACCOUNT", help="Its name, client id or id.")]
Issuer = Annotated[str | None, Option(help="Trust this OIDC issuer instead of creating a secret.")]
Audience = Annotated[str | None, Option(help="The audience that the issuer's tokens must have.")]
Claims = Annotated[list[str] | None, Option("--claim", help="name=value that such a token must have; may be repeated.")]
Role = Annotated[str | None, Option(help="viewer, operator or admin: what it may do in the organisation.")]
COLUMNS = ("name", "path", "role", "client_id", "issuers", "has_secret", "is_disabled", "last_used_at")
PAGE = "Settings → People → Service accounts"


@command(app, "list", page=PAGE)
def list_accounts(here: Here) -> None:
    """List the service accounts."""
    rows = here.api.all_rows("service_accounts", org_id=f"eq.{here.org.id}", removed_at="is.null", order="name")
    for row in rows:
        row["issuers"] = [trust["issuer"] for trust in row["trusts"]]
    here.printer.rows(rows, COLUMNS, "No service accounts.")


@command(app, "show", page=f"{PAGE} → Edit")
def show(here: Here, account: Account) -> None:
    """Show an account: its role, and each issuer with its audience and bound claims."""
    here.printer.row(here.org.account(account), (*COLUMNS[:4], "trusts", *COLUMNS[5:]))


@command(app, "create", calls=("create_service_account",), page=f"{PAGE} → Add account")
def create(
    here: Here,
    name: Annotated[str, Argument(help="A name that no other account of the organisation has.")],
    path: Annotated[str, Option(help="The group it serves, with all below; none is the whole organisation.")] = "",
    description: Annotated[str, Option(help="What it is for.")] = "",
    role: Role = None,
    issuer: Issuer = None,
    audience: Audience = None,
    claim: Claims = None,
) -> None:
    """Make a service account; its client id is printed, and its secret this once."""
    spec: dict[str, Any] = {"name": name, "path": path, "description": description, "role": role}
    if issuer:
        spec["trusts"] = [_trust(issuer, audience, claim)]
    secret = None if issuer else make_token(SERVICE_ACCOUNT)
    made = here.api.call(
        "create_service_account",
        org=here.org.id,
        spec=spec,
        secret_hash=secret.hash if secret else None,
        secret_hint=secret.hint if secret else None,
    )
    here.printer.result({**made, "client_secret": secret.text} if secret else made, wording.account)


@command(app, "update", calls=("update_service_account",), page=f"{PAGE} → Edit")
def update(
    here: Here,
    account: Account,
    name: Annotated[str | None, Option("--name", help="Another name.")] = None,
    description: Annotated[str | None, Option(help="What it is for.")] = None,
    role: Role = None,
    no_role: Annotated[bool, Option("--no-role", help="Remove its role; only runners can use it then.")] = False,
) -> None:
    """Change the named settings; a change of role takes effect at once."""
    spec = given(name=name, description=description, role=role)
    _change(here, account, spec | ({"role": None} if no_role else {}))


@command(app, "trust", calls=("update_service_account",), page=f"{PAGE} → Edit")
def trust(
    here: Here,
    account: Account,
    issuer: Annotated[str, Option(help="The OIDC issuer's address.")],
    audience: Audience = "runyard",
    claim: Claims = None,
) -> None:
    """Trust one more issuer; its tokens need the audience and each claim. Running sessions sign in again."""
    row = here.org.account(account)
    _change(here, account, {"trusts": [*row["trusts"], _trust(issuer, audience, claim)]})


@command(app, "distrust", calls=("update_service_account",), page=f"{PAGE} → Edit")
def distrust(
    here: Here,
    account: Account,
    issuer: Annotated[str, Option(help="The OIDC issuer's address, as `accounts show` has it.")],
) -> None:
    """Trust an issuer no more, with all of its claims; what it let in ends at once."""
    row = here.org.account(account)
    left = [each for each in row["trusts"] if each["issuer"] != issuer]
    if left == row["trusts"]:
        known = ", ".join(each["issuer"] for each in row["trusts"]) or "nobody"
        raise NotFound(f"{row['name']} does not trust {issuer}.", f"It trusts {known}.")
    _change(here, account, {"trusts": left})


@command(app, "disable", calls=("update_service_account",), page=f"{PAGE} → Disable")
def disable(here: Here, account: Account) -> None:
    """Disable an account; its sessions end, and it does nothing any more, at once."""
    _change(here, account, {"is_disabled": True})


@command(app, "enable", calls=("update_service_account",), page=f"{PAGE} → Enable")
def enable(here: Here, account: Account) -> None:
    """Enable a disabled account."""
    _change(here, account, {"is_disabled": False})


@command(app, "rotate", calls=("rotate_service_account_secret",), page=f"{PAGE} → New secret")
def rotate(here: Here, account: Account) -> None:
    """Give an account a new secret, printed this once; the old one is void at once."""
    row, secret = here.org.account(account), make_token(SERVICE_ACCOUNT)
    here.api.call("rotate_service_account_secret", account=row["id"], secret_hash=secret.hash, secret_hint=secret.hint)
    here.printer.result({**row, "client_secret": secret.text}, wording.account)


@command(app, "remove", calls=("remove_service_account",), page=f"{PAGE} → Remove")
def remove(here: Here, account: Account, yes: Yes = False) -> None:
    """Remove an account that no runner uses."""
    row = here.org.account(account)
    here.confirm(f"Remove the service account {row['name']}?", yes)
    here.do("remove_service_account", lambda _: f"Removed {row['name']}", account=row["id"])


def _change(here: Here, account: str, spec: dict[str, Any]) -> None:
    row = here.org.account(account)
    after = here.api.call("update_service_account", account=row["id"], spec=spec)
    here.printer.result(after, lambda done: f"{done['name']}  {'disabled' if done['is_disabled'] else 'enabled'}")


def _trust(issuer: str, audience: str | None, claims: list[str] | None) -> dict[str, Any]:
    bound = pairs(claims, "Write --claim repository=acme/infra.", "name=value")
    return {"issuer": issuer, "audience": audience, "bound_claims": bound}
