"""An organisation whose members sign in at a real provider: a stack, the provider, and the DNS that proves its domain."""

import base64
import hashlib
import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import httpx
import psycopg

from tests.support.identity_provider import CLIENT, SECRET, IdentityProvider, identity_provider
from tests.support.ports import free_ports
from tests.support.stack import RunningStack, start_stack

PASSWORD = "correct horse battery"
OWNER = "owner@example.org"


class Names(BaseHTTPRequestHandler):
    """DNS over HTTPS whose texts a test chooses."""

    texts: ClassVar[dict[str, list[str]]] = {}

    def do_GET(self) -> None:
        name = parse_qs(urlsplit(self.path).query)["name"][0]
        said = [{"name": name, "type": 16, "data": f'"{text}"'} for text in self.texts.get(name, [])]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"Status": 0, "Answer": said}).encode())

    def log_message(self, *_: Any) -> None:
        """Keep the output of the tests clean."""


@dataclass
class Company:
    """An organisation on a stack, with a provider."""

    stack: RunningStack
    provider: IdentityProvider
    owner: str
    org: str

    def post(self, path: str, body: dict[str, Any], token: str = "") -> httpx.Response:
        headers = {"apikey": self.stack.publishable_key} | ({"authorization": f"Bearer {token}"} if token else {})
        return httpx.post(f"{self.stack.url}{path}", json=body, headers=headers, timeout=60)

    def rpc(self, name: str, token: str = "", **arguments: Any) -> Any:
        done = self.post(f"/rest/v1/rpc/{name}", arguments, token or self.owner)
        assert done.is_success, done.text
        return done.json() if done.text else None

    def ask(self, **body: Any) -> httpx.Response:
        return self.post("/functions/v1/sign-in", body, self.owner)

    def one(self, query: str, *values: Any) -> Any:
        with psycopg.connect(self.stack.db_url, autocommit=True) as connection:
            row = connection.execute(query, values).fetchone()
        return row[0] if row else None

    def begin(self, verifier: str, **more: str) -> str:
        """The address of the provider to which Auth sends the browser."""
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        asked = {
            "provider": f"custom:{self.org}",
            "redirect_to": f"{self.stack.settings.dashboard_url}/auth/callback",
            "code_challenge": challenge,
            "code_challenge_method": "s256",
        } | more
        return httpx.get(f"{self.stack.url}/auth/v1/authorize", params=asked, timeout=60).headers["location"]

    def back(self, address: str) -> str:
        """The address of our callback with which the provider sends the browser back."""
        callback = f"{self.stack.url}/auth/v1/callback"
        with httpx.Client(timeout=60) as browser:
            while not address.startswith(callback):
                answer = browser.get(address)
                assert answer.is_redirect, answer.text[:500]
                address = str(answer.next_request.url) if answer.next_request else ""
        return address

    def arrive(self, address: str) -> dict[str, str]:
        """Return the query that the dashboard's callback gets."""
        answer = httpx.get(address, timeout=60)
        # The code must not be posted on, nor named to whatever the page loads.
        assert (answer.status_code, answer.headers["referrer-policy"]) == (303, "no-referrer")
        location = urlsplit(answer.headers["location"])
        found = {name: values[0] for name, values in parse_qs(location.query).items()}
        return found | {"page": f"{location.scheme}://{location.netloc}{location.path}"}

    def swap(self, code: str, verifier: str) -> httpx.Response:
        return self.post("/auth/v1/token?grant_type=pkce", {"auth_code": code, "code_verifier": verifier})

    def sign_in(self, subject: str, **claims: Any) -> dict[str, Any]:
        self.provider.sign_in(subject, **claims)
        verifier = secrets.token_urlsafe(48)
        arrived = self.arrive(self.back(self.begin(verifier)))
        assert "code" in arrived, arrived
        session = self.swap(arrived["code"], verifier)
        assert session.is_success, session.text
        found: dict[str, Any] = session.json()
        return found

    def fails(self, subject: str, **claims: Any) -> dict[str, str]:
        self.provider.sign_in(subject, **claims)
        arrived = self.arrive(self.back(self.begin(secrets.token_urlsafe(48))))
        assert "code" not in arrived
        return arrived

    def teams(self, session: dict[str, Any]) -> list[str]:
        query = """
            select coalesce(array_agg(t.name order by t.name), '{}') from public.team_members as m
            join public.teams as t on t.id = m.team_id where m.user_id = %s"""
        found: list[str] = self.one(query, session["user"]["id"])
        return found

    def refresh(self, session: dict[str, Any]) -> httpx.Response:
        self.one("update auth.runyard_provider_sessions set read_at = now() - interval '1 hour' returning 1")
        return self.post("/auth/v1/token?grant_type=refresh_token", {"refresh_token": session["refresh_token"]})


def found(stack: RunningStack, provider: IdentityProvider) -> Company:
    """Found the organisation, name the provider and prove the domain, as an owner does."""
    company = Company(stack, provider, "", "")
    company.owner = company.post("/auth/v1/signup", {"email": OWNER, "password": PASSWORD}).json()["access_token"]
    company.org = company.rpc("create_organization", p_name="Example", p_slug="example")["id"]
    saved = company.ask(
        organization=company.org, name="Example ID", issuer=provider.issuer, client_id=CLIENT, client_secret=SECRET,
        scopes="openid email groups offline_access",
    )  # fmt: skip
    assert saved.is_success, saved.text
    assert SECRET not in saved.text
    record = company.rpc("add_sign_in_domain", p_org=company.org, p_domain="example.org")
    asked = {"organization": company.org, "domain": "example.org"}
    assert company.ask(**asked).json()["proved_at"] is None
    Names.texts[record["record"]] = ["v=spf1 -all", record["value"]]
    assert company.ask(**asked).json()["proved_at"]
    team = company.rpc("create_team", p_org=company.org, p_name="sre")["id"]
    company.rpc("set_team_claim", p_team=team, p_claim="infra-sre")
    return company


@contextmanager
def start_company(folder: Path, *arguments: str) -> Iterator[Company]:
    """Run a stack, a provider and a resolver; raises `ToolUnavailable` where the provider cannot be installed."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Names)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    names = f"http://127.0.0.1:{server.server_port}/dns-query"
    variables = {"RUNYARD_FUNCTIONS_ALLOW_NET": "127.0.0.1", "RUNYARD_DNS_URL": names}
    port = free_ports(1)[0]
    with (
        start_stack(folder / "home", *arguments, **variables) as stack,
        identity_provider(folder / "idp", port, f"{stack.url}/auth/v1/callback") as provider,
    ):
        yield found(stack, provider)
    server.shutdown()
