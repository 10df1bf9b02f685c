"""`runyard tokens`: the tokens of a runner."""

from typing import Annotated

from typer import Argument

from cli.command import Here, RunnerName, Yes, command, new_app

app = new_app("The tokens of a runner; `runners rotate` creates a new one.")


@command(app, "list", calls=("list_worker_tokens",), page="Runner → Tokens")
def list_tokens(here: Here, runner: RunnerName) -> None:
    """List a runner's tokens: hint, creation, expiry, last use; never the token."""
    rows = here.api.call("list_worker_tokens", worker=here.org.runner(runner)["id"])
    here.printer.rows(
        rows, ("id", "hint", "is_live", "created_at", "expires_at", "last_used_at", "revoked_at"), "No tokens."
    )


@command(app, "revoke", calls=("revoke_worker_token",), page="Runner → Tokens → Revoke")
def revoke(
    here: Here,
    token: Annotated[str, Argument(metavar="TOKEN", help="The token's id, as `tokens list` shows it.")],
    yes: Yes = False,
) -> None:
    """Revoke a token and end the sessions that it opened, at once."""
    here.confirm(f"Revoke {token}? Anyone who uses it is signed out at once.", yes)
    here.do("revoke_worker_token", lambda _: f"Revoked {token}", token=token)
