"""Tokens and keys: the accepted and the refused ones."""

from pathlib import Path

import pytest
from joserfc.jwk import ECKey, OctKey

from stack.auth.access import Access, NoKey, WrongKey, bearer
from stack.auth.tokens import KeyRing, TokenError
from stack.secrets import Secrets, load_secrets
from tests.contract.tokens import ISSUER, claims, signed, tampered, unsigned


class Clock:
    """A time that a test sets."""

    def __init__(self) -> None:
        self.offset = 0.0

    def __call__(self) -> float:
        return float(claims()["iat"]) + self.offset


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def secrets(tmp_path: Path) -> Secrets:
    return load_secrets(tmp_path / "secrets.json")


@pytest.fixture
def ring(secrets: Secrets, clock: Clock) -> KeyRing:
    return KeyRing(secrets.signing_jwk, secrets.jwt_secret, ISSUER, clock)


def test_a_signed_token_is_valid_until_it_expires(ring: KeyRing, clock: Clock) -> None:
    token = ring.sign(claims(role="worker", exp=int(clock()) + 60))
    assert ring.verify(token).role == "worker"
    clock.offset = 85
    assert ring.verify(token).role == "worker"
    clock.offset = 95
    with pytest.raises(TokenError) as ended:
        ring.verify(token)
    assert (ended.value.message, ended.value.is_claim) == ("JWT expired", True)


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_tokens_with_another_algorithm_are_refused(ring: KeyRing, secrets: Secrets, algorithm: str) -> None:
    with pytest.raises(TokenError):
        ring.verify(signed(OctKey.import_key(secrets.jwt_secret), algorithm))


def test_forged_tokens_are_refused(ring: KeyRing, secrets: Secrets) -> None:
    good = ring.sign(claims())
    stranger = ECKey.generate_key("P-256", private=True)
    kid = secrets.signing_jwk["kid"]
    for token in (
        unsigned(), tampered(good, role="postgres"), signed(stranger, "ES256"), signed(stranger, "ES256", kid=kid),
        good + "x", good[:-2], "", ".", "..", "a.b.c", good.replace(".", "", 1), "é.é.é", "x" * 20_000 + ".a.b",
    ):  # fmt: skip
        with pytest.raises(TokenError):
            ring.verify(token)


@pytest.mark.parametrize(
    "bad",
    [
        {"exp": "soon"},
        {"exp": None},
        {"iss": None},
        {"iss": "https://other"},
        {"iss": "supabase"},
        {"aud": "x"},
        {"aud": ["x"]},
        {"exp": True},
        {"nbf": 4_000_000_000},
        {"iat": 4_000_000_000},
        {"nbf": "x"},
    ],
)
def test_tokens_with_invalid_claims_are_refused(ring: KeyRing, bad: dict[str, object]) -> None:
    with pytest.raises(TokenError) as refused:
        ring.verify(ring.sign(claims(**bad)))
    assert refused.value.is_claim


def test_a_token_without_a_role_is_nobodys(ring: KeyRing) -> None:
    without = {name: value for name, value in claims().items() if name != "role"}
    assert ring.verify(ring.sign(without)).role == "anon"


def test_keys_and_tokens_decide_together(ring: KeyRing, secrets: Secrets) -> None:
    access = Access(secrets.publishable_key, secrets.secret_key, secrets.forwarding_key, ring)
    token = ring.sign(claims(role="authenticated"))
    assert access.identify(secrets.publishable_key, None).role == "anon"
    assert access.identify(secrets.secret_key, f"Bearer {secrets.secret_key}").role == "service_role"
    assert access.identify(secrets.secret_key, f"bearer {token}").role == "authenticated"
    with pytest.raises(NoKey):
        access.identify(None, f"Bearer {token}")
    with pytest.raises(WrongKey):
        access.identify(token, f"Bearer {token}")
    with pytest.raises(TokenError):
        access.identify(secrets.publishable_key, f"Bearer {secrets.secret_key}")
    with pytest.raises(WrongKey):
        access.identify("sb_secret_x", None)


def test_only_bearer_tokens_count() -> None:
    assert bearer("Bearer  abc ") == "abc"
    assert bearer("Basic abc") is None
    assert bearer(None) is None
