"""The merge queue: an entry is applied before it merges where its plan is the reviewed one, and fails its check elsewhere."""

from typing import Any

import pytest

from tests.db.git_site import SEALED, Site, announce, commit, first_reading, last, merged, open_site, push, read
from tests.db.test_pull_requests import KUBERNETES, identities_of
from tests.db.world import Organization, World

DIGEST = "d" * 64
CHANGES = {"has_changes": True, "create": 1}
REF = "refs/heads/gh-readonly-queue/main/pr-7-abc"


@pytest.fixture
def site(world: World, org: Organization) -> Site:
    made = open_site(world, org)
    org.owner.call("upsert_group", p_org=org.id, p_path="net", p_git_apply="merge_queue")
    first_reading(made)
    return made


def planned_pull(site: Site, decision: str | None = "approve") -> None:
    """An open pull request whose plan of net/vpc has ended and was reviewed."""
    announce(site, 5)
    (plan,) = merged(site, 5, dns="d1", vpc="v2")
    site[2].finish(plan, p_plan_summary=CHANGES, p_result={"commit": commit(5), "change_digest": DIGEST})
    if decision:
        site[1].owner.call("approve_job", p_job=plan["id"], p_decision=decision)


def queue(site: Site, action: str = "checks_requested", *, base: int = 1, **more: Any) -> dict[str, Any]:
    world, _, _, connection = site
    entry = {"number": 7, "base": "main", "is_open": action == "checks_requested", **more}
    where = {"ref": REF, "before": commit(base), "after": commit(6)}
    return push(world, connection, event="merge_group", action=action, **where, queue=entry)


def queued(site: Site, problem: str | None = None, base: int = 1, **contents: str) -> list[dict[str, Any]]:
    """Report the commit of the queue as the runner; return the plans that follow."""
    _, org, runner, _ = site
    job = runner.claim_one()
    work = runner.call("worker_resolve", p_job=job["id"], p_attempt=job["attempt"])
    assert work["pull_requests"][-1] == {"number": 7, "base": "main", "ref": REF}
    bases = {"dns": "d1", "vpc": "v1"}
    modules = [
        {"id": org.modules[f"net/{name}"], "fingerprint": content, "base_fingerprint": bases[name]}
        for name, content in contents.items()
    ]
    entry = {"number": 7, "ref": REF, "base_commit": commit(base), "head_commit": commit(6), "modules": modules}
    found = {"digest": work["digest"], "modules": [], "pull_requests": [{**entry, "problem": problem}]}
    runner.finish(job, p_result={"git": found})
    return runner.claim(10)


def check(site: Site) -> tuple[str, str]:
    """The check of the queue's commit, as it would be reported."""
    world, _, _, connection = site
    report = world.owner.one(
        "select private.commit_report(c, %s) from public.git_connections as c where c.id = %s", commit(6), connection
    )
    return report["state"], report["description"]


def planned_entry(site: Site, digest: str = DIGEST) -> list[dict[str, Any]]:
    """Queue the pull request and finish the plan of the entry; returns the applies that a runner gets."""
    queue(site)
    (plan,) = queued(site, dns="d1", vpc="v2")
    assert (plan["type"], plan["payload"]["module"]["source"]["commit"]) == ("PLAN", commit(6))
    site[2].finish(plan, p_plan_summary=CHANGES, p_result={"commit": commit(6), "change_digest": digest})
    return site[2].claim(10)


def test_a_reviewed_entry_is_applied_then_its_check_succeeds_and_the_merge_plans_nothing(site: Site) -> None:
    world, org, runner, connection = site
    org.owner.call("update_git_connection", p_connection=connection, p_spec={"token": SEALED})
    org.owner.call("update_module", p_module=org.modules["net/vpc"], p_spec={"approvals_required": 1})
    planned_pull(site)
    assert queue(site)["verdict"] == "PENDING"
    assert check(site) == ("pending", "Waits for a runner, or for the entries before it.")
    (plan,) = queued(site, dns="d1", vpc="v2")
    assert (last(site)["verdict"], check(site)[0]) == ("PLANNED", "pending")
    runner.finish(plan, p_plan_summary=CHANGES, p_result={"commit": commit(6), "change_digest": DIGEST})
    (apply,) = runner.claim(10)
    assert (apply["type"], apply["plan_job_id"], check(site)[0]) == ("APPLY", plan["id"], "pending")
    runner.finish(apply, p_result={"commit": commit(6)})
    assert check(site) == ("success", "1 module: 1 to add, 0 to change, 0 to destroy, 1 applied")
    reports = world.owner.rows("select count(*) from public.deliveries where subject = %s", f"commit:{commit(6)}")
    assert reports[0] > 0, "each step of the entry is reported at its commit"
    assert queue(site, "destroyed", reason="merged")["reason"] == "The entry was merged."
    push(world, connection)
    assert read(site, 6, vpc="v2") == [], "the branch has the content that was applied"


@pytest.mark.parametrize(
    ("decision", "digest", "words"),
    [
        ("approve", "e" * 64, "net/vpc: its content or its changes are not those of its plan on #7."),
        ("reject", DIGEST, "net/vpc: its plan on #7 was rejected."),
        (None, DIGEST, "net/vpc: its plan on #7 is not approved yet."),
    ],
)
def test_another_change_or_one_that_nobody_approved_fails_the_check(
    site: Site, decision: str | None, digest: str, words: str
) -> None:
    planned_pull(site, decision)
    assert planned_entry(site, digest) == []
    assert check(site) == ("failure", words)


