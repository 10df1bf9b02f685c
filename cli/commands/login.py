"""`runyard login`, `logout`, `whoami`."""

import os
import platform
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from cli.client import auth
from cli.client.http import Connection
from cli.client.identity import address
from cli.client.profiles import Profile, profiles_of
from cli.client.two_steps import Ask
from cli.command import Here, Yes, command, new_app
from cli.errors import NotFound, SignedOut, Usage
from cli.folders import default_home
from cli.output import say
from cli.version import __version__

app = new_app("Sign in, sign out, and see who you are.")


@app.command("login")
def login(
    url: Annotated[str | None, Argument(help="The project's address; SUPABASE_URL if it is left out.")] = None,
    key: Annotated[str | None, Option(help="The publishable key; SUPABASE_PUBLISHABLE_KEY otherwise.")] = None,
    email: Annotated[
        str | None, Option(help="Sign in with this address and a password instead of in the browser.")
    ] = None,
    password_stdin: Annotated[bool, Option("--password-stdin", help="Read the password from standard input.")] = False,
    code: Annotated[
        str | None, Option(help="The code of your authenticator app, where the account requires one.")
    ] = None,
    token: Annotated[
        str | None, Option(metavar="-", help="Sign in with a personal token, read from standard input.")
    ] = None,
    profile: Annotated[str, Option(help="The name of this login.")] = "default",
    dashboard: Annotated[
        str, Option(help="Where the dashboard is, for `runyard open`.", envvar="RUNYARD_DASHBOARD_URL")
    ] = "",
    open_browser: Annotated[
        bool, Option("--browser/--no-browser", help="Open the page that confirms the code.")
    ] = True,
    keyring: Annotated[
        bool, Option("--keyring", help="Keep the tokens in the system's keyring, not in a file.")
    ] = False,
) -> None:
    """Sign in to a project and use it from now on: by a short code in the browser, or with --email and a password."""
    where = url or address() or _ask("The project's address", "URL, or SUPABASE_URL")
    connection = Connection(where)
    who = email or os.environ.get("RUNYARD_EMAIL")
    if token is not None:
        session, api_key = auth.by_token(connection, _typed_token(token))
    else:
        api_key = key or os.environ.get("SUPABASE_PUBLISHABLE_KEY") or _ask("The publishable key", "--key")
        session = (
            auth.sign_in(connection, api_key, who, _password(password_stdin), _asker(code))
            if who
            else _by_code(connection, api_key, dashboard, open_browser, _asker(code))
        )
    kept = Profile(profile, where.rstrip("/"), api_key, session.email, "", dashboard.rstrip("/"), keyring)
    profiles_of(os.environ).save(kept, session)
    say(f"Signed in to {kept.url} as {session.email} (profile {profile}).")


@command(app, "confirm-login", calls=("device_login", "decide_device_login"), page="Sign in to the command line")
def confirm_login(
    here: Here,
    code: Annotated[str, Argument(help="The code that the other machine's `runyard login` shows.")],
    decline: Annotated[bool, Option("--decline", help="Leave it signed out.")] = False,
    yes: Yes = False,
) -> None:
    """Sign in a program that shows a code, as the page /device does."""
    waiting = here.api.call("device_login", user_code=code)
    if not decline:
        here.confirm(f"Sign in {waiting['program']} from {waiting['address'] or 'an unknown place'} as you?", yes)
    done = here.api.call("decide_device_login", user_code=code, is_confirmed=not decline)
    here.printer.result(done, lambda said: "Signed in." if said["is_confirmed"] else "Declined.")


@app.command("logout")
def logout(profile: Annotated[str | None, Option(help="Another profile than the one in use.")] = None) -> None:
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
    user = {} if profile.is_account else here.api.who()
    mine = here.api.call("my_organizations")
    roles = [f"{one['slug']} ({one['role']})" for one in mine]
    shown = {
        "email": user.get("email"),
        "user_id": user.get("id"),
        "service_account": profile.email if profile.is_account else None,
        "url": profile.url,
        "profile": profile.name,
        "organizations": mine if here.printer.as_json else roles,
    }
    who = "service_account" if profile.is_account else "email"
    here.printer.row(shown, (who, "url", "profile", "organizations"))


def _typed_token(given: str) -> str:
    """The token from standard input: arguments stay in the shell's history and in lists of processes."""
    if given != "-":
        raise Usage("A token is not given as an argument.", "Give --token - and the token on standard input.")
    return sys.stdin.readline().strip() if not sys.stdin.isatty() else str(typer.prompt("Token", hide_input=True))


def _asker(given: str | None) -> Ask:
    """The code of the option, once; afterwards the person at the terminal enters it."""
    codes = [given] if given else []

    def ask(problem: str) -> str:
        if codes:
            return codes.pop()
        if not sys.stdin.isatty():
            raise SignedOut(problem or "This account requires a code at every sign-in.", "Give it with --code.")
        if problem:
            say(problem)
        return str(typer.prompt("Code of your authenticator app"))

    return ask


def _by_code(connection: Connection, key: str, dashboard: str, open_browser: bool, ask: Ask) -> auth.PersonSession:
    """Show a code, and wait until somebody has confirmed or declined it in a browser."""
    asked = auth.start_device(connection, f"runyard {__version__} on {platform.node() or 'a machine'}")
    page = asked.get("verification_uri_complete") or f"{dashboard.rstrip('/') or 'your dashboard'}/device"
    say(
        f"Open {page}\nand confirm the code {asked['user_code']} there. It is valid for {asked['expires_in'] // 60} minutes."
    )
    if open_browser and page.startswith("http") and sys.stdout.isatty():
        import webbrowser

        webbrowser.open(page)
    expires_at = time.monotonic() + asked["expires_in"]
    while (session := auth.poll_device(connection, key, asked["device_code"], ask)) is None:
        if time.monotonic() > expires_at:
            raise SignedOut("The code has expired.", "Start `runyard login` again.")
        time.sleep(asked["interval"])
    return session


def _ask(question: str, option: str) -> str:
    local = _local_hint()
    if not sys.stdin.isatty():
        raise Usage(f"{question} is missing, and this is not interactive.", f"{local}Give {option}.")
    if local:
        say(local.rstrip())
    return str(typer.prompt(question))


def _local_hint() -> str:
    """Explain how to sign in to the stack of this clone, while it runs."""
    home = Path(os.environ.get("RUNYARD_HOME") or default_home())
    is_up = (home / "run" / "ready").exists()
    return 'A stack runs here; eval "$(runyard env)" sets its address and key. ' if is_up else ""


def _password(from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.readline().rstrip("\n")
    if given := os.environ.get("RUNYARD_PASSWORD"):
        return given
    if not sys.stdin.isatty():
        raise Usage(
            "The password is missing, and this is not interactive.", "Give --password-stdin, or set RUNYARD_PASSWORD."
        )
    return str(typer.prompt("Password", hide_input=True))
