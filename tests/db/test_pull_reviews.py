"""Reviews of pull requests: they count for the same content and changes after the merge; modules applied before it are locked."""

from typing import Any

import pytest

from tests.db.git_site import Site, announce, commit, first_reading, last, merged, open_site, push, read
from tests.db.world import Organization, World, refused

DIGEST = "d" * 64
CHANGES = {"has_changes": True, "create": 1}


@pytest.fixture
def site(world: World, org: Organization) -> Site:
    made = open_site(world, org)
    first_reading(made)
    return made


def planned_pull(site: Site, digest: str = DIGEST) -> dict[str, Any]:
    """An open pull request whose plan of net/vpc has ended."""
    announce(site, 5)
    (plan,) = merged(site, 5, dns="d1", vpc="v2")
    site[2].finish(plan, p_plan_summary=CHANGES, p_result={"commit": commit(5), "change_digest": digest})
    return plan


def merge(site: Site, digest: str = DIGEST, content: str = "v2", *, is_told_first: bool = True) -> int:
    """Merge the pull request and finish the plan of its merge commit; returns the apply that follows."""
    world, org, runner, connection = site
    if is_told_first:
        announce(site, 5, is_open=False, merge_commit=commit(6))
    push(world, connection)
    (plan,) = read(site, 6, vpc=content)
    runner.finish(plan, p_plan_summary=CHANGES, p_result={"commit": commit(6), "change_digest": digest})
    if not is_told_first:
        announce(site, 5, is_open=False, merge_commit=commit(6))
    return int(org.owner.one("select id from public.provision_jobs where plan_job_id = %s", plan["id"]))


def review(site: Site, plan: dict[str, Any], decision: str = "approve") -> None:
    site[1].owner.call("approve_job", p_job=plan["id"], p_decision=decision)


@pytest.mark.parametrize("is_told_first", [True, False], ids=["merge first", "plan first"])
def test_the_review_counts_where_the_merge_changes_the_same(site: Site, is_told_first: bool) -> None:
    world, org, _, _ = site
    review(site, planned_pull(site))
    apply = merge(site, is_told_first=is_told_first)
    assert world.job(apply)["status"] == "QUEUED"
    assert org.owner.one("select comment from public.approvals where job_id = %s", apply) == (
        "Reviewed on #7, with the same content and changes."
    )
    shown = world.owner.one("select result::text from public.provision_jobs where id = (select plan_job_id from "
                            "public.provision_jobs where id = %s)", apply)  # fmt: skip
    assert DIGEST not in shown, "a digest of values is shown to nobody"


@pytest.mark.parametrize(("digest", "content"), [("e" * 64, "v2"), (DIGEST, "v3")], ids=["changes", "content"])
def test_another_change_or_other_content_waits_for_a_new_review(site: Site, digest: str, content: str) -> None:
    """Two plans may change the same with another script, which the apply runs."""
    world, org, _, _ = site
    review(site, planned_pull(site))
    apply = merge(site, digest, content)
    assert world.job(apply)["status"] == "AWAITING_APPROVAL"
    event = "select reason from public.job_events where job_id = %s and event = 'review_open'"
    assert org.owner.one(event, apply) == (
        "Its content or its changes are not those that were reviewed on #7: it waits for a new review."
    )


def test_a_review_lasts_while_a_newer_head_has_the_same_content_and_no_longer(site: Site) -> None:
    review(site, planned_pull(site))
    announce(site, 8)
    assert merged(site, 8, vpc="v2") == []
    announce(site, 8, is_open=False, merge_commit=commit(6))
    push(site[0], site[3])
    (plan,) = read(site, 6, vpc="v2")
    site[2].finish(plan, p_plan_summary=CHANGES, p_result={"commit": commit(6), "change_digest": DIGEST})
    assert site[0].owner.one("select status::text from public.provision_jobs where plan_job_id = %s", plan["id"]) == (
        "QUEUED"
    )


def test_a_head_that_nobody_read_before_its_merge_has_no_review_of_other_content(site: Site) -> None:
    review(site, planned_pull(site))
    announce(site, 8)
    announce(site, 8, is_open=False, merge_commit=commit(6))
    push(site[0], site[3])
    (plan,) = read(site, 6, vpc="v3")
    site[2].finish(plan, p_plan_summary=CHANGES, p_result={"commit": commit(6), "change_digest": DIGEST})
    assert site[0].owner.one("select status::text from public.provision_jobs where plan_job_id = %s", plan["id"]) == (
        "AWAITING_APPROVAL"
    )


def test_an_older_plan_is_not_made_the_newest_by_a_retry(site: Site) -> None:
    announce(site, 5)
    (older,) = merged(site, 5, vpc="v2")
    site[2].finish(older, "FAILED", p_error={"code": "engine", "message": "no quota"})
    announce(site, 8)
    merged(site, 8, vpc="v3")
    with refused("RY409", "Pull request #7 has a newer plan of this module."):
        site[1].owner.call("retry_job", p_job=older["id"])


def test_a_rejected_plan_waits_after_the_merge(site: Site) -> None:
    review(site, planned_pull(site), "reject")
    assert site[0].job(merge(site))["status"] == "AWAITING_APPROVAL"


def test_a_plan_that_nobody_reviewed_waits_after_the_merge(site: Site) -> None:
    planned_pull(site)
    assert site[0].job(merge(site))["status"] == "AWAITING_APPROVAL"


