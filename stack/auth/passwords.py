"""bcrypt, off the event loop, a few at a time, in turns."""

from functools import cache, partial
from importlib.resources import files

import bcrypt

from stack.auth.errors import AuthError, validation
from stack.auth.turns import Turns

LONGEST_BYTES = 72


class Passwords:
    """Hashes and checks passwords; bcrypt frees the interpreter lock, so threads are enough."""

    def __init__(self, rounds: int = 10, threads: int = 2, shortest: int = 6) -> None:
        self._rounds = rounds
        self._shortest = shortest
        self._turns = Turns(threads)
        # Checked where there is no user, so that an unknown address takes as long as a wrong password.
        self._nobody = bcrypt.hashpw(b"nobody", bcrypt.gensalt(rounds))

    async def hash(self, password: str, *, owner: str, is_checked: bool = True) -> str:
        """A `$2b$` hash of an acceptable password; anyone who administers may set a short one, as on hosted."""
        check_strength(password, self._shortest if is_checked else 1)
        work = partial(bcrypt.hashpw, password.encode(), bcrypt.gensalt(self._rounds))
        return (await self._turns.run(owner, work)).decode()

    async def verify(self, password: str, hashed: str | None, *, owner: str) -> bool:
        """Whether a password fits; as slow for nobody's as for somebody's."""
        given = password.encode("utf-8", "replace")[:LONGEST_BYTES]
        against = hashed.encode() if hashed else self._nobody
        is_right = await self._turns.run(owner, partial(_check, given, against))
        return is_right and hashed is not None and len(password.encode("utf-8", "replace")) <= LONGEST_BYTES

    def close(self) -> None:
        """Stop the threads."""
        self._turns.close()


def check_strength(password: str, shortest: int) -> None:
    """Refuse what bcrypt would cut off and what is too short to be a password."""
    if len(password.encode("utf-8", "replace")) > LONGEST_BYTES:
        raise validation(f"Password cannot be longer than {LONGEST_BYTES} characters")
    if len(password) < shortest:
        message = f"Password should be at least {shortest} characters."
        raise AuthError(422, "weak_password", message, weak_password={"reasons": ["length"]})
    if password.lower() in common_passwords():
        message = "This password is one of the most common ones, so it is easy to guess. Choose another."
        raise AuthError(422, "weak_password", message, weak_password={"reasons": ["pwned"]})


@cache
def common_passwords() -> frozenset[str]:
    """The passwords that are tried first; hosted looks them up at a service."""
    lines = files("stack.auth").joinpath("common_passwords.txt").read_text().splitlines()
    return frozenset(line for line in lines if not line.startswith("#"))


def _check(given: bytes, against: bytes) -> bool:
    try:
        return bcrypt.checkpw(given, against)
    except ValueError:
        return False
