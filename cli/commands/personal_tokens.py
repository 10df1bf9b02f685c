"""`runyard personal-tokens`: tokens with which your own programs act as you."""

from typing import Annotated, Any

from typer import Argument, Option

from cli.command import Here, Yes, command, new_app
from wire.tokens import make_personal_token

app = new_app("Tokens with which your own programs act as you: RUNYARD_TOKEN, or `runyard login --token -`.")
PAGE = "Account → Personal tokens"


@command(app, "list", calls=("my_personal_tokens",), page=PAGE)
def list_tokens(here: Here) -> None:
    """List your tokens: name, hint, expiry, last use; never the token."""
    columns = ("id", "name", "hint", "role", "path", "is_live", "created_at", "expires_at", "last_used_at")
    here.printer.rows(here.api.call("my_personal_tokens"), columns, "No personal tokens.")


@command(app, "create", calls=("create_personal_token",), page=f"{PAGE} → Create token")
def create(
    here: Here,
    name: Annotated[str, Argument(help="Its name.")],
    days: Annotated[int, Option(help="Its lifetime, 1 to 365 days.")] = 90,
    role: Annotated[str | None, Option(help="At most what viewer, planner, approver, operator or admin may.")] = None,
    path: Annotated[str, Option(help="The group in which it may do more than read; needs --role.")] = "",
) -> None:
    """Make a token that acts as you, or does less; it is printed this once."""
    token = make_personal_token()
    given = {"name": name, "token_hash": token.hash, "hint": token.hint, "days": days, "role": role, "path": path}
    made = here.api.call("create_personal_token", **given)
    here.printer.result({**made, "token": token.text}, _words)


@command(app, "revoke", calls=("revoke_personal_token",), page=f"{PAGE} → Revoke")
def revoke(
    here: Here,
    token: Annotated[str, Argument(metavar="TOKEN", help="Its id, as `personal-tokens list` shows it.")],
    yes: Yes = False,
) -> None:
    """Revoke one of your tokens; everything that uses it loses access at once."""
    here.confirm(f"Revoke {token}? Everything that uses it loses access at once.", yes)
    here.do("revoke_personal_token", "Revoked {name}", token=token)


def _words(made: dict[str, Any]) -> str:
    return f"{made['token']}\n\nShown once. It acts as you until {made['expires_at'][:10]}, or until you revoke it."
