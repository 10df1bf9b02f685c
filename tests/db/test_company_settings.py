"""Owners choose how members sign in with the company's account: domains, the provider, groups of teams."""

import pytest

from tests.db.test_company_sign_in import DOMAIN, owner_signs_in, provider, sign_in, sso, team
from tests.db.world import Caller, Organization, refused

__all__ = ["sso"]


@pytest.mark.parametrize(
    "domain", ["", "example", "exa mple.org", "-a.org", "a.org/", "a" * 64 + ".org", "*.example.org"]
)
def test_a_domain_is_a_domain(sso: Organization, domain: str) -> None:
    with refused("RY422", "That is not a domain."):
        sso.owner.call("add_sign_in_domain", p_org=sso.id, p_domain=domain)


def test_only_the_proof_itself_proves_a_domain(sso: Organization) -> None:
    world = sso.world
    sso.owner.call("add_sign_in_domain", p_org=sso.id, p_domain="example.net")
    asked = {"p_org": sso.id, "p_domain": "example.net"}
    service = world.service
    for texts in ("{}", "{runyard-proof=}", "{runyard-proof=x}", "{NULL}"):
        assert service.call("prove_sign_in_domain", **asked, p_texts=texts)["proved_at"] is None
    assert world.service.call("sign_in_provider_of", p_email="ann@example.net") is None
    found = service.call("sign_in_provider_of", p_email=f"Ann@{DOMAIN.upper()}")
    assert found == {"provider": provider(sso), "name": "Example ID", "is_only": False}


def test_the_settings_show_an_admin_everything_but_a_secret_and_whom_the_provider_does_not_know(
    sso: Organization,
) -> None:
    admin = sso.member("admin")
    team(sso, "sre", "infra-sre")
    ann = sign_in(sso, f"ann@{DOMAIN}", ["infra-sre", "staff"])
    shown = admin.call("sign_in_settings", p_org=sso.id)
    assert shown["domains"][0]["record"] == f"_runyard.{DOMAIN}"
    assert ann.email not in shown["outside"]
    assert {sso.owner.email, admin.email} <= set(shown["outside"])
    assert shown["mine"] is None
    owner_signs_in(sso)
    mine = sso.owner.call("sign_in_settings", p_org=sso.id)["mine"]
    assert (mine["claims"]["email"], mine["teams"], mine["groups"]) == (sso.owner.email, [], [])


def test_two_teams_do_not_share_a_group(sso: Organization) -> None:
    team(sso, "sre", "infra-sre")
    with refused("RY409", "Another team is filled by this group."):
        team(sso, "two", "infra-sre")
    with refused("RY422", "A group's name has at most 255 characters."):
        team(sso, "long", "x" * 256)
    assert isinstance(sso.owner, Caller)


def test_what_an_owner_writes_is_checked(sso: Organization) -> None:
    whole = {"p_name": "ID", "p_issuer": "https://id.example.com", "p_client_id": "x"}
    for wrong in ({"p_name": ""}, {"p_client_id": None}, {"p_claim": "a b"}, {"p_secret_hint": "12345"}):
        with refused("RY422", "The provider's name, issuer, client id, secret or claim is not valid."):
            sso.owner.call("set_sign_in_provider", p_org=sso.id, **whole | wrong)
    other = sso.world.organization()
    with refused("RY404", "This organisation has no identity provider."):
        other.owner.call("add_sign_in_domain", p_org=other.id, p_domain="example.net")
    sso.owner.call("add_sign_in_domain", p_org=sso.id, p_domain="example.net")
    with refused("RY409", "This domain is listed already."):
        sso.owner.call("add_sign_in_domain", p_org=sso.id, p_domain="example.net")
    sso.world.owner.connection.execute(
        "insert into private.sign_in_domains (org_id, domain) select %s, 'a' || n || '.org' from generate_series(1, 98) as n",
        [sso.id],
    )
    with refused("RY413", "This organisation has 100 domains, which is the limit."):
        sso.owner.call("add_sign_in_domain", p_org=sso.id, p_domain="example.com")
    with refused("RY404", "No identity provider speaks for your address."):
        sso.world.user("ann@example.net").call("allow_sign_in_link")
