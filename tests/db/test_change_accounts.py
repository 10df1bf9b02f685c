"""The accounts and addresses by which a change names its authors: which member they are."""

import pytest

from tests.db.git_site import Site, read
from tests.db.test_change_authors import OWN, applied_next, approve, pushed, site
from tests.db.test_comment_commands import LOGIN
from tests.db.world import refused

__all__ = ["site"]


@pytest.mark.parametrize(
    "case", ["renamed before the link", "renamed after the link", "former login of a commit", "unlinked"]
)
def test_an_account_counts_under_every_login_that_it_had(site: Site, case: str) -> None:
    """The host's number is the account; its login is only a name."""
    _, org, _, _ = site
    member = org.member("operator")
    link = {"p_org": org.id, "p_host": LOGIN["p_host"]}
    pushed(site, 4, ("login:ann", "id:11", "account:11:Ann"))
    read(site, 4, dns="d2")
    if case == "renamed before the link":
        pushed(site, 5, ("login:ann2", "id:11", "account:11:ann2"))
        read(site, 4, dns="d2")
    name = "ann" if case in ("renamed after the link", "unlinked") else "ann2"
    org.owner.call("link_git_login", p_user=member.id, p_login=name, **link)
    if case == "unlinked":
        member.call("unlink_git_login", p_login=name, **link)
    if case == "former login of a commit":
        pushed(site, 5, ("login:ann2", "id:11", "account:11:ann2"))
        read(site, 4, dns="d2")
    former = case in ("renamed before the link", "former login of a commit")
    pushed(site, 6, ("login:ann",) if former else ("login:ann3", "id:11", "account:11:ann3"))
    (plan,) = read(site, 6, vpc="v2")
    apply = applied_next(site, plan)
    with refused("RY403", OWN):
        approve(member, apply)
    assert approve(org.owner, apply)["status"] == "QUEUED"
    assert site[0].owner.rows("select identity from private.git_authors where identity like 'account:%%'") == []


def test_another_account_is_another_person(site: Site) -> None:
    _, org, _, _ = site
    member = org.member("operator")
    org.owner.call("link_git_login", p_org=org.id, p_user=member.id, **LOGIN)
    pushed(site, 6, ("login:bot", "id:12", "account:12:bot"))
    (plan,) = read(site, 6, vpc="v2")
    assert approve(member, applied_next(site, plan))["status"] == "QUEUED"


@pytest.mark.parametrize("where", ["account", "company"])
def test_every_address_of_an_account_is_its_member(site: Site, where: str) -> None:
    """A member is named by the address of the invitation; the account may have another one by now, or at the company."""
    world, org, _, _ = site
    member = org.member("operator")
    address = f"Other-{member.email}"
    queries = {
        "account": ("update auth.users set email = %s where id = %s", [address, member.id]),
        "company": (
            (
                "insert into auth.identities (provider_id, user_id, identity_data, provider) "
                "values (%s, %s, jsonb_build_object('email', %s::text), 'google')"
            ),
            [member.id, member.id, address],
        ),
    }
    world.owner.connection.execute(*queries[where])
    pushed(site, 6, ("login:bot",))
    (plan,) = read(site, 6, (address.upper(),), vpc="v2")
    with refused("RY403", OWN):
        approve(member, applied_next(site, plan))
