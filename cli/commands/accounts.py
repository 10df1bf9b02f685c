"""`runyard accounts`: service accounts."""

from typing import Annotated, Any

import typer

from cli.client.tokens import SERVICE_ACCOUNT, make_token
from cli.command import Here, command, new_app
from cli.errors import Usage
from cli.runners import wording

app = new_app("Service accounts: identities that runners sign in with instead of a token.")

Account = Annotated[str, typer.Argument(metavar="ACCOUNT", help="Its name, client id or id.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
Issuer = Annotated[str | None, typer.Option(help="Trust this OIDC issuer instead of making a secret.")]
Audience = Annotated[str | None, typer.Option(help="The audience that the issuer's tokens must have.")]
Claims = Annotated[
    list[str] | None, typer.Option("--claim", help="name=value that such a token must have; may be repeated.")
]
COLUMNS = ("name", "path", "client_id", "issuer", "has_secret", "is_disabled", "last_used_at")
PAGE = "Settings → Service accounts"


@command(app, "list", page=PAGE)
def list_accounts(here: Here) -> None:
    """List the service accounts."""
    rows = here.api.all_rows("service_accounts", org_id=f"eq.{here.org.id}", removed_at="is.null", order="name")
    here.printer.rows(rows, COLUMNS, "No service accounts.")


@command(app, "create", calls=("create_service_account",), page=f"{PAGE} → Add account")
def create(
    here: Here,
    name: Annotated[str, typer.Argument(help="A name that no other account of the organisation has.")],
    path: Annotated[
        str, typer.Option(help="The group it serves, with all below; none is the whole organisation.")
    ] = "",
    description: Annotated[str, typer.Option(help="What it is for.")] = "",
    issuer: Issuer = None,
    audience: Audience = None,
    claim: Claims = None,
) -> None:
    """Make a service account; its client id is printed, and its secret this once."""
    spec: dict[str, Any] = {"name": name, "path": path, "description": description}
    if issuer:
        spec |= {"issuer": issuer, "audience": audience, "bound_claims": _claims(claim)}
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
    name: Annotated[str | None, typer.Option("--name", help="Another name.")] = None,
    path: Annotated[str | None, typer.Option(help="Another group that it serves.")] = None,
    description: Annotated[str | None, typer.Option(help="What it is for.")] = None,
    issuer: Issuer = None,
    audience: Audience = None,
    claim: Claims = None,
) -> None:
    """Change what is named."""
    given = {"name": name, "path": path, "description": description, "issuer": issuer, "audience": audience}
    spec: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    _change(here, account, spec | ({"bound_claims": _claims(claim)} if claim else {}))


@command(app, "disable", calls=("update_service_account",), page=f"{PAGE} → Disable")
def disable(here: Here, account: Account) -> None:
    """Disable an account; its sessions end at once."""
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
    done = here.api.call("remove_service_account", account=row["id"])
    here.printer.result(done, lambda _: f"Removed {row['name']}")


def _change(here: Here, account: str, spec: dict[str, Any]) -> None:
    row = here.org.account(account)
    after = here.api.call("update_service_account", account=row["id"], spec=spec)
    here.printer.result(after, lambda done: f"{done['name']}  {'disabled' if done['is_disabled'] else 'enabled'}")


def _claims(texts: list[str] | None) -> dict[str, str]:
    found = {}
    for text in texts or ():
        name, is_pair, value = text.partition("=")
        if not is_pair:
            raise Usage(f'"{text}" is not name=value.', "Write --claim repository=acme/infra.")
        found[name] = value
    return found