def test_an_entry_with_other_content_that_changes_the_same_fails_the_check(site: Site) -> None:
    planned_pull(site)
    queue(site)
    (plan,) = queued(site, dns="d1", vpc="v3")
    site[2].finish(plan, p_plan_summary=CHANGES, p_result={"commit": commit(6), "change_digest": DIGEST})
    assert site[2].claim(10) == []
    assert check(site) == ("failure", "net/vpc: its content or its changes are not those of its plan on #7.")


def test_a_module_with_auto_apply_needs_no_review_but_the_same_change(site: Site) -> None:
    _, org, runner, _ = site
    org.owner.call("update_module", p_module=org.modules["net/vpc"], p_spec={"auto_apply": True})
    planned_pull(site, None)
    (apply,) = planned_entry(site)
    runner.finish(apply, "FAILED", p_error={"code": "engine", "message": "no quota"})
    assert check(site)[0] == "failure"
    assert check(site)[1].endswith("failed.")


def test_an_entry_behind_another_waits_for_it(site: Site) -> None:
    world, _, _, connection = site
    planned_pull(site)
    queue(site, base=4)
    assert queued(site, base=1, vpc="v2") == []
    assert (check(site)[0], last(site)["reason"]) == ("pending", f"It waits until main is at {commit(4)[:7]}.")
    push(world, connection)
    assert len(queued(site, base=4, vpc="v2")) == 1, "the entries before it have merged"
    assert last(site)["event"] == "push"
    again = queue(site, "destroyed", reason="invalidated")
    assert (again["verdict"], check(site)) == ("DONE", ("failure", "It left the merge queue."))


@pytest.mark.parametrize("is_known", [True, False])
def test_the_entry_of_a_fork_or_of_an_unknown_pull_request_runs_nothing(site: Site, is_known: bool) -> None:
    if is_known:
        announce(site, 5, is_fork=True)
    queue(site)
    assert queued(site, vpc="v2") == []
    assert check(site) == ("failure", "#7 comes from a fork, or was not announced.")


def test_an_entry_has_the_identities_that_plans_of_pull_requests_have_and_its_apply_all(site: Site) -> None:
    _, org, runner, connection = site
    org.owner.call("attach_identity", p_org=org.id, p_path="net", p_spec=KUBERNETES)
    planned_pull(site)
    queue(site)
    (plan,) = queued(site, vpc="v2")
    assert identities_of(runner, plan) == ([], ["kubernetes"])
    org.owner.call("update_git_connection", p_connection=connection, p_spec={"allows_identities": True})
    assert identities_of(runner, plan) == (["kubernetes"], [])
    claims = runner.call("worker_identities", p_job=plan["id"], p_attempt=plan["attempt"])["claims"]
    assert (claims["runyard_trust"], claims["runyard_ref"]) == ("pull_request", "pull/7")
    org.owner.call("update_git_connection", p_connection=connection, p_spec={"allows_identities": False})
    runner.finish(plan, p_plan_summary=CHANGES, p_result={"commit": commit(6), "change_digest": DIGEST})
    (apply,) = runner.claim(10)
    assert identities_of(runner, apply) == (["kubernetes"], [])


def test_a_conflict_fails_the_check(site: Site) -> None:
    planned_pull(site)
    queue(site)
    assert queued(site, "It conflicts with main.") == []
    assert check(site) == ("failure", "It conflicts with main.")


def test_an_entry_without_modules_of_the_queue_may_merge(site: Site) -> None:
    _, org, _, _ = site
    planned_pull(site)
    org.owner.call("upsert_group", p_org=org.id, p_path="net", p_git_apply="after_merge")
    queue(site)
    assert queued(site, dns="d1", vpc="v2") == []
    assert check(site) == ("success", "Nothing to plan.")


def test_an_entry_that_was_applied_and_did_not_merge_plans_its_branch_again(site: Site) -> None:
    world, _, runner, _ = site
    planned_pull(site)
    (apply,) = planned_entry(site)
    queue(site, "destroyed", reason="dequeued")
    assert world.job(apply["id"])["status"] == "CLAIMED", "a running apply ends first"
    runner.finish(apply, p_result={"commit": commit(6)})
    assert check(site) == ("failure", "It left the merge queue.")
    (plan,) = read(site, 1, vpc="v1")
    assert (plan["type"], plan["module_path"]) == ("PLAN", "net/vpc")


def test_plans_of_an_entry_that_left_the_queue_are_cancelled_and_repeats_change_nothing(site: Site) -> None:
    world, _, _, _ = site
    planned_pull(site)
    queue(site)
    assert queue(site)["reason"] == "The entry is known already."
    (plan,) = queued(site, vpc="v2")
    queue(site, "destroyed", reason="dequeued")
    assert queue(site, "destroyed", reason="dequeued")["verdict"] == "DONE"
    assert world.job(plan["id"])["cancel_requested_at"] is not None
    assert check(site)[0] == "failure"
