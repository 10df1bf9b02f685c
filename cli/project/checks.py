"""Whether a Supabase project has everything that Runyard needs, point by point, each with what to do about it."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from cli.client.api import Api
from cli.client.http import Connection, Reply
from cli.errors import CommandError

# Housekeeping, which every sweep does when it is due, comes by every five minutes.
UNSWEPT_SECONDS = 120
PUBLISHED = ("workers", "worker_instances", "provision_jobs", "worker_releases", "rollouts")
FUNCTIONS = (
    "health", "worker-session", "service-account-token", "device-login", "sign-in", "job-identity", "terraform", "git", "notify",
    "invitation", "metrics", "publish-release",
)  # fmt: skip
DEPLOY = "supabase functions deploy"


class Check(NamedTuple):
    """One thing that was checked."""

    name: str
    is_well: bool
    said: str


def project_checks(operator: Api, publishable_key: str) -> Iterator[Check]:
    """Check a project as its operator, from the address to the last setting."""
    connection = operator.connection
    reached = attempt("address", lambda: _address(connection))
    yield reached
    if not reached.is_well:
        return
    yield attempt("publishable key", lambda: _auth(connection, publishable_key))
    yield from _database(operator)
    for name in FUNCTIONS:
        yield attempt(f"functions/{name}", partial(function_answers, connection, name))
    yield from _settings(connection, publishable_key)


def attempt(name: str, check: Callable[[], str]) -> Check:
    """Do one check; what it refuses to accept becomes its finding."""
    try:
        return Check(name, True, check())
    except CommandError as error:
        return Check(name, False, str(error).replace("\n ", ""))


def function_answers(connection: Connection, name: str) -> str:
    """A deployed function answers with its own error, even to an empty request."""
    reply = connection.request("POST", f"/functions/v1/{name}", {}, {})
    # Ours have codes of their own, or the form that Terraform reads.
    is_ours = str(_field(reply, "code")).startswith("RY") or _field(reply, "errors") is not None
    if reply.status in (502, 503) or (reply.status == 404 and not is_ours):
        raise CommandError(f"HTTP {reply.status}", f"Deploy the edge functions: {DEPLOY}.")
    # Runners and programs have no token of Auth to show.
    if reply.status == 401 and not is_ours:
        raise CommandError("is deployed with JWT verification", f"Deploy it as config.toml has it: {DEPLOY} {name}.")
    return "answers"


def sweep_check(seconds: int | None) -> Check:
    """Whether something drives the sweep."""
    if seconds is not None and seconds < UNSWEPT_SECONDS:
        return Check("sweep", True, f"ran {seconds} s ago")
    since = "has not run yet" if seconds is None else f"ran {seconds} s ago"
    return Check(
        "sweep",
        False,
        f"{since}: leases, schedules and retention stand still; docs/hosted-supabase.md lists its drivers",
    )


def publication_check(published: list[str]) -> Check:
    """Whether Realtime sends the tables that pages show live."""
    missing = [table for table in PUBLISHED if table not in published]
    said = f"{len(published)} tables are published"
    return Check(
        "publication", not missing, said if not missing else f"{', '.join(missing)} not published: run the migrations"
    )


def _address(connection: Connection) -> str:
    connection.head("/auth/v1/health")
    return "answers"


def _auth(connection: Connection, key: str) -> str:
    reply = connection.request("GET", "/auth/v1/settings", {"apikey": key})
    if reply.is_error:
        raise CommandError(f"HTTP {reply.status}.", "Copy it again: Project settings → API keys.")
    if not _field(reply, "external", {}).get("email", True):
        raise CommandError("Sign-in by email is off.", "Authentication → Sign in / Providers → Email.")
    if _field(reply, "disable_signup", False):
        return "works; nobody can create an account without an invitation"
    return "works; everybody can create an account: turn it off under Authentication → Sign in / Providers"


def _database(operator: Api) -> Iterator[Check]:
    try:
        found = operator.call("installation_health")
    except CommandError as error:
        said = str(error).replace("\n ", "")
        yield Check("secret key", False, f"{said} Without tables and functions: supabase db push.")
        return
    yield Check("secret key", True, f"works; PostgreSQL {found['postgres']}")
    swept = sweep_check(found["swept_seconds_ago"])
    yield _extensions(found["extensions"], swept.is_well)
    yield swept
    yield publication_check(found["published"])


def _extensions(installed: list[str], is_swept: bool) -> Check:
    """pg_cron drives the sweep and pg_net the notifications, unless something else does, as in the embedded stack."""
    missing = [name for name in ("pg_cron", "pg_net") if name not in installed]
    if not missing:
        return Check("extensions", True, "pg_cron and pg_net are installed")
    named = f"without {' and '.join(missing)}"
    if is_swept:
        return Check("extensions", True, f"{named}; something else drives the sweep")
    return Check("extensions", False, f"{named}: enable them under Database → Extensions")


def _settings(connection: Connection, key: str) -> Iterator[Check]:
    """The functions' settings, compared with the project."""
    reply = connection.request("GET", "/functions/v1/health/settings", {"apikey": key})
    if reply.is_error:
        yield Check("settings", False, f"HTTP {reply.status}: {DEPLOY} health")
        return
    yield attempt("JWT keys", lambda: _signing_key(connection, _field(reply, "signing_key")))
    address = _field(reply, "dashboard_url")
    wanted = "RUNYARD_DASHBOARD_URL is not set: supabase secrets set RUNYARD_DASHBOARD_URL=https://…"
    yield Check("dashboard", bool(address), str(address) if address else wanted)
    has_keys = bool(_field(reply, "has_identity_keys"))
    unset = "RUNYARD_IDENTITY_KEYS is not set; only identities of jobs need it"
    yield Check("identity keys", True, "are set" if has_keys else unset)


def _signing_key(connection: Connection, kid: str | None) -> str:
    if not kid:
        raise CommandError(
            "The functions have no key with a name (kid) that signs runners' tokens.",
            'supabase secrets set WORKER_SIGNING_JWK="$(cat signing-key.json)"',
        )
    reply = connection.request("GET", "/auth/v1/.well-known/jwks.json", {})
    if kid not in [key.get("kid") for key in _field(reply, "keys", [])]:
        raise CommandError(
            f"Auth does not know the key {kid} that the functions sign with.",
            "Import it: Project settings → JWT keys; or set WORKER_SIGNING_JWK to a key of the project.",
        )
    return f"Auth knows the key {kid} that the functions sign with"


def _field(reply: Reply, name: str, default: Any = None) -> Any:
    """A field of an answer that may be anything."""
    try:
        found = reply.json()
    except CommandError:
        return default
    return found.get(name, default) if isinstance(found, dict) else default
