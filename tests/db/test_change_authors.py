"""Four eyes for changes from git: everybody who made a change is one of its requesters, and stays one."""

from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.db.git_site import SEALED, URL, Site, announce, commit, first_reading, merged, open_site, push, read
from tests.db.test_comment_commands import LOGIN, prove, say
from tests.db.world import Organization, User, World, refused

CHANGES = {"has_changes": True, "create": 1}
DIGEST = "d" * 64
ANN = ("login:ann",)
OWN = "You made this change; somebody else approves it."
OWN_PULL = "You changed this pull request; somebody else reviews it."


@pytest.fixture
def site(world: World, org: Organization) -> Site:
    made = open_site(world, org)
    for module in org.modules.values():
        org.owner.call("update_module", p_module=module, p_spec={"approvals_required": 1})
    first_reading(made)
    return made


@pytest.fixture
def ann(site: Site) -> User:
    """An operator whose login is linked."""
    member = site[1].member("operator")
    site[1].owner.call("link_git_login", p_org=site[1].id, p_user=member.id, **LOGIN)
    return member


def approve(person: User, job: int) -> Any:
    return person.call("approve_job", p_job=job, p_decision="approve")


def applied_next(site: Site, plan: dict[str, Any], **result: str) -> int:
    """End a plan with changes; returns the apply that waits."""
    site[2].finish(
        plan, p_plan_summary=CHANGES, p_result={"commit": plan["payload"]["options"]["git"]["commit"], **result}
    )
    return int(site[0].owner.one("select id from public.provision_jobs where plan_job_id = %s", plan["id"]))


def pushed(site: Site, number: int, people: tuple[str, ...] = ANN, **more: Any) -> None:
    push(site[0], site[3], after=commit(number), people=list(people), **more)


def planned_pull(site: Site, head: int = 5, content: str = "v2") -> dict[str, Any]:
    (plan,) = merged(site, head, vpc=content)
    site[2].finish(plan, p_plan_summary=CHANGES, p_result={"commit": commit(head), "change_digest": DIGEST})
    return plan


# ## pushes


@pytest.mark.parametrize("who", ["login", "email", "noreply", "number", "runner"])
def test_nobody_approves_the_apply_of_what_they_pushed(site: Site, ann: User, who: str) -> None:
    if who == "number":
        announce(site, 5)
        assert say(site, "help").startswith("DONE")
    people = {
        "login": ("login:Ann",), "email": (f"email:{ann.email.upper()}",), "number": ("id:11", "login:renamed"),
        "noreply": ("email:11+Ann@users.noreply.example.com",), "runner": (),
    }[who]  # fmt: skip
    pushed(site, 6, people)
    (plan,) = read(site, 6, (ann.email,) if who == "runner" else (), vpc="v2")
    assert "emails" not in plan["payload"]["options"]["git"], "members read payloads"
    apply = applied_next(site, plan)
    with refused("RY403", OWN):
        approve(ann, apply)
    assert (
        ann.id in site[1].owner.call("job_page", p_org=site[1].id, p_number=site[0].job(apply)["number"])["requesters"]
    )
    assert approve(site[1].owner, apply)["status"] == "QUEUED"


def test_a_later_push_does_not_hide_who_pushed_before(site: Site, ann: User) -> None:
    """Both pushes are in the plan: one reading covers them, or the first was not applied when the second came."""
    pushed(site, 6)
    pushed(site, 7, ("login:bot",))
    (plan,) = read(site, 7, vpc="v2")
    with refused("RY403", OWN):
        approve(ann, applied_next(site, plan))
    pushed(site, 8, ("login:bot",))
    (plan,) = read(site, 8, vpc="v3")
    apply = applied_next(site, plan)
    with refused("RY403", OWN):
        approve(ann, apply)
    approve(site[1].owner, apply)
    site[2].finish(site[2].claim_one(), p_result={"commit": commit(8)})
    pushed(site, 9, ("login:bot",))
    (plan,) = read(site, 9, vpc="v4")
    assert approve(ann, applied_next(site, plan))["status"] == "QUEUED", "what was applied is nobody's change any more"


def test_a_push_to_another_folder_takes_no_vote(site: Site, ann: User) -> None:
    pushed(site, 6)
    read(site, 6, dns="d2")
    pushed(site, 7, ("login:bot",))
    (plan,) = read(site, 7, vpc="v2")
    assert approve(ann, applied_next(site, plan))["status"] == "QUEUED"


def test_a_schedule_that_applies_what_was_pushed_is_not_for_the_pusher_to_approve(site: Site, ann: User) -> None:
    _, org, _, _ = site
    pushed(site, 6)
    read(site, 6, vpc="v2")
    apply = org.owner.call("enqueue_job", p_org=org.id, p_type="APPLY", p_module=org.modules["net/vpc"])["id"]
    with refused("RY403", OWN):
        approve(ann, apply)


def apply_by_hand(site: Site, number: int) -> int:
    """Another member plans what the branch has, and applies it; the apply waits for an approval."""
    _, org, runner, _ = site
    other, module = org.member("operator"), org.modules["net/vpc"]
    plan = other.call("enqueue_job", p_org=org.id, p_type="PLAN", p_module=module)
    (plan,) = (job for job in runner.claim(10) if job["id"] == plan["id"])
    runner.finish(plan, p_plan_summary=CHANGES, p_result={"commit": commit(number)})
    options = {"plan_job_id": plan["id"]}
    apply = other.call("enqueue_job", p_org=org.id, p_type="APPLY", p_module=module, p_options=options)
    return int(apply["id"])


