"""A provider's answers are checked before anybody is signed in: each thing that an attacker, or a wrong setting, can change."""

import asyncio
import time
from collections.abc import Awaitable
from typing import Any

import httpx
import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from joserfc import jws
from joserfc.jwk import ECKey, OctKey, RSAKey

from stack.auth.oidc import LONGEST_TOKEN, MOST_BYTES, Oidc, Outgoing, Provider, ProviderFault, RefusedGrant, Tokens

ISSUER = "https://id.example.com"
PROVIDER = Provider("custom:x", ISSUER, "", "client", "s%cret:")
DOCUMENT = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/auth",
    "token_endpoint": f"{ISSUER}/token",
    "jwks_uri": f"{ISSUER}/jwks",
    "userinfo_endpoint": f"{ISSUER}/me",
}


class Site(Outgoing):
    """A provider whose answers a test chooses."""

    def __init__(self) -> None:
        super().__init__(resolve=lambda _: ["93.184.216.34"])
        self.key = ECKey.generate_key("P-256", {"kid": "one"})
        self.answers: dict[str, tuple[int, Any]] = {f"{ISSUER}/.well-known/openid-configuration": (200, DOCUMENT)}
        self.publish(self.key)
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def publish(self, *keys: Any) -> None:
        self.answers[f"{ISSUER}/jwks"] = (200, {"keys": [key.as_dict(private=False) for key in keys]})

    async def json(self, method: str, url: str, **request: Any) -> tuple[int, dict[str, Any]]:
        self.asked.append((url, request))
        return self.answers[url]


def serialization(key: rsa.RSAPrivateKey) -> bytes:
    form = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return key.private_bytes(*form)


def run(work: Awaitable[Any]) -> Any:
    async def wait() -> Any:
        return await work

    return asyncio.run(wait())


def token(key: Any, *, alg: str = "ES256", kid: str | None = "one", **changes: Any) -> str:
    now = int(time.time())
    claims = {"iss": ISSUER, "aud": "client", "sub": "1", "exp": now + 60, "iat": now, "nonce": "n"} | changes
    header = {"alg": alg} if kid is None else {"alg": alg, "kid": kid}
    shown = {name: value for name, value in claims.items() if value is not ...}
    return jws.serialize_compact(header, orjson.dumps(shown), key, algorithms=[alg])


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def oidc(site: Site) -> Oidc:
    return Oidc(site)


def test_a_right_token_is_believed(site: Site, oidc: Oidc) -> None:
    assert run(oidc.verify(PROVIDER, token(site.key), "n"))["sub"] == "1"
    assert run(oidc.verify(PROVIDER, token(site.key, kid=None), "n"))["sub"] == "1"
    assert run(oidc.verify(PROVIDER, token(site.key, aud=["client", "x"], azp="client"), "n"))["sub"] == "1"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"iss": "https://evil.example.com"}, "is of the issuer"),
        ({"iss": ...}, "is of the issuer"),
        ({"aud": "other"}, "is for another client"),
        ({"aud": ...}, "is for another client"),
        ({"aud": ["other", 7]}, "is for another client"),
        ({"aud": ["client", "other"]}, "names no authorised party"),
        ({"azp": "other"}, "was issued for another party"),
        ({"nonce": "other"}, "has another nonce"),
        ({"nonce": ...}, "has another nonce"),
        ({"exp": 1}, "has expired; check both clocks"),
        ({"exp": ...}, "has no exp"),
        ({"exp": True}, "has no exp"),
        ({"exp": "tomorrow"}, "has no exp"),
        ({"iat": 99999999999}, "is from the future; check both clocks"),
        ({"iat": ...}, "has no iat"),
        ({"sub": ...}, "names nobody"),
        ({"sub": ""}, "names nobody"),
        ({"sub": 7}, "names nobody"),
        ({"sub": "x" * 256}, "names nobody"),
    ],
)
def test_a_wrong_claim_signs_nobody_in(site: Site, oidc: Oidc, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ProviderFault, match=words):
        run(oidc.verify(PROVIDER, token(site.key, **changes), "n"))


