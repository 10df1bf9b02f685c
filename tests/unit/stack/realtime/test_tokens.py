import time
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey

from stack.auth.tokens import KeyRing
from stack.realtime.errors import TokenRefused
from stack.realtime.tokens import TokenVerifier
from tests.contract.tokens import ISSUER, hmac_signed

SECRET = "a secret that is long enough to sign"
KEY = ECKey.generate_key("P-256", {"kid": "mine", "alg": "ES256", "use": "sig"})


@pytest.fixture
def verifier() -> TokenVerifier:
    return TokenVerifier("sb_publishable_x", "sb_secret_x", KeyRing(dict(KEY.as_dict(private=True)), SECRET, ISSUER))


def token(claims: dict[str, Any], key: ECKey | OctKey = KEY, **header: Any) -> str:
    whole = {"iss": ISSUER, "aud": "authenticated", **claims}
    return jwt.encode({"alg": "ES256", "typ": "JWT", "kid": "mine"} | header, whole, key)


def soon() -> int:
    return int(time.time()) + 60


def test_api_keys_are_roles(verifier: TokenVerifier) -> None:
    assert verifier.identify("sb_publishable_x").role == "anon"
    assert verifier.identify("sb_secret_x").role == "service_role"


def test_equal_claims_are_one_identity(verifier: TokenVerifier) -> None:
    exp = soon()
    one = verifier.identify(token({"role": "authenticated", "exp": exp, "sub": "a"}))
    two = verifier.identify(token({"sub": "a", "exp": exp, "role": "authenticated"}))
    other = verifier.identify(token({"role": "authenticated", "exp": exp, "sub": "b"}))
    assert one == two
    assert hash(one) == hash(two)
    assert one != other


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (lambda: "", "MalformedJWT"),
        (lambda: "a.b.c", "MalformedJWT"),
        (lambda: "x" * 20_000, "MalformedJWT"),
        (lambda: "W10.W10.W10", "MalformedJWT"),
        (lambda: "sb_publishable_other", "MalformedJWT"),
        (lambda: token({"role": "anon", "exp": soon()}, kid="other"), "JwtSignerError"),
        (lambda: token({"role": "anon", "exp": soon()}, ECKey.generate_key("P-256")), "JwtSignatureError"),
        (lambda: token({"role": "anon", "exp": soon()}, OctKey.import_key(SECRET), alg="HS256"), "JwtSignerError"),
        (lambda: token({"role": "anon"}), "InvalidJWTToken"),
        (lambda: token({"role": "authenticated", "exp": soon(), "iss": "https://other"}), "InvalidJWTToken"),
        (lambda: token({"role": "authenticated", "exp": soon(), "aud": "other"}), "InvalidJWTToken"),
        (lambda: token({"exp": soon()}), "InvalidJWTToken"),
        (lambda: token({"role": 7, "exp": soon()}), "InvalidJWTToken"),
        (lambda: token({"role": "anon", "exp": "soon"}), "InvalidJWTToken"),
        (lambda: token({"role": "anon", "exp": int(time.time()) - 5}), "InvalidJWTToken"),
        (lambda: "eyJhbGciOiJub25lIn0.eyJyb2xlIjoiYW5vbiJ9.", "JwtSignerError"),
    ],
)  # fmt: skip
def test_invalid_tokens_are_refused_with_a_code(verifier: TokenVerifier, made: Any, code: str) -> None:
    with pytest.raises(TokenRefused) as caught:
        verifier.identify(made())
    assert caught.value.code == code
    assert caught.value.message


def test_the_public_key_is_no_secret(verifier: TokenVerifier) -> None:
    confused = hmac_signed(KEY.as_pem(private=False), "mine", role="service_role")
    with pytest.raises(TokenRefused):
        verifier.identify(confused)
