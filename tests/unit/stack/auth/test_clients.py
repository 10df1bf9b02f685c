"""The address from which a session was opened: only servers of ours may name it."""

from pathlib import Path

import pytest

from stack.auth.access import Access
from stack.auth.sessions import Client
from stack.auth.tokens import KeyRing
from stack.secrets import Secrets, load_secrets


@pytest.fixture
def secrets(tmp_path: Path) -> Secrets:
    return load_secrets(tmp_path / "secrets.json")


@pytest.fixture
def access(secrets: Secrets) -> Access:
    ring = KeyRing(secrets.signing_jwk, secrets.jwt_secret, "https://issuer")
    return Access(secrets.publishable_key, secrets.secret_key, secrets.forwarding_key, ring)


@pytest.mark.parametrize(
    ("peer", "said", "kept"),
    [
        ("127.0.0.1", "", "127.0.0.1"),
        ("127.0.0.1", "203.0.113.9", "203.0.113.9"),
        ("::1", "2001:DB8::7", "2001:db8::7"),
        ("fe80::1%eth0", "", "fe80::1"),
        ("unknown", "", None),
        ("127.0.0.1", "unknown", None),
        ("127.0.0.1", "10.0.0.0/8", None),
        ("127.0.0.1", "203.0.113.9:4000", None),
        ("127.0.0.1", "<script>", None),
    ],
)
def test_only_a_valid_address_is_kept(peer: str, said: str, kept: str | None) -> None:
    assert Client(peer, "agent", said).ip == kept


def test_the_functions_and_the_dashboard_may_forward_a_clients_address(access: Access, secrets: Secrets) -> None:
    for shown in ({"apikey": secrets.secret_key}, {"x-runyard-forwarding-key": secrets.forwarding_key}):
        assert access.forwarded_for({**shown, "sb-forwarded-for": "203.0.113.9"}) == "203.0.113.9"
        assert access.forwarded_for({**shown, "sb-forwarded-for": " 203.0.113.9, 10.0.0.1"}) == "203.0.113.9"
        assert access.forwarded_for({**shown, "x-forwarded-for": "203.0.113.9"}) == ""
        assert len(access.forwarded_for({**shown, "sb-forwarded-for": "1" * 9999})) <= 64


@pytest.mark.parametrize("name", ["apikey", "x-runyard-forwarding-key", "x-other"])
def test_nobody_else_is_believed(access: Access, secrets: Secrets, name: str) -> None:
    claim = {"sb-forwarded-for": "203.0.113.9", "x-forwarded-for": "203.0.113.9"}
    for key in ("", "x", "\udcff", secrets.publishable_key, secrets.forwarding_key[:-1], secrets.jwt_secret):
        assert access.forwarded_for({**claim, name: key}) == ""


def test_the_dashboards_key_opens_nothing_else(access: Access, secrets: Secrets) -> None:
    assert access.forwarded_for({"apikey": secrets.forwarding_key, "sb-forwarded-for": "203.0.113.9"}) == ""
    assert secrets.forwarding_key not in (secrets.secret_key, secrets.publishable_key, secrets.jwt_secret)