def test_clocks_may_differ_by_a_minute(site: Site, oidc: Oidc) -> None:
    now = int(time.time())
    assert run(oidc.verify(PROVIDER, token(site.key, exp=now - 30, iat=now + 30), "n"))


def test_no_signature_but_that_of_a_published_key_counts(site: Site, oidc: Oidc) -> None:
    other = ECKey.generate_key("P-256", {"kid": "one"})
    good = token(site.key)
    head, payload, _ = good.split(".")
    public = OctKey.import_key(orjson.dumps(site.key.as_dict(private=False)))
    secret = OctKey.import_key(PROVIDER.client_secret * 8)
    bad = (
        token(other),
        f"{head}.{payload}.",
        f"{head}.{payload}",
        "",
        "a.b.c",
        "e30.e30.e30",
        "eyJhbGciOiJub25lIn0.e30.",
        "eyJhbGciOiJub25lIiwia2lkIjoib25lIn0.e30.",
        token(public, alg="HS256"),
        token(secret, alg="HS256"),
        good + "x" * LONGEST_TOKEN,
    )
    for each in bad:
        with pytest.raises(ProviderFault):
            run(oidc.verify(PROVIDER, each, "n"))


def test_an_unknown_key_asks_for_the_keys_again_but_not_all_the_time(site: Site) -> None:
    now = [time.time()]
    oidc = Oidc(site, lambda: now[0])
    fresh = ECKey.generate_key("P-256", {"kid": "two"})
    run(oidc.verify(PROVIDER, token(site.key), "n"))
    site.publish(fresh)
    count = len(site.asked)
    for _ in range(3):
        with pytest.raises(ProviderFault, match="has no key 'two'"):
            run(oidc.verify(PROVIDER, token(fresh, kid="two"), "n"))
    assert len(site.asked) == count
    now[0] += 11
    assert run(oidc.verify(PROVIDER, token(fresh, kid="two"), "n"))["sub"] == "1"
    with pytest.raises(ProviderFault, match="has no key 'one'"):
        run(oidc.verify(PROVIDER, token(site.key), "n"))


@pytest.mark.filterwarnings("ignore:Key size")
def test_weak_keys_and_keys_for_something_else_are_no_keys(site: Site, oidc: Oidc) -> None:
    weak = RSAKey.import_key(serialization(rsa.generate_private_key(65537, 1024)), {"kid": "weak"})
    site.answers[f"{ISSUER}/jwks"] = (
        200,
        {
            "keys": [
                weak.as_dict(private=False),
                {**site.key.as_dict(private=False), "use": "enc"},
                {"kty": "oct", "k": "AAAA", "kid": "one"},
                "x",
                None,
                {"kty": "EC"},
            ]
        },
    )
    for each in (token(weak, alg="RS256", kid="weak"), token(site.key)):
        with pytest.raises(ProviderFault, match="has no key"):
            run(oidc.verify(PROVIDER, each, "n"))


@pytest.mark.parametrize(
    "change",
    [
        {"issuer": "https://evil.example.com"},
        {"issuer": f"{ISSUER}/"},
        {"token_endpoint": "http://id.example.com/token"},
        {"token_endpoint": ""},
        {"jwks_uri": "file:///etc/passwd"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "https://user:word@id.example.com"},
    ],
)
def test_a_discovery_document_is_the_issuers_own_and_leads_nowhere_else(
    site: Site, oidc: Oidc, change: dict[str, Any]
) -> None:
    site.answers[f"{ISSUER}/.well-known/openid-configuration"] = (200, DOCUMENT | change)
    with pytest.raises(ProviderFault):
        run(oidc.discover(PROVIDER))


def test_a_refused_code_and_a_provider_that_is_away_are_two_things(site: Site, oidc: Oidc) -> None:
    site.answers[f"{ISSUER}/token"] = (400, {"error": "invalid_grant"})
    with pytest.raises(RefusedGrant, match="invalid_grant") as refused:
        run(oidc.exchange(PROVIDER, grant_type="authorization_code", code="used"))
    assert not refused.value.away
    headers = site.asked[-1][1]["headers"]
    assert headers["authorization"] == "Basic Y2xpZW50OnMlMjVjcmV0JTNB"
    for status in (429, 500, 503):
        site.answers[f"{ISSUER}/token"] = (status, {})
        with pytest.raises(ProviderFault) as away:
            run(oidc.exchange(PROVIDER, grant_type="refresh_token"))
        assert away.value.away


