"""`runyard doctor`: is this program well, and does it reach a project that is?"""

import os
import platform
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import typer

from cli.client.http import Connection
from cli.client.profiles import profiles_of
from cli.command import Here, command, new_app
from cli.errors import CommandError, ExitCode
from cli.version import __version__

app = new_app("Check this program, the login and the project.")
CLOCK_SECONDS = 60
TRANSACTION_SECONDS = 600
# Housekeeping, which every sweep does when it is due, comes by every five minutes.
UNSWEPT_SECONDS = 900
PUBLISHED = ("workers", "worker_instances", "provision_jobs", "worker_releases", "rollouts")
FUNCTIONS = ("health", "worker-session", "service-account-token", "device-login")


class Check(NamedTuple):
    """One thing that was looked at."""

    name: str
    is_well: bool
    said: str


@command(app, "doctor", calls=("my_organizations", "open_transactions", "installation_health"))
def doctor(here: Here) -> None:
    """Check client, login, project, clock and functions; with SUPABASE_SECRET_KEY the database and the sweep, too."""
    found = [Check("program", True, f"runyard {__version__}, Python {platform.python_version()}"), *_checks(here)]
    if here.printer.as_json:
        here.printer.document([check._asdict() for check in found])
    else:
        width = max(len(check.name) for check in found)
        for check in found:
            print(f"{'ok  ' if check.is_well else 'FAIL'}  {check.name:<{width}}  {check.said}")
    if not all(check.is_well for check in found):
        raise typer.Exit(ExitCode.UNHEALTHY)


def _checks(here: Here) -> Iterator[Check]:
    file = profiles_of(os.environ).file
    if file.exists():
        mode = file.stat().st_mode & 0o777
        yield Check("login file", mode == 0o600, f"{file}, mode {mode:o}" + ("" if mode == 0o600 else "; chmod 600 it"))
    login = _try("login", lambda: f"{here.identity[1].email or 'a token'} at {here.api.url}")
    yield login
    if not login.is_well:
        return
    yield _try("project", lambda: _project(here))
    yield _try("clock", lambda: _clock(here.api.connection))
    for name in FUNCTIONS:
        yield _try(f"functions/{name}", lambda name=name: _function(here.api.connection, name))
    if os.environ.get("SUPABASE_SECRET_KEY"):
        yield from _operator(here)


def _operator(here: Here) -> Iterator[Check]:
    """What only the installation's operator can ask, and mend."""
    try:
        found = here.operator.call("installation_health")
    except CommandError as error:
        yield Check("secret key", False, str(error).replace("\n ", ""))
        return
    yield Check(
        "secret key", True, f"works; {found['organizations']} organisations, {found['runners_online']} runners online"
    )
    used, most = found["connections"], found["most_connections"]
    size = f"PostgreSQL {found['postgres']}, {found['bytes'] / 1024**2:,.0f} MiB, {used} of {most} connections"
    yield Check(
        "database",
        used < most * 0.9,
        size + ("" if used < most * 0.9 else "; raise max_connections or find who holds them"),
    )
    yield _try("transactions", lambda: _transactions(here.operator.call("open_transactions")))
    yield _swept(found["swept_seconds_ago"])
    missing = [table for table in PUBLISHED if table not in found["published"]]
    said = f"{len(found['published'])} tables are published"
    yield Check(
        "publication", not missing, said if not missing else f"{', '.join(missing)} not published: run the migrations"
    )


def _swept(seconds: int | None) -> Check:
    if seconds is not None and seconds < UNSWEPT_SECONDS:
        return Check("sweep", True, f"ran {seconds} s ago")
    since = "has not run yet" if seconds is None else f"ran {seconds} s ago"
    return Check(
        "sweep", False, f"{since}; schedule public.sweep() with pg_cron (docs/hosted-supabase.md), or start the stack"
    )


def _try(name: str, check: Any) -> Check:
    try:
        return Check(name, True, check())
    except CommandError as error:
        return Check(name, False, str(error).replace("\n ", ""))


def _project(here: Here) -> str:
    mine = here.api.call("my_organizations")
    return ", ".join(f"{one['slug']} ({one['role']})" for one in mine) or "answers; you have no organisation yet"


def _clock(connection: Connection) -> str:
    server_time = connection.head("/auth/v1/health").get("date")
    if not server_time:
        return "the project does not tell its time"
    behind = parsedate_to_datetime(server_time).timestamp() - time.time()
    if abs(behind) > CLOCK_SECONDS:
        raise CommandError(
            f"differs by {behind:+.0f} s from the project's.", "Logins and tokens depend on it: set it right."
        )
    return "agrees with the project's" if abs(behind) < 1 else f"differs by {behind:+.0f} s from the project's"


def _transactions(oldest: list[dict[str, Any]]) -> str:
    """Name the oldest open transaction: while it is open, every claim steps over what vacuum may not remove."""
    if not oldest:
        return "none is open"
    first = oldest[0]
    said = f"the oldest is open for {first['seconds']} s: {first['role']}, process {first['pid']}, {first['state']}"
    if first["seconds"] > TRANSACTION_SECONDS:
        raise CommandError(
            said + ".", f"It slows every claim: end it with select pg_terminate_backend({first['pid']})."
        )
    return said


def _function(connection: Connection, name: str) -> str:
    """A function that is there answers something else than 404, whatever it makes of an empty request."""
    reply = connection.request("POST", f"/functions/v1/{name}", {}, {})
    if reply.status in (404, 502, 503):
        raise CommandError(f"HTTP {reply.status}", "Deploy the edge functions: supabase functions deploy.")
    return "answers"
