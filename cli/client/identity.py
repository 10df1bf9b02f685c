"""Finds the identity that acts: the environment's in a pipeline, the profile's at a desk, the secret key for the operator."""

import os

from cli.client import auth, workload
from cli.client.api import Api
from cli.client.auth import by_token, refresh, sign_in
from cli.client.http import Connection
from cli.client.profiles import Profile, Profiles, profiles_of
from cli.errors import Missing, SignedOut

ADDRESS = ("RUNYARD_API_URL", "SUPABASE_URL")


def address() -> str:
    """The project that the environment names; nothing when it names none."""
    return next((os.environ[name] for name in ADDRESS if os.environ.get(name)), "")


def person(wanted: str | None = None) -> tuple[Api, Profile]:
    """Act as somebody: the profile that is named, else the environment's identity, else the profile in use."""
    chosen = wanted or os.environ.get("RUNYARD_PROFILE")
    if not chosen and workload.is_wanted():
        return _from_workload()
    if not chosen and os.environ.get(auth.PERSONAL_VARIABLE):
        return _from_token()
    if not chosen and (os.environ.get("RUNYARD_ACCESS_TOKEN") or os.environ.get("RUNYARD_EMAIL")):
        return _from_environment()
    profiles = profiles_of(os.environ)
    name = chosen or profiles.current()
    if not name:
        raise SignedOut(
            "Nobody is signed in.",
            "Sign in: runyard login. In a script set RUNYARD_API_URL and RUNYARD_TOKEN, in a pipeline RUNYARD_SERVICE_ACCOUNT.",
        )
    return _from_profile(profiles, profiles.get(name))


def operator() -> Api:
    """Act for the installation, with its secret key."""
    (key,) = need_variables("SUPABASE_SECRET_KEY")
    return Api(Connection(_need_address()), key, key)


def need_variables(*names: str) -> list[str]:
    """Read required variables; all missing ones are named at once."""
    missing = [name for name in names if not os.environ.get(name)]
    if missing:
        raise Missing(
            f"Set {' and '.join(missing)}.",
            "`runyard env` prints the address and the keys of the local stack; `supabase status` or the project's API "
            "settings show those of another.",
        )
    return [os.environ[name] for name in names]


def _need_address() -> str:
    return address() or need_variables("SUPABASE_URL")[0]


def _from_workload() -> tuple[Api, Profile]:
    url = _need_address()
    api, login = workload.act(Connection(url))
    dashboard = os.environ.get("RUNYARD_DASHBOARD_URL", "")
    name = os.environ[workload.ACCOUNT]
    return api, Profile("environment", url, login.key, name, login.organization, dashboard, is_account=True)


def _from_token() -> tuple[Api, Profile]:
    url, token = _need_address(), os.environ[auth.PERSONAL_VARIABLE].strip()
    connection = Connection(url)
    session, key = by_token(connection, token)
    dashboard = os.environ.get("RUNYARD_DASHBOARD_URL", "")
    profile = Profile("environment", url, key, session.email, dashboard=dashboard)
    return Api(connection, key, session.access_token, lambda: by_token(connection, token)[0].access_token), profile


def _from_environment() -> tuple[Api, Profile]:
    url, (key,) = _need_address(), need_variables("SUPABASE_PUBLISHABLE_KEY")
    connection = Connection(url)
    email, token = os.environ.get("RUNYARD_EMAIL", ""), os.environ.get("RUNYARD_ACCESS_TOKEN")
    if not token:
        (password,) = need_variables("RUNYARD_PASSWORD")
        token = sign_in(connection, key, email, password).access_token
    dashboard = os.environ.get("RUNYARD_DASHBOARD_URL", "")
    return Api(connection, key, token), Profile("environment", url, key, email, dashboard=dashboard)


def _from_profile(profiles: Profiles, profile: Profile) -> tuple[Api, Profile]:
    connection = Connection(profile.url)
    session = profiles.session(profile)
    used = session.access_token if session else ""

    def renew() -> str:
        nonlocal used
        with profiles.lock():
            # Another command may have renewed it while this one waited for the lock.
            kept = profiles.session(profile)
            if kept is None:
                raise SignedOut(f'The profile "{profile.name}" is signed out.', "Sign in again: runyard login.")
            if kept.access_token == used or kept.is_stale:
                kept = refresh(connection, profile.key, kept.refresh_token)
                profiles.renew(profile, kept)
            # By this machine's clock it may seem good long after the project has stopped taking it.
            used = kept.access_token
            return used

    token = used if session and not session.is_stale else renew()
    return Api(connection, profile.key, token, renew), profile
