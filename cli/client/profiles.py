"""Profiles: projects that somebody signed in to, with their tokens in a file that only this user reads, or in the keyring."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cli.client.auth import PersonSession
from cli.errors import CommandError, Missing, NotFound

SERVICE = "runyard"


@dataclass(frozen=True)
class Profile:
    """One login to one project."""

    name: str
    url: str
    key: str
    email: str = ""
    organization: str = ""
    dashboard: str = ""
    is_in_keyring: bool = False
    # A service account, which the environment names: it has no user at Auth, and is never kept.
    is_account: bool = False


class Profiles:
    """All profiles of this user; every change is written whole, under a lock."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "profiles.json"

    def names(self) -> list[str]:
        """Every profile's name."""
        return sorted(self._read()["profiles"])

    def current(self) -> str:
        """The profile that is used unless another is named; nothing when nobody has signed in."""
        return str(self._read()["current"])

    def get(self, name: str) -> Profile:
        """One profile by its name."""
        found = self._read()["profiles"].get(name)
        if found is None:
            names = ", ".join(self.names()) or "none"
            raise NotFound(f'There is no profile "{name}".', f"There are: {names}. `runyard login --profile` adds one.")
        return Profile(name, **found)

    def session(self, profile: Profile) -> PersonSession | None:
        """The profile's tokens, if it has any."""
        kept = _from_keyring(profile.name) if profile.is_in_keyring else self._read()["sessions"].get(profile.name)
        return PersonSession(**kept) if kept else None

    def save(self, profile: Profile, session: PersonSession | None) -> None:
        """Keep a profile with its tokens, and use it from now on."""
        with self.lock():
            self._put(profile, session)

    def renew(self, profile: Profile, session: PersonSession) -> None:
        """Keep newer tokens of a profile; the caller holds the lock."""
        self._put_session(self._read(), profile, session)

    def use(self, name: str) -> Profile:
        """Use another profile from now on."""
        profile = self.get(name)
        with self.lock():
            self._write({**self._read(), "current": name})
        return profile

    def choose_organization(self, name: str, organization: str) -> Profile:
        """Set the default organisation of a profile's commands."""
        with self.lock():
            # Read under the lock: another command may have renewed the tokens while this one waited for it.
            profile = replace(self.get(name), organization=organization)
            self._put(profile, self.session(profile))
        return profile

    def remove(self, name: str) -> None:
        """Forget a profile and its tokens."""
        with self.lock():
            document = self._read()
            profile = Profile(name, **document["profiles"].pop(name))
            self._put_session(document, profile, None)
            left = sorted(document["profiles"])
            if document["current"] == name:
                self._write({**document, "current": left[0] if left else ""})

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """One process at a time: a refresh token works once, and the second to use it would be signed out."""
        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self.file.parent / "profiles.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _put(self, profile: Profile, session: PersonSession | None) -> None:
        document = self._read()
        document["current"] = profile.name
        document["profiles"][profile.name] = {k: v for k, v in asdict(profile).items() if k != "name"}
        self._put_session(document, profile, session)

    def _put_session(self, document: dict[str, Any], profile: Profile, session: PersonSession | None) -> None:
        document["sessions"].pop(profile.name, None)
        if profile.is_in_keyring:
            _to_keyring(profile.name, session)
        elif session is not None:
            document["sessions"][profile.name] = asdict(session)
        self._write(document)

    def _read(self) -> dict[str, Any]:
        empty: dict[str, Any] = {"current": "", "profiles": {}, "sessions": {}}
        try:
            document = json.loads(self.file.read_text())
        except FileNotFoundError:
            return empty
        except (OSError, ValueError) as error:
            raise CommandError(f"{self.file} cannot be read: {error}", "Remove it, and sign in again.") from error
        return {**empty, **document}

    def _write(self, document: dict[str, Any]) -> None:
        temporary = self.file.with_suffix(f".{os.getpid()}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(document, file, indent=2)
        temporary.replace(self.file)


def profiles_of(environment: "os._Environ[str]") -> Profiles:
    """The profiles of the person who types: RUNYARD_CONFIG_HOME, or the usual folder for settings."""
    chosen = environment.get("RUNYARD_CONFIG_HOME")
    base = Path(environment.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return Profiles(Path(chosen) if chosen else base / "runyard")


def _keyring() -> Any:
    try:
        import keyring
    except ImportError as error:
        raise Missing(
            "The package keyring is not installed.",
            "Install runyard[keyring], or sign in without --keyring: the tokens go to a file that only you read.",
        ) from error
    return keyring


def _from_keyring(name: str) -> dict[str, Any] | None:
    kept = _keyring().get_password(SERVICE, name)
    return json.loads(kept) if kept else None


def _to_keyring(name: str, session: PersonSession | None) -> None:
    keyring = _keyring()
    if session is not None:
        keyring.set_password(SERVICE, name, json.dumps(asdict(session)))
    elif keyring.get_password(SERVICE, name):
        keyring.delete_password(SERVICE, name)