def test_all_approvals_are_needed_and_the_author_gives_none(site: Site) -> None:
    world, org, _, _ = site
    org.owner.call("update_module", p_module=org.modules["net/vpc"], p_spec={"approvals_required": 2})
    author = org.member("operator")
    link = {"p_org": org.id, "p_host": "git.example.com", "p_login": "Ann"}
    org.owner.call("link_git_login", p_user=author.id, **link)
    announce(site, 5, ("login:ann",))
    (plan,) = merged(site, 5, vpc="v2")
    site[2].finish(plan, p_plan_summary=CHANGES, p_result={"change_digest": DIGEST})
    with refused("RY403", "You changed this pull request; somebody else reviews it."):
        author.call("approve_job", p_job=plan["id"], p_decision="approve")
    with refused("RY403"):
        org.member("viewer").call("approve_job", p_job=plan["id"], p_decision="approve")
    review(site, plan)
    with refused("RY409", "already decided"):
        review(site, plan)
    apply = merge(site)
    assert (world.job(apply)["status"], world.job(apply)["approvals_received"]) == ("AWAITING_APPROVAL", 1)


def test_a_review_of_a_former_member_does_not_count(site: Site) -> None:
    world, org, _, _ = site
    plan, member = planned_pull(site), org.member("operator")
    member.call("approve_job", p_job=plan["id"], p_decision="approve")
    org.owner.call("remove_member", p_org=org.id, p_user=member.id)
    assert world.job(merge(site))["status"] == "AWAITING_APPROVAL"


def test_an_older_plan_is_not_reviewed(site: Site) -> None:
    plan = planned_pull(site)
    announce(site, 8)
    merged(site, 8, vpc="v3")
    with refused("RY409", "Only the newest finished plan of an open pull request is reviewed."):
        review(site, plan)


# ## before the merge


def before_merge(site: Site) -> dict[str, Any]:
    _, org, _, connection = site
    org.owner.call("set_module_git", p_module=org.modules["net/vpc"], p_spec={"apply": "before_merge"})
    return {"p_connection": connection, "p_number": 7}


def test_a_pull_request_is_applied_before_its_merge_and_the_merge_plans_nothing(site: Site) -> None:
    world, org, runner, connection = site
    named = before_merge(site)
    planned_pull(site)
    (apply,) = org.owner.call("apply_pull_request", **named)
    assert apply["status"] == "QUEUED"
    job = runner.claim_one()
    assert job["payload"]["module"]["source"]["merge"]["head"] == commit(5)
    runner.finish(job, p_result={"commit": commit(5)})
    with refused("RY409", "Pull request #7 is applied before its merge."):
        org.enqueue("net/vpc", "APPLY")
    announce(site, 5, is_open=False, merge_commit=commit(6))
    assert org.owner.rows("select module_id from public.module_locks") == []
    push(world, connection)
    assert read(site, 6, vpc="v2") == [], "the merge has the content that was applied"
    assert "is applied" in {each["path"]: each["reason"] for each in last(site)["modules"]}["net/vpc"]


def test_a_pull_request_that_was_applied_and_closed_plans_its_branch_again(site: Site) -> None:
    world, org, runner, connection = site
    named = before_merge(site)
    planned_pull(site)
    org.owner.call("apply_pull_request", **named)
    runner.finish(runner.claim_one(), p_result={"commit": commit(5)})
    announce(site, 5, is_open=False)
    push(world, connection)
    (plan,) = read(site, 1, vpc="v1")
    assert plan["module_path"] == "net/vpc"


def test_only_a_module_with_that_mode_a_current_plan_and_the_right_is_applied(site: Site) -> None:
    _, org, runner, connection = site
    named = {"p_connection": connection, "p_number": 7}
    plan = planned_pull(site)
    with refused("RY409", "Nothing of pull request #7 can be applied."):
        org.owner.call("apply_pull_request", **named)
    with refused("RY409", "is never applied"):
        org.owner.call("apply_pull_request", **named, p_module=org.modules["net/vpc"])
    before_merge(site)
    with refused("RY403"):
        org.member("viewer").call("apply_pull_request", **named)
    announce(site, 8)
    (newer,) = merged(site, 8, vpc="v3")
    with refused("RY409", "is not the newest plan of an open pull request."):
        org.enqueue("net/vpc", "APPLY", plan_job_id=plan["id"])
    runner.finish(newer, p_plan_summary=CHANGES)
    (apply,) = org.owner.call("apply_pull_request", **named)
    with refused("RY409", "already being applied"):
        org.owner.call("apply_pull_request", **named)
    assert apply["plan_job_id"] == newer["id"]


def test_an_apply_before_the_merge_has_the_identity_that_its_plan_lacked(site: Site) -> None:
    _, org, runner, _ = site
    org.owner.call(
        "attach_identity", p_org=org.id, p_path="net", p_spec={"kind": "custom", "name": "registry", "audience": "x"}
    )
    before_merge(site)
    announce(site, 5)
    (plan,) = merged(site, 5, vpc="v2")
    runner.finish(plan, p_plan_summary={"has_changes": True}, p_result={"change_digest": "d" * 64})
    org.enqueue("net/vpc", "APPLY", plan_job_id=plan["id"])
    apply = runner.claim_one()
    given = runner.call("worker_identities", p_job=apply["id"], p_attempt=apply["attempt"])
    assert ([each["name"] for each in given["identities"]], given["withheld"]) == (["registry"], [])
    assert given["claims"]["runyard_trust"] == "pull_request"
