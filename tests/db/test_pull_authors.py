"""Authors of a pull request, and the reviews that count."""

import pytest

from tests.db.git_site import Site, announce, commit, merged, push, read
from tests.db.test_change_authors import (
    ANN,
    CHANGES,
    DIGEST,
    OWN,
    OWN_PULL,
    ann,
    applied_next,
    approve,
    planned_pull,
    pushed,
    site,
)
from tests.db.test_comment_commands import LOGIN
from tests.db.world import User, refused

__all__ = ["ann", "site"]


def test_pushes_to_a_branch_before_its_pull_request_is_opened_count(site: Site, ann: User) -> None:
    pushed(site, 4, ref="refs/heads/feature")
    pushed(site, 5, ("login:bot",), ref="refs/heads/feature")
    read(site, 1)
    announce(site, 5, ("login:bot",), head_branch="feature")
    with refused("RY403", OWN_PULL):
        approve(ann, planned_pull(site)["id"])


@pytest.mark.parametrize("closes", ["before", "after"])
def test_people_of_a_pull_request_that_was_merged_into_another_count_there(site: Site, ann: User, closes: str) -> None:
    inner = {"number": 6, "base": "develop", "head_branch": "feature"}
    announce(site, 3, ANN, **inner)
    if closes == "after":
        announce(site, 4, ("login:bot",), head_branch="develop")
    pushed(site, 4, ("login:bot",), ref="refs/heads/develop")
    announce(site, 3, ANN, action="closed", is_open=False, merge_commit=commit(4), **inner)
    pushed(site, 5, ("login:bot",), ref="refs/heads/develop")
    read(site, 1)
    announce(site, 5, ("login:bot",), head_branch="develop")
    with refused("RY403", OWN_PULL):
        approve(ann, planned_pull(site)["id"])


def test_what_was_merged_before_from_the_same_branch_is_nobodys_change_any_more(site: Site, ann: User) -> None:
    earlier = {"number": 6, "head_branch": "develop"}
    pushed(site, 3, ref="refs/heads/develop")
    announce(site, 3, ANN, **earlier)
    announce(site, 3, ANN, action="closed", is_open=False, merge_commit=commit(2), **earlier)
    pushed(site, 5, ("login:bot",), ref="refs/heads/develop")
    read(site, 1)
    announce(site, 5, ("login:bot",), head_branch="develop")
    assert approve(ann, planned_pull(site)["id"])


def test_a_merge_to_another_base_frees_nobody(site: Site, ann: User) -> None:
    """Somebody could merge the branch into one of their own first."""
    earlier = {"number": 6, "head_branch": "feature", "base": "junk"}
    pushed(site, 3, ref="refs/heads/feature")
    announce(site, 3, ANN, **earlier)
    announce(site, 3, ANN, action="closed", is_open=False, merge_commit=commit(2), **earlier)
    pushed(site, 5, ("login:bot",), ref="refs/heads/feature")
    read(site, 1)
    announce(site, 5, ("login:bot",), head_branch="feature")
    with refused("RY403", OWN_PULL):
        approve(ann, planned_pull(site)["id"])


def test_a_push_to_a_closed_pull_request_counts_when_it_is_opened_again(site: Site, ann: User) -> None:
    announce(site, 4, ("login:bot",), head_branch="feature")
    announce(site, 4, ("login:bot",), action="closed", is_open=False, head_branch="feature")
    pushed(site, 5, ref="refs/heads/feature")
    pushed(site, 6, ("login:bot",), ref="refs/heads/feature")
    read(site, 1)
    announce(site, 6, ("login:bot",), action="reopened", head_branch="feature")
    plan = planned_pull(site, 6)
    with refused("RY403", OWN_PULL):
        approve(ann, plan["id"])


def test_a_label_of_somebody_else_does_not_free_the_author_to_review(site: Site, ann: User) -> None:
    announce(site, 5, ANN)
    plan = planned_pull(site)
    announce(site, 5, ("login:ann",), action="labeled")
    push(site[0], site[3], event="pull_request", action="labeled", ref=None, after=None, sender="bot", pull={
        "number": 7, "title": "A change", "base": "main", "head_commit": commit(5), "is_fork": False,
        "is_draft": False, "is_open": True,
    })  # fmt: skip
    with refused("RY403", OWN_PULL):
        approve(ann, plan["id"])
    ann.call("unlink_git_login", p_org=site[1].id, **LOGIN)
    with refused("RY403", OWN_PULL):
        approve(ann, plan["id"])


