"""The file of profiles, which several commands change at once."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from cli.client.auth import PersonSession
from cli.client.profiles import Profile, Profiles

PROFILE = Profile("default", "http://p", "key")


def session(name: str) -> PersonSession:
    return PersonSession(name, f"refresh {name}", 1e12, "a@example.com")


class Busy(Profiles):
    """Another command holds the lock first, and renews the login."""

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        with super().lock():
            self.renew(PROFILE, session("newer"))
            yield


def test_choosing_an_organization_keeps_the_tokens_that_another_command_renewed(tmp_path: Path) -> None:
    Profiles(tmp_path).save(PROFILE, session("older"))
    chosen = Busy(tmp_path).choose_organization("default", "acme")
    assert Profiles(tmp_path).get("default") == chosen
    assert chosen.organization == "acme"
    assert Profiles(tmp_path).session(chosen) == session("newer")
