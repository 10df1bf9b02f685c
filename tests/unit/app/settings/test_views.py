"""Settings in words: members, cloud identities and service accounts."""

from datetime import UTC, datetime, timedelta

import pytest

from app.settings.view import cloud_identities as identities
from app.settings.view import members
from app.settings.view import service_accounts as accounts

NOW = datetime(2026, 11, 15, 14, 0, tzinfo=UTC)
ARN = "arn:aws:iam::123456784410:role/runyard-deploy"
IDENTITY = {"name": "aws-production", "role_arn": ARN, "regions": "eu-west-1, us-east-1"}


def test_members_are_sorted_by_role_and_invitations_are_last() -> None:
    rows = members.build_rows(
        [
            {"user_id": "2", "email": "b@example.com", "role": "viewer"},
            {"user_id": "1", "email": "a@example.com", "role": "owner"},
        ],
        [
            {
                "id": "i",
                "email": "new@example.com",
                "role": "viewer",
                "expires_at": (NOW - timedelta(days=1)).isoformat(),
            },
            {"id": "j", "email": "old@example.com", "role": "viewer", "accepted_at": "x"},
        ],
        [{"user_id": "1", "has_two_step": True, "last_sign_in_at": "x"}],
        me="2",
        my_role="admin",
        now=NOW,
    )
    assert [(row["email"], row["is_me"], row["is_invited"]) for row in rows] == [
        ("a@example.com", False, False),
        ("b@example.com", True, False),
        ("new@example.com", False, True),
    ]
    assert [row["can_change"] for row in rows] == [False, True, True]
    assert [members.build_removal(row)["title"] for row in rows] == [
        "Remove a@example.com?",
        "Leave this organisation?",
        "Withdraw the invitation of new@example.com?",
    ]
    assert rows[2]["is_expired"]
    assert [(row["two_step"], row["signed_in_at"]) for row in rows] == [("On", "x"), ("–", ""), ("–", "")]


@pytest.mark.parametrize(
    ("text", "is_good"), [("a@example.org", True), ("a@b", False), ("a b@c.d", False), ("", False)]
)
def test_addresses(text: str, is_good: bool) -> None:
    assert (members.check_email(text) == "") is is_good


def test_an_identitys_account_is_read_from_its_role() -> None:
    checked = identities.check_form(IDENTITY)
    assert checked.errors == {}
    assert checked.spec["account_id"] == "123456784410"
    assert checked.spec["network"] == {"create_vpc": True}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", ""),
        ("role_arn", "arn:aws:iam::1:role/x"),
        ("role_arn", "arn:aws:iam::123456784410:user/x"),
        ("regions", ""),
        ("regions", "europe"),
        ("subnets", "vpc-1"),
        ("security_groups", "sg"),
    ],
)
def test_an_invalid_identity_field_is_reported(key: str, value: str) -> None:
    assert list(identities.check_form({**IDENTITY, key: value}).errors) == [key]


def test_own_subnets_mean_no_new_network() -> None:
    checked = identities.check_form({**IDENTITY, "subnets": "subnet-0a1b2c3d", "security_groups": "sg-0a1b2c3d"})
    assert checked.spec["network"] == {
        "create_vpc": False,
        "subnets": ["subnet-0a1b2c3d"],
        "security_groups": ["sg-0a1b2c3d"],
    }


def test_an_identitys_row_shows_role_regions_and_runners() -> None:
    row = {"id": "c", "name": "aws", "role_arn": ARN, "regions": ["a", "b", "c"], "external_id": "e"}
    view = identities.build_view(row, [{"cloud_identity_id": "c"}, {"cloud_identity_id": "d"}])
    assert (view["role"], view["regions"], view["runners"], view["check"]) == (
        "…4410:role/runyard-deploy",
        "a, b and 1 more",
        1,
        "UNKNOWN",
    )
    assert '"sts:ExternalId": "e"' in identities.trust_policy("e")


def test_a_running_test_is_shown_instead_of_the_last_verdict() -> None:
    row = {"id": "c", "name": "aws", "verified_at": "x"}
    old = {"id": 1, "number": 1, "status": "SUCCEEDED", "target_identity_id": "c"}
    queued = {"id": 1002, "number": 2, "status": "QUEUED", "target_identity_id": "c"}
    other = {"id": 3, "status": "PROCESSING", "target_identity_id": "d"}
    assert identities.build_view(row, (), [old, other])["check"] == "WORKS"
    testing = identities.build_view(row, (), [queued, old, other])
    assert (testing["check"], testing["test_job"]) == ("TESTING", 2)
    broken = identities.build_view({**row, "verification_error": "No trust."}, (), [])
    assert (broken["check"], broken["check_words"]) == ("BROKEN", "No trust.")


OIDC = {
    "name": "k8s-runner",
    "way": "oidc",
    "issuer-0": "https://oidc.example.com",
    "audience-0": "runyard",
    "claims-0": '{"sub": "x"}',
}
TRUST = accounts.new_trust("0", "generic")


def test_an_accounts_form_sends_its_trusts() -> None:
    checked = accounts.check_form({**OIDC, "path": "platform"}, is_new=True, trusts=[TRUST])
    assert checked.errors == {}
    assert [trust["bound_claims"] for trust in checked.spec["trusts"]] == [{"sub": "x"}]
    assert checked.spec["role"] is None
    assert checked.spec["path"] == "platform"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", "-"),
        ("issuer-0", "http://oidc.example.com"),
        ("issuer-0", "x"),
        ("audience-0", ""),
        ("claims-0", "{}"),
        ("claims-0", "["),
        ("path", "A B"),
    ],
)
def test_an_invalid_account_field_is_reported(key: str, value: str) -> None:
    assert list(accounts.check_form({**OIDC, key: value}, is_new=True, trusts=[TRUST]).errors) == [key]


def test_an_account_with_a_role_serves_everything() -> None:
    checked = accounts.check_form({**OIDC, "role": "operator", "path": "platform"}, is_new=True, trusts=[TRUST])
    assert list(checked.errors) == ["path"]
    assert accounts.check_form({**OIDC, "role": "operator"}, is_new=True, trusts=[TRUST]).spec["role"] == "operator"
    assert accounts.check_form({**OIDC, "role": "owner"}, is_new=True, trusts=[TRUST]).spec["role"] is None


CI = {"issuer": "https://ci.example.com/x", "audience": "runyard", "bound_claims": {"sub": "x"}}


def test_an_account_shows_its_ways_to_sign_in() -> None:
    assert (
        accounts.build_view({"id": "1", "name": "a", "trusts": [CI], "has_secret": True})["signs_in"]
        == "OIDC, issuer ci.example.com or client secret"
    )
    assert accounts.build_view({"id": "1", "name": "a", "secret_hint": "e81f"})["hint"] == "…e81f"
