"""Codes that sign a program in: good once, for ten minutes, for the person who confirms."""

from typing import Any

import pytest

from tests.db.world import Organization, World, refused, sha256

CODE = "BCDFGHJK"


def is_unknown(said: dict[str, Any]) -> bool:
    """Whether a code was refused: answered, not raised, so that the guess counts."""
    return (said.get("code"), said.get("message")) == ("RY404", "No program waits with this code.")


@pytest.fixture
def device(fresh_world: World) -> tuple[World, str]:
    hashed = sha256("secret of the program")
    asked = {
        "p_device_hash": hashed,
        "p_user_code": CODE,
        "p_program": "runyard 1.0 on laptop",
        "p_address": "10.0.0.1",
    }
    fresh_world.service.call("start_device_login", **asked)
    return fresh_world, hashed


def test_a_confirmed_code_is_valid_for_one_login(device: tuple[World, str]) -> None:
    world, hashed = device
    person = world.user()
    assert world.service.call("take_device_login", p_device_hash=hashed) == {"status": "pending"}
    shown = person.call("device_login", p_user_code="bcdf-ghjk")
    assert (shown["program"], shown["address"]) == ("runyard 1.0 on laptop", "10.0.0.1")
    person.call("decide_device_login", p_user_code="BCDF GHJK", p_is_confirmed=True)
    taken = world.service.call("take_device_login", p_device_hash=hashed)
    assert taken == {"status": "confirmed", "user_id": person.id, "through": None}
    assert world.service.call("take_device_login", p_device_hash=hashed) == {"status": "expired"}


def test_a_declined_code_signs_nobody_in(device: tuple[World, str]) -> None:
    world, hashed = device
    person = world.user()
    person.call("decide_device_login", p_user_code=CODE, p_is_confirmed=False)
    assert is_unknown(person.call("decide_device_login", p_user_code=CODE, p_is_confirmed=True))
    assert world.service.call("take_device_login", p_device_hash=hashed)["status"] == "declined"


def test_an_old_code_is_void(device: tuple[World, str]) -> None:
    world, hashed = device
    world.owner.connection.execute("update private.device_logins set expires_at = now()")
    assert is_unknown(world.user().call("device_login", p_user_code=CODE))
    assert world.service.call("take_device_login", p_device_hash=hashed) == {"status": "expired"}


def test_used_codes_and_invalid_fields_are_refused(device: tuple[World, str]) -> None:
    world, _ = device
    again = {"p_device_hash": sha256("another"), "p_user_code": CODE, "p_program": "x"}
    with refused("RY409", "That code is in use."):
        world.service.call("start_device_login", **again)
    with refused("RY422", "A field of the login is missing or not valid."):
        world.service.call("start_device_login", **{**again, "p_user_code": "12345678"})
    with refused("RY422", "Confirm it or decline it."):
        world.user().call("decide_device_login", p_user_code=CODE, p_is_confirmed=None)
    for wrong in ("", "XXXXXXXX", "BCDFGHJKL"):
        assert is_unknown(world.user().call("device_login", p_user_code=wrong))


def test_guesses_are_counted_and_stopped(device: tuple[World, str]) -> None:
    world, _ = device
    guesser, other = world.user(), world.user()
    for _ in range(20):
        assert is_unknown(guesser.call("device_login", p_user_code="XXXXXXXX"))
    with refused("RY429", "Too many codes were tried."):
        guesser.call("device_login", p_user_code=CODE)
    with refused("RY429", "Too many codes were tried."):
        guesser.call("decide_device_login", p_user_code=CODE, p_is_confirmed=True)
    assert other.call("device_login", p_user_code=CODE)["program"] == "runyard 1.0 on laptop"


def test_a_service_account_confirms_nobody(device: tuple[World, str]) -> None:
    world, _ = device
    org: Organization = world.organization()
    with refused("RY403", "This is for people, not for service accounts."):
        org.acting(org.account("admin")).call("decide_device_login", p_user_code=CODE, p_is_confirmed=True)


CALLBACK = {"redirect_uri": "http://localhost:10003/login", "challenge": "c" * 43, "state": "s"}


def start_terminal(world: World) -> None:
    asked = {"p_device_hash": sha256("x"), "p_user_code": CODE, "p_program": "tofu login", "p_callback": CALLBACK}
    world.service.call("start_device_login", **asked)


def take(world: World, code: str, **change: str) -> dict[str, Any] | None:
    given = {"p_redirect_uri": CALLBACK["redirect_uri"], "p_challenge": CALLBACK["challenge"], "p_hint": "abcd"}
    hashes = {"p_code_hash": sha256(code), "p_token_hash": sha256("token")}
    return world.service.call("take_terminal_login", **{**given, **hashes, **change})


def test_a_terminal_gets_a_limited_token_for_its_code_once(fresh_world: World) -> None:
    start_terminal(fresh_world)
    person = fresh_world.user()
    done = person.call("decide_device_login", p_user_code=CODE, p_is_confirmed=True, p_role="planner")
    address, _, code = done["return_to"].partition("?code=")
    assert (address, done["state"]) == (CALLBACK["redirect_uri"], "s")
    # The code opens no session: that is for programs that show their code.
    assert fresh_world.service.call("take_device_login", p_device_hash=sha256(code)) == {"status": "expired"}
    assert (take(fresh_world, code) or {})["role"] == "planner"
    assert take(fresh_world, code) is None


@pytest.mark.parametrize("change", [{"p_challenge": "d" * 43}, {"p_redirect_uri": "http://localhost:10004/login"}])
def test_another_program_gets_no_token_for_the_code(fresh_world: World, change: dict[str, str]) -> None:
    start_terminal(fresh_world)
    done = fresh_world.user().call("decide_device_login", p_user_code=CODE, p_is_confirmed=True)
    code = done["return_to"].partition("?code=")[2]
    assert take(fresh_world, code, **change) is None
    assert take(fresh_world, code) is None, "a guess uses the code up"


def test_a_declined_terminal_returns_without_a_code(fresh_world: World) -> None:
    start_terminal(fresh_world)
    done = fresh_world.user().call("decide_device_login", p_user_code=CODE, p_is_confirmed=False)
    assert done["return_to"] == f"{CALLBACK['redirect_uri']}?error=access_denied"


@pytest.mark.parametrize(
    "change",
    [
        {"redirect_uri": "https://localhost:10003/login"},
        {"redirect_uri": "http://localhost:10011/login"},
        {"redirect_uri": "http://localhost:10003/login?x=1"},
        {"redirect_uri": "http://localhost:10003@example.com/login"},
        {"challenge": "short"},
        {"state": "s" * 501},
    ],
)
def test_a_terminal_s_login_returns_to_the_person_s_own_machine_alone(
    fresh_world: World, change: dict[str, Any]
) -> None:
    asked = {"p_device_hash": sha256("x"), "p_user_code": CODE, "p_program": "tofu login"}
    with refused("RY422", "The login's return address, challenge or state is not valid."):
        fresh_world.service.call("start_device_login", **asked, p_callback=CALLBACK | change)


def test_a_login_gets_no_role_of_an_owner(device: tuple[World, str]) -> None:
    world, _ = device
    with refused("RY422", "That is not a role for a token."):
        world.user().call("decide_device_login", p_user_code=CODE, p_is_confirmed=True, p_role="owner")
