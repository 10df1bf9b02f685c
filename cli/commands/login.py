"""`runyard login`, `logout`, `whoami`."""

import os
import sys
from typing import Annotated

import typer

from cli.client import auth
from cli.client.http import Connection
from cli.client.identity import address
from cli.client.profiles import Profile, profiles_of
from cli.command import Here, command, new_app
from cli.errors import NotFound, Usage
from cli.output import say

app = new_app("Sign in, sign out, and see who you are.")


@app.command("login")
def login(
    url: Annotated[str | None, typer.Argument(help="The project's address; SUPABASE_URL if it is left out.")] = None,
    key: Annotated[str | None, typer.Option(help="The publishable key; SUPABASE_PUBLISHABLE_KEY otherwise.")] = None,
    email: Annotated[str | None, typer.Option(help="Who you are; asked for if it is left out.")] = None,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password from standard input.")
    ] = False,
    profile: Annotated[str, typer.Option(help="The name that this login is kept by.")] = "default",
    dashboard: Annotated[
        str, typer.Option(help="Where the dashboard is, for `runyard open`.", envvar="RUNYARD_DASHBOARD_URL")
    ] = "",
    keyring: Annotated[
        bool, typer.Option("--keyring", help="Keep the tokens in the system's keyring, not in a file.")
    ] = False,
) -> None:
    """Sign in to a project with e-mail and password, and use it from now on."""
    where = url or address() or _ask("Address of the project", "URL, or SUPABASE_URL")
    api_key = key or os.environ.get("SUPABASE_PUBLISHABLE_KEY") or _ask("Publishable key", "--key")
    who = email or os.environ.get("RUNYARD_EMAIL") or _ask("E-mail", "--email")
    session = auth.sign_in(Connection(where), api_key, who, _password(password_stdin))
    kept = Profile(profile, where.rstrip("/"), api_key, session.email, "", dashboard.rstrip("/"), keyring)
    profiles_of(os.environ).save(kept, session)
    say(f"Signed in to {kept.url} as {session.email} (profile {profile}).")


@app.command("logout")
def logout(
    profile: Annotated[str | None, typer.Option(help="Another profile than the one in use.")] = None,
) -> None:
    """End the login at the project, and forget its tokens."""
    profiles = profiles_of(os.environ)
    name = profile or profiles.current()
    if not name:
        raise NotFound("Nobody is signed in.")
    kept = profiles.get(name)
    session = profiles.session(kept)
    profiles.remove(name)
    if session is not None:
        auth.sign_out(Connection(kept.url), kept.key, session.access_token)
    say(f"Signed out of {kept.url} (profile {name}).")


@command(app, "whoami", calls=("my_organizations",), page="The menu with your name")
def whoami(here: Here) -> None:
    """Show who is signed in, where, and the role in each organisation."""
    profile = here.identity[1]
    user = here.api.request("GET", "/auth/v1/user", "Auth")
    mine = here.api.call("my_organizations")
    roles = [f"{one['slug']} ({one['role']})" for one in mine]
    shown = {
        "email": user.get("email"),
        "user_id": user["id"],
        "url": profile.url,
        "profile": profile.name,
        "organizations": mine if here.printer.as_json else roles,
    }
    here.printer.row(shown, ("email", "url", "profile", "organizations"))


def _ask(question: str, option: str) -> str:
    if not sys.stdin.isatty():
        raise Usage(f"{question}? Nobody can be asked here.", f"Give {option}.")
    return str(typer.prompt(question))


def _password(from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.readline().rstrip("\n")
    if given := os.environ.get("RUNYARD_PASSWORD"):
        return given
    if not sys.stdin.isatty():
        raise Usage("Password? Nobody can be asked here.", "Give --password-stdin, or set RUNYARD_PASSWORD.")
    return str(typer.prompt("Password", hide_input=True))