@pytest.mark.parametrize("case", ["not read yet", "switched off", "other branch", "connected again"])
def test_nobody_approves_a_plan_by_hand_of_what_they_pushed(site: Site, ann: User, case: str) -> None:
    _, org, runner, connection = site
    branch = "refs/heads/release" if case == "other branch" else "refs/heads/main"
    if case == "switched off":
        org.owner.call("set_module_git", p_module=org.modules["net/vpc"], p_spec={"is_on": False})
    pushed(site, 6, ref=branch)
    pushed(site, 7, ("login:bot",), ref=branch)
    if case == "connected again":
        (plan,) = read(site, 7, vpc="v2")
        runner.finish(plan, p_result={"commit": commit(7)})
        org.owner.call("disconnect_repository", p_connection=connection)
        org.owner.call(
            "connect_repository", p_org=org.id, p_spec={"provider": "gitea", "url": URL, "webhook_secret": SEALED}
        )
    elif case == "switched off":
        read(site, 7)
    apply = apply_by_hand(site, 6 if case == "other branch" else 7)
    with refused("RY403", OWN):
        approve(ann, apply)
    assert approve(org.owner, apply)["status"] == "QUEUED"


def test_a_push_that_was_read_takes_no_vote_from_a_plan_by_hand_of_another_module(site: Site, ann: User) -> None:
    pushed(site, 6)
    (plan,) = read(site, 6, dns="d2")
    site[2].finish(plan, p_result={"commit": commit(6)})
    pushed(site, 7, ("login:bot",))
    read(site, 7)
    assert approve(ann, apply_by_hand(site, 7))["status"] == "QUEUED"


# ## links that end


def test_a_member_who_leaves_and_joins_again_has_still_pushed(site: Site, ann: User) -> None:
    pushed(site, 6)
    (plan,) = read(site, 6, vpc="v2")
    move = (
        "with gone as (delete from public.memberships where user_id = %s returning *) select to_jsonb(g) from gone as g"
    )
    member = site[0].owner.one(move, ann.id)
    again = "insert into public.memberships select * from jsonb_populate_record(null::public.memberships, %s)"
    site[0].owner.connection.execute(again, (Jsonb(member),))
    with refused("RY403", OWN):
        approve(ann, applied_next(site, plan))


def test_ending_the_own_link_changes_nothing_for_what_was_pushed_before_or_after(site: Site, ann: User) -> None:
    _, org, _, _ = site
    pushed(site, 6)
    (plan,) = read(site, 6, vpc="v2")
    ann.call("unlink_git_login", p_org=org.id, **LOGIN)
    with refused("RY403", OWN):
        approve(ann, applied_next(site, plan))
    pushed(site, 7)
    (plan,) = read(site, 7, vpc="v3")
    with refused("RY403", OWN):
        approve(ann, applied_next(site, plan))


def test_a_link_that_an_admin_corrects_ends_for_later_changes(site: Site, ann: User) -> None:
    _, org, _, _ = site
    right = org.member("operator")
    pushed(site, 6)
    (plan,) = read(site, 6, vpc="v2")
    org.owner.call("link_git_login", p_org=org.id, p_user=right.id, **LOGIN)
    apply = applied_next(site, plan)
    for each in (ann, right):
        with refused("RY403", OWN):
            approve(each, apply)
    approve(org.owner, apply)
    site[2].finish(site[2].claim_one(), p_result={"commit": commit(6)})
    pushed(site, 7)
    (plan,) = read(site, 7, vpc="v3")
    apply = applied_next(site, plan)
    with refused("RY403", OWN):
        approve(right, apply)
    assert approve(ann, apply)["status"] == "QUEUED"


def test_a_proved_login_stays_its_members_account_when_an_admin_links_it_to_somebody_else(site: Site) -> None:
    _, org, _, _ = site
    announce(site, 5)
    admin = prove(site, org.member("admin"))
    admin.call("link_git_login", p_org=org.id, p_user=org.owner.id, **LOGIN)
    pushed(site, 6, ("id:11",))
    (plan,) = read(site, 6, vpc="v2")
    with refused("RY403", OWN):
        approve(admin, applied_next(site, plan))


def test_an_account_stays_its_members_when_the_login_moves_to_other_accounts(site: Site) -> None:
    """A host lets people rename their account, and others take the free name."""
    org = site[1]
    announce(site, 5)
    admin = prove(site, org.member("admin"))
    admin.call("link_git_login", p_org=org.id, p_user=admin.id, **LOGIN)
    code = admin.call("request_git_link", p_org=org.id, p_host=LOGIN["p_host"], p_login="ann")["comment"].split()[-1]
    assert say(site, "link", code, account="12").startswith(
        "REFUSED: This login is linked to another member or account."
    )
    for account in ("12", "13"):
        admin.call("unlink_git_login", p_org=org.id, **LOGIN)
        prove(site, admin, account=account)
    admin.call("unlink_git_login", p_org=org.id, **LOGIN)
    pushed(site, 6, ("id:11",))
    (plan,) = read(site, 6, vpc="v2")
    with refused("RY403", OWN):
        approve(admin, applied_next(site, plan))