def test_claims_that_the_token_lacks_come_from_the_same_person_alone(site: Site, oidc: Oidc) -> None:
    tokens = Tokens(token(site.key), "access", "")
    site.answers[f"{ISSUER}/me"] = (200, {"sub": "1", "email": "a@b.c", "iss": "x", "role": "owner"})
    claims = run(oidc.claims(PROVIDER, tokens, "n", ["email"]))
    assert (claims["email"], claims["iss"], "role" in claims) == ("a@b.c", ISSUER, False)
    for wrong in ({"sub": "2", "email": "a@b.c"}, {"email": "a@b.c"}):
        site.answers[f"{ISSUER}/me"] = (200, wrong)
        with pytest.raises(ProviderFault, match="speaks of another person"):
            run(oidc.claims(PROVIDER, tokens, "n", ["email"]))
    # A first sign-in without an ID token is none; a refresh may have none.
    with pytest.raises(ProviderFault, match="no ID token"):
        run(oidc.claims(PROVIDER, Tokens("", "access", ""), "n", ["email"]))
    site.answers[f"{ISSUER}/me"] = (200, {"sub": "1", "email": "a@b.c"})
    assert run(oidc.claims(PROVIDER, Tokens("", "access", ""), None, ["email"]))["sub"] == "1"


@pytest.mark.parametrize(
    "address", ["10.0.0.1", "127.0.0.1", "169.254.169.254", "::1", "fd00::1", "224.0.0.1", "0.0.0.0"]
)
def test_no_request_goes_into_this_network_unless_the_operator_named_the_host(address: str) -> None:
    with pytest.raises(ProviderFault, match="resolves to a private address"):
        run(Outgoing(resolve=lambda _: ["93.184.216.34", address]).check("https://id.example.com"))
    assert run(Outgoing(["id.example.com"]).check("http://id.example.com/x")) is None


def test_only_https_and_names_that_resolve_are_asked() -> None:
    def nothing(_: str) -> list[str]:
        raise OSError

    for url in ("http://id.example.com", "ftp://id.example.com", "https://", "/x"):
        with pytest.raises(ProviderFault):
            run(Outgoing(resolve=lambda _: ["93.184.216.34"]).check(url))
    with pytest.raises(ProviderFault, match="does not resolve"):
        run(Outgoing(resolve=nothing).check("https://id.example.com"))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (httpx.Response(200, text="<html>", headers={"content-type": "text/html"}), "200 with 'text/html', not JSON"),
        (httpx.Response(302, headers={"location": "http://169.254.169.254"}), "302 with"),
        (httpx.Response(200, text="[]"), "without a JSON object"),
        (httpx.Response(200, content=b"x" * (MOST_BYTES + 1)), "more than"),
    ],
)
def test_an_answer_is_a_json_object_of_reasonable_size(
    monkeypatch: pytest.MonkeyPatch, answer: httpx.Response, words: str
) -> None:
    transport = httpx.MockTransport(lambda _: answer)
    whole = httpx.AsyncClient
    monkeypatch.setattr(httpx, "AsyncClient", lambda **more: whole(transport=transport, **more))
    with pytest.raises(ProviderFault, match=words):
        run(Outgoing(["id.example.com"]).json("GET", "https://id.example.com/x"))


def test_the_checked_address_is_the_one_that_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[httpx.Request] = []

    def note(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={})

    whole = httpx.AsyncClient
    monkeypatch.setattr(httpx, "AsyncClient", lambda **more: whole(transport=httpx.MockTransport(note), **more))
    run(Outgoing(resolve=lambda _: ["93.184.216.34"]).json("GET", "https://id.example.com/x?y=1"))
    assert (seen[0].url.host, seen[0].headers["host"]) == ("93.184.216.34", "id.example.com")
    assert seen[0].extensions["sni_hostname"] == "id.example.com"
