"""A provider that answers wrongly, through a real stack: nobody is signed in, the page gets words, and the log has the reason."""

import json
import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from tests.conftest import _open_folder
from tests.support.company import Company, Names, start_company
from tests.support.npm_tools import ToolUnavailable

INVALID, AWAY = "The provider's answer is not valid.", "The provider did not answer. Try again in a moment."
HTML = (200, "<html>Sign in to the Wi-Fi</html>")


@dataclass
class Crooked:
    """A provider whose answers a test replaces; each name is an issuer of its own, as documents are kept for a while."""

    url: str = ""
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "one"}))
    answers: dict[str, tuple[int, Any]] = field(default_factory=dict)

    def begin(self, name: str) -> str:
        issuer = f"{self.url}/{name}"
        document = {"issuer": issuer, "authorization_endpoint": f"{issuer}/auth", "token_endpoint": f"{issuer}/token",
                    "jwks_uri": f"{issuer}/jwks"}  # fmt: skip
        self.answers = {
            f"/{name}/.well-known/openid-configuration": (200, document),
            f"/{name}/jwks": (200, {"keys": [self.key.as_dict(private=False)]}),
        }
        return issuer

    def tokens(self, issuer: str, given: str, key: RSAKey | None = None, **changes: Any) -> tuple[int, Any]:
        now = int(time.time())
        claims = {"iss": issuer, "aud": "x", "sub": "1", "exp": now + 60, "iat": now, "nonce": given,
                  "email": "ann@crooked.org", "email_verified": True, "groups": []}  # fmt: skip
        signed = jwt.encode({"alg": "RS256", "kid": "one"}, claims | changes, key or self.key)
        return 200, {"id_token": signed, "access_token": "x", "token_type": "Bearer"}


@pytest.fixture(scope="module")
def crooked() -> Iterator[Crooked]:
    made = Crooked()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            status, body = made.answers.get(self.path, (404, {}))
            self.send_response(status)
            self.end_headers()
            self.wfile.write((body if isinstance(body, str) else json.dumps(body)).encode())

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            """Keep the output of the tests clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    made.url = f"http://127.0.0.1:{server.server_port}"
    yield made
    server.shutdown()


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Company]:
    """The organisation whose provider is crooked, on the stack of another one."""
    try:
        with start_company(_open_folder(tmp_path_factory.mktemp("faults")), "--no-dashboard", "--no-demo") as honest:
            made = Company(honest.stack, honest.provider, honest.owner, "")
            made.org = made.rpc("create_organization", p_name="Crooked", p_slug="crooked")["id"]
            yield made
    except ToolUnavailable as error:
        pytest.skip(f"oidc-provider cannot be installed: {error}")


def arrive(company: Company, crooked: Crooked, issuer: str, answer: Any) -> dict[str, str]:
    """Begin at an issuer that was right when it was saved, and return from it."""
    saved = company.ask(
        organization=company.org, name="Crooked", issuer=issuer, client_id="x", client_secret="x", scopes="openid email"
    )
    assert saved.is_success, saved.text
    record = company.rpc("add_sign_in_domain", p_org=company.org, p_domain="crooked.org")
    Names.texts[record["record"]] = [record["value"]]
    assert company.ask(organization=company.org, domain="crooked.org").json()["proved_at"]
    place = issuer.removeprefix(crooked.url)
    for path, given in answer.items() if isinstance(answer, dict) else ():
        crooked.answers[place + path] = given
    address = company.begin(secrets.token_urlsafe(48))
    if address.startswith(issuer):
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        if callable(answer):
            crooked.answers[f"{place}/token"] = answer(asked["nonce"])
        address = f"{company.stack.url}/auth/v1/callback?code=x&state={asked['state']}"
        return company.arrive(address)
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


DOCUMENT = "/.well-known/openid-configuration"
FAULTS: dict[str, tuple[Any, str, str]] = {
    "away": ({DOCUMENT: (503, {})}, AWAY, "503"),
    "web-page": ({DOCUMENT: HTML}, INVALID, "not JSON"),
    "other-issuer": ({DOCUMENT: (200, {"issuer": "https://evil.example.com"})}, INVALID, "names the issuer"),
    "token-page": ({"/token": HTML}, INVALID, "not JSON"),
    "token-away": ({"/token": (502, {})}, AWAY, "502"),
    "replayed": ({"/token": (400, {"error": "invalid_grant"})}, INVALID, "invalid_grant"),
    "keyless": ({"/token": (200, {})}, INVALID, "no ID token"),
    "huge": ({"/token": (200, "x" * 600_000)}, INVALID, "more than"),
}
CLAIMS: dict[str, tuple[dict[str, Any], str]] = {
    "late": ({"exp": 1}, "has expired; check both clocks"),
    "early": ({"iat": 99999999999}, "is from the future; check both clocks"),
    "mixed-up": ({"iss": "https://evil.example.com"}, "is of the issuer"),
    "audience": ({"aud": "y"}, "is for another client"),
    "nonce": ({"nonce": "y"}, "has another nonce"),
}


def check(company: Company, said: dict[str, str], words: str, reason: str) -> None:
    assert (said["error_description"], "code" in said) == (words, False)
    assert company.one("select count(*) from auth.users where email = 'ann@crooked.org'") == 0
    home = company.stack.settings.home
    logs = [path.read_text(errors="replace") for path in (company.stack.log, *home.rglob("*.log"))]
    assert any(reason in line for log in logs for line in log.splitlines() if "Sign-in through" in line)
    assert company.ask(organization=company.org, remove=True).is_success


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_answer_signs_nobody_in(company: Company, crooked: Crooked, name: str) -> None:
    answer, words, reason = FAULTS[name]
    check(company, arrive(company, crooked, crooked.begin(name), answer), words, reason)


@pytest.mark.parametrize("name", CLAIMS)
def test_a_wrong_claim_signs_nobody_in(company: Company, crooked: Crooked, name: str) -> None:
    changes, reason = CLAIMS[name]
    issuer = crooked.begin(name)
    said = arrive(company, crooked, issuer, lambda nonce: crooked.tokens(issuer, nonce, **changes))
    check(company, said, INVALID, reason)


def test_a_token_with_somebody_elses_signature_signs_nobody_in_and_the_right_one_does(
    company: Company, crooked: Crooked
) -> None:
    issuer = crooked.begin("forged")
    other = RSAKey.generate_key(2048, {"kid": "one"})
    said = arrive(company, crooked, issuer, lambda nonce: crooked.tokens(issuer, nonce, other))
    check(company, said, INVALID, "signature")
    issuer = crooked.begin("right")
    assert "code" in arrive(company, crooked, issuer, lambda nonce: crooked.tokens(issuer, nonce))
