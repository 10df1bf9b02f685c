"""Rate limits and passwords."""

import pytest

from stack.auth.errors import AuthError
from stack.auth.limits import MOST_KEYS, Limiter
from stack.auth.passwords import Passwords, check_strength
from stack.auth.users import ban_end, clean_email


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_empties_and_refills() -> None:
    clock = Clock()
    limiter = Limiter(3, 30, clock)
    for _ in range(3):
        limiter.spend("a")
    with pytest.raises(AuthError) as refused:
        limiter.spend("a")
    assert (refused.value.status, refused.value.code) == (429, "over_request_rate_limit")
    limiter.spend("b")
    clock.now = 10
    limiter.spend("a")
    with pytest.raises(AuthError):
        limiter.check("a")


def test_the_oldest_keys_are_forgotten_first() -> None:
    limiter = Limiter(1, 1000)
    for number in range(MOST_KEYS + 10):
        limiter.spend(str(number))
    limiter.check("0")
    with pytest.raises(AuthError):
        limiter.check(str(MOST_KEYS + 9))


@pytest.mark.anyio
async def test_only_the_right_password_matches_its_hash() -> None:
    passwords = Passwords(rounds=4)
    hashed = await passwords.hash("correct horse", owner="a")
    assert hashed.startswith("$2b$04$")
    assert await passwords.verify("correct horse", hashed, owner="a")
    assert not await passwords.verify("wrong horse", hashed, owner="a")
    assert not await passwords.verify("nobody", None, owner="a")
    assert not await passwords.verify("x" * 80, hashed, owner="a")
    assert not await passwords.verify("correct horse", "not a hash", owner="a")
    passwords.close()


def test_passwords_too_long_for_bcrypt_or_too_short_are_refused() -> None:
    with pytest.raises(AuthError):
        check_strength("ü" * 37, 6)
    check_strength("ü" * 36, 6)
    with pytest.raises(AuthError) as weak:
        check_strength("12345", 6)
    assert weak.value.code == "weak_password"


def test_addresses_are_cleaned() -> None:
    assert clean_email("  Ada@Example.COM ") == "ada@example.com"
    assert clean_email("root@localhost") == "root@localhost"


def test_a_ban_ends_after_its_duration() -> None:
    short, long = ban_end("90m"), ban_end("1h45m0.5s")
    assert short is not None
    assert long is not None
    assert 800 < (long - short).total_seconds() < 1000
    assert ban_end("none") is None
    for bad in ("", "soon", "1", "h", "1x", "-1h", 7):
        with pytest.raises(AuthError):
            ban_end(bad)
