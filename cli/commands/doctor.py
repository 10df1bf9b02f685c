"""`runyard doctor`: is this program well, and does it reach a project that is?"""

import os
import platform
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Annotated, Any

import typer
from typer import Option

from cli.client.http import Connection
from cli.client.identity import need_variables
from cli.client.profiles import profiles_of
from cli.command import Here, command, new_app
from cli.errors import CommandError, ExitCode
from cli.output import plain
from cli.project.checks import (
    FUNCTIONS,
    Check,
    attempt,
    function_answers,
    project_checks,
    publication_check,
    sweep_check,
)
from cli.version import __version__

app = new_app("Check this program, the login and the project.")
CLOCK_SECONDS = 60
TRANSACTION_SECONDS = 600


@command(app, "doctor", calls=("my_organizations", "open_transactions", "installation_health"))
def doctor(
    here: Here,
    project: Annotated[
        bool, Option("--project", help="Check a hosted project point by point instead, with its keys.")
    ] = False,
) -> None:
    """Check client, login, project, clock and functions; with SUPABASE_SECRET_KEY the database and the sweep, too."""
    checks = project_checks(here.operator, *need_variables("SUPABASE_PUBLISHABLE_KEY")) if project else _checks(here)
    found = [Check("program", True, f"runyard {__version__}, Python {platform.python_version()}"), *checks]
    if here.printer.as_json:
        here.printer.document([check._asdict() for check in found])
    else:
        width = max(len(check.name) for check in found)
        for check in found:
            print(f"{'ok  ' if check.is_well else 'FAIL'}  {check.name:<{width}}  {plain(check.said)}")
    if not all(check.is_well for check in found):
        raise typer.Exit(ExitCode.UNHEALTHY)


def _checks(here: Here) -> Iterator[Check]:
    file = profiles_of(os.environ).file
    if file.exists():
        mode = file.stat().st_mode & 0o777
        yield Check("login file", mode == 0o600, f"{file}, mode {mode:o}" + ("" if mode == 0o600 else "; chmod 600 it"))
    login = attempt("login", lambda: f"{here.identity[1].email or 'a token'} at {here.api.url}")
    yield login
    if not login.is_well:
        return
    yield attempt("project", lambda: _project(here))
    yield attempt("clock", lambda: _clock(here.api.connection))
    for name in FUNCTIONS:
        yield attempt(f"functions/{name}", partial(function_answers, here.api.connection, name))
    if os.environ.get("SUPABASE_SECRET_KEY"):
        yield from _operator(here)


def _operator(here: Here) -> Iterator[Check]:
    """Checks that only the installation's operator can run."""
    try:
        found = here.operator.call("installation_health")
    except CommandError as error:
        yield Check("secret key", False, str(error).replace("\n ", ""))
        return
    organisations, runners = (int(found[name]) for name in ("organizations", "runners_online"))
    many = f"{organisations} organisation{'s' * (organisations != 1)}, {runners} runner{'s' * (runners != 1)} online"
    yield Check("secret key", True, f"works; {many}")
    used, most = found["connections"], found["most_connections"]
    size = f"PostgreSQL {found['postgres']}, {found['bytes'] / 1024**2:,.0f} MiB, {used} of {most} connections"
    yield Check(
        "database",
        used < most * 0.9,
        size + ("" if used < most * 0.9 else "; raise max_connections or find who holds them"),
    )
    yield attempt("transactions", lambda: _transactions(here.operator.call("open_transactions")))
    yield sweep_check(found["swept_seconds_ago"])
    yield publication_check(found["published"])


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