@pytest.mark.parametrize("seen_by", ["event", "push", "runner"])
def test_everybody_who_adds_a_commit_is_an_author(site: Site, ann: User, seen_by: str) -> None:
    announce(site, 5, ("login:bot",), head_branch="feature")
    if seen_by == "push":
        pushed(site, 5, ref="refs/heads/feature")
        read(site, 1)
        announce(site, 8, ("login:bot",), head_branch="feature")
    elif seen_by == "event":
        announce(site, 5, ANN, head_branch="feature")
    head = 8 if seen_by == "push" else 5
    emails = (ann.email,) if seen_by == "runner" else ()
    (plan,) = merged(site, head, emails=emails, vpc="v2")
    site[2].finish(plan, p_plan_summary=CHANGES, p_result={"commit": commit(head), "change_digest": DIGEST})
    with refused("RY403", OWN_PULL):
        approve(ann, plan["id"])
    approve(site[1].owner, plan["id"])


def test_a_review_does_not_count_any_more_when_its_reviewer_pushes_afterwards(site: Site, ann: User) -> None:
    announce(site, 5)
    approve(ann, planned_pull(site)["id"])
    announce(site, 8, ANN)
    assert merged(site, 8, vpc="v2") == [], "the same content is not planned again"
    announce(site, 8, is_open=False, merge_commit=commit(6))
    pushed(site, 6, ("login:bot",))
    (plan,) = read(site, 6, vpc="v2")
    apply = applied_next(site, plan, change_digest=DIGEST)
    assert site[0].job(apply)["status"] == "AWAITING_APPROVAL"
    with refused("RY403", OWN):
        approve(ann, apply)


def test_a_review_does_not_count_for_commits_that_came_just_before_the_merge(site: Site, ann: User) -> None:
    announce(site, 5)
    approve(ann, planned_pull(site)["id"])
    announce(site, 8, is_open=False, merge_commit=commit(6))
    pushed(site, 6, ("login:bot",))
    (plan,) = read(site, 6, vpc="v3")
    apply = applied_next(site, plan, change_digest=DIGEST)
    assert site[0].job(apply)["status"] == "AWAITING_APPROVAL", "the same plan may run another script"


def test_a_review_of_an_older_plan_does_not_count_while_the_newer_one_has_not_ended(site: Site, ann: User) -> None:
    announce(site, 5)
    approve(ann, planned_pull(site)["id"])
    announce(site, 8)
    (newer,) = merged(site, 8, vpc="v3")
    announce(site, 8, is_open=False, merge_commit=commit(6))
    site[2].finish(newer, "FAILED", p_error={"code": "engine", "message": "no quota"})
    pushed(site, 6, ("login:bot",))
    (plan,) = read(site, 6, vpc="v3")
    apply = applied_next(site, plan, change_digest=DIGEST)
    assert site[0].job(apply)["status"] == "AWAITING_APPROVAL"


def test_a_reviewer_who_merges_has_reviewed(site: Site, ann: User) -> None:
    announce(site, 5)
    approve(ann, planned_pull(site)["id"])
    announce(site, 5, is_open=False, merge_commit=commit(6))
    pushed(site, 6)
    (plan,) = read(site, 6, vpc="v2")
    assert site[0].job(applied_next(site, plan, change_digest=DIGEST))["status"] == "QUEUED"


def test_the_author_of_a_pull_request_does_not_approve_the_apply_of_its_merge(site: Site, ann: User) -> None:
    announce(site, 5, ANN)
    planned_pull(site)
    announce(site, 5, is_open=False, merge_commit=commit(6))
    pushed(site, 6, ("login:bot",))
    (plan,) = read(site, 6, vpc="v2")
    with refused("RY403", OWN):
        approve(ann, applied_next(site, plan))


def test_authors_may_confirm_where_no_approval_is_needed_and_where_the_organisation_allows_it(
    site: Site, ann: User
) -> None:
    _, org, _, _ = site
    announce(site, 5, ANN)
    plan = planned_pull(site)
    with refused("RY403", OWN_PULL):
        approve(ann, plan["id"])
    org.owner.call("update_organization", p_org=org.id, p_can_approve_own_jobs=True)
    approve(ann, plan["id"])
