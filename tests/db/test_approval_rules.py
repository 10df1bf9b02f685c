"""Approvals bind: the requester does not approve, only admins lower numbers, and the audit names the person and the act."""

from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.db.world import Organization, User, World, refused

OWN = "You requested this job; somebody else approves it."


def approve(person: User, job: int, **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = person.call("approve_job", p_job=job, p_decision="approve", **more)
    return answer


def ask(org: Organization, person: User | None = None, approvals: int = 1, **options: Any) -> int:
    """An apply that needs approval, requested by this person."""
    module = org.modules.get("a/b") or org.module("a/b", approvals_required=approvals)
    asked = (person or org.owner).call("enqueue_job", p_org=org.id, p_type="APPLY", p_module=module, p_options=options)
    return int(asked["id"])


def audited(world: World, org: Organization, action: str) -> list[Any]:
    query = "select actor_label, detail from public.audit_events where org_id = %s and action = %s order by id"
    return world.owner.rows(query, org.id, action)


@pytest.mark.parametrize("role", ["operator", "admin"])
def test_the_requester_of_a_job_cannot_approve_it(world: World, org: Organization, role: str) -> None:
    person = org.member(role)
    job = ask(org, person)
    with refused("RY403", OWN):
        approve(person, job)
    assert world.status(job) == "AWAITING_APPROVAL"
    assert approve(org.owner, job)["status"] == "QUEUED"


def test_running_somebody_elses_schedule_is_a_request_too(world: World, org: Organization) -> None:
    org.module("a/b", approvals_required=1)
    spec = {"path": "a/b", "type": "APPLY", "cron": "0 2 * * *"}
    schedule = org.owner.call("create_schedule", p_org=org.id, p_spec=spec)
    person, other = org.member("operator"), org.member("operator")
    person.call("run_schedule", p_schedule=schedule["id"])
    job = world.owner.one("select id from public.provision_jobs where org_id = %s", org.id)
    for requester in (person, org.owner):
        with refused("RY403", OWN):
            approve(requester, job)
    assert approve(other, job)["status"] == "QUEUED"


def test_a_job_counts_as_waiting_only_for_people_who_can_approve_it(world: World, org: Organization) -> None:
    def needed_by(person: User, **more: Any) -> int:
        """Return the number of approvals that wait for a person, by the count of the menu, which the list must agree with."""
        filters = {"status": ["AWAITING_APPROVAL"], "needs": str(person.id)}
        listed = org.owner.call("list_jobs", p_org=org.id, p_filters=Jsonb(filters), **more)
        counts = org.owner.call("fleet_overview", p_org=org.id)["counts"]
        others = counts["waits_for_others"]
        assert listed["waits_for_others"] == others
        if person is not viewer:
            count = counts["jobs"].get("AWAITING_APPROVAL", 0) - others.get(str(person.id), 0)
            assert (listed["total"], len(listed["rows"])) == (count, count)
        return int(listed["total"])

    viewer, job = org.member("viewer"), ask(org, approvals=2)
    # Nobody else could approve it: a reason will do.
    assert (needed_by(org.owner), needed_by(viewer)) == (1, 0)
    first, second = org.member("operator"), org.member("operator")
    assert [needed_by(person) for person in (org.owner, first, second)] == [0, 1, 1]
    assert [needed_by(person, p_search="a/b") for person in (org.owner, first)] == [0, 1]
    approve(first, job)
    assert [needed_by(person) for person in (org.owner, first, second)] == [0, 0, 1]
    world.owner.connection.execute("update public.organizations set can_approve_own_jobs = true")
    assert needed_by(org.owner) == 1
    approve(second, job)
    assert needed_by(org.owner) == 0


def test_the_requester_of_a_job_may_still_reject_it(org: Organization) -> None:
    person = org.member("operator")
    job = ask(org, person)
    assert person.call("approve_job", p_job=job, p_decision="reject")["status"] == "CANCELLED"


def test_an_owner_with_colleagues_does_not_override(world: World, org: Organization) -> None:
    job = ask(org)
    org.member("operator")
    with refused("RY403", OWN):
        approve(org.owner, job)
    with refused("RY403", "You are not alone: somebody else can approve it."):
        approve(org.owner, job, p_override_reason="in a hurry")
    assert world.status(job) == "AWAITING_APPROVAL"


@pytest.mark.parametrize("approvals", [1, 3])
def test_an_owner_who_is_alone_overrides_with_a_reason(world: World, org: Organization, approvals: int) -> None:
    job = ask(org, approvals=approvals)
    org.member("viewer")
    with refused("RY403", OWN) as caught:
        approve(org.owner, job)
    assert "reason" in str(caught.value.diag.message_hint)
    with refused("RY422", "An override needs a reason"):
        approve(org.owner, job, p_override_reason="  ")
    assert approve(org.owner, job, p_override_reason="nobody else is here")["status"] == "QUEUED"
    ((_, detail),) = audited(world, org, "job.approval_overridden")
    assert detail["reason"] == "nobody else is here"
    assert audited(world, org, "job.approve") == []
    said = world.owner.one("select is_override, comment from public.approvals where job_id = %s", job)
    assert said == (True, "nobody else is here")


def test_only_an_owner_overrides(org: Organization) -> None:
    operator = org.member("operator")
    job = ask(org, operator)
    with refused("RY403", "You are not alone: somebody else can approve it."):
        approve(operator, job, p_override_reason="please")


def test_an_override_is_for_ones_own_jobs(org: Organization) -> None:
    job = ask(org, org.member("operator"))
    with refused("RY422", "There is nothing to override"):
        approve(org.owner, job, p_override_reason="why not")


def test_an_organisation_may_allow_people_to_approve_their_own_jobs(world: World, org: Organization) -> None:
    with refused("RY403"):
        org.member("admin").call("update_organization", p_org=org.id, p_can_approve_own_jobs=True)
    changed = org.owner.call("update_organization", p_org=org.id, p_can_approve_own_jobs=True)
    assert changed["can_approve_own_jobs"] is True
    job = ask(org, approvals=2)
    with refused("RY422", "There is nothing to override"):
        approve(org.owner, job, p_override_reason="one for two")
    assert approve(org.owner, job)["approvals_received"] == 1
    ((_, detail),) = audited(world, org, "organization.updated")
    assert detail["changes"]["can_approve_own_jobs"] == {"from": False, "to": True}


def test_a_retry_is_requested_by_everybody_who_requested_or_retried_it(org: Organization) -> None:
    operator, other, account = org.member("operator"), org.member("operator"), org.acting(org.account("operator"))
    job = ask(org, operator)
    for each in (other, account):
        operator.call("cancel_job", p_job=job)
        job = each.call("retry_job", p_job=job)["id"]
    for each in (operator, other):
        with refused("RY403", OWN):
            approve(each, job)
    assert approve(org.owner, job)["status"] == "QUEUED"


def test_the_apply_after_a_retried_plan_is_not_for_the_first_planner_to_approve(
    world: World, org: Organization
) -> None:
    operator = org.member("operator")
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    module = org.module("a/b", approvals_required=1, auto_apply=True)
    plan = operator.call("enqueue_job", p_org=org.id, p_type="PLAN", p_module=module)["id"]
    operator.call("cancel_job", p_job=plan)
    org.acting(org.account("operator")).call("retry_job", p_job=plan)
    runner.finish(runner.claim_one(), p_plan_summary={"has_changes": True})
    job = world.owner.one("select id from public.provision_jobs where org_id = %s and type = 'APPLY'", org.id)
    with refused("RY403", OWN):
        approve(operator, job)
    assert approve(org.owner, job)["status"] == "QUEUED"


def test_an_apply_that_follows_a_plan_has_the_planner_as_requester(world: World, org: Organization) -> None:
    operator = org.member("operator")
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    module = org.module("a/b", approvals_required=1, auto_apply=True)
    operator.call("enqueue_job", p_org=org.id, p_type="PLAN", p_module=module)
    runner.finish(runner.claim_one(), p_plan_summary={"has_changes": True})
    job = world.owner.one("select id from public.provision_jobs where org_id = %s and type = 'APPLY'", org.id)
    with refused("RY403", OWN):
        approve(operator, job)
    assert approve(org.owner, job)["status"] == "QUEUED"


def test_the_apply_that_an_account_requests_of_a_plan_is_not_for_the_planner_to_approve(org: Organization) -> None:
    """Otherwise one person with the account's secret plans, applies and approves."""
    operator, account = org.member("operator"), org.acting(org.account("operator"))
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    asked = {"p_org": org.id, "p_module": org.module("a/b", approvals_required=1)}
    first = operator.call("enqueue_job", **asked, p_type="PLAN")["id"]
    operator.call("cancel_job", p_job=first)
    for plan in (
        lambda: operator.call("enqueue_job", **asked, p_type="PLAN"),
        lambda: account.call("retry_job", p_job=first),
    ):
        made = plan()["id"]
        runner.finish(runner.claim_one(), p_plan_summary={"has_changes": True})
        job = account.call("enqueue_job", **asked, p_type="APPLY", p_options={"plan_job_id": made})["id"]
        with refused("RY403", OWN):
            approve(operator, job)
    assert approve(org.owner, job)["status"] == "QUEUED"


# ---------------------------------------------------------------------- the module's number


@pytest.mark.parametrize(("role", "allowed"), [("operator", False), ("admin", True), ("owner", True)])
def test_only_admins_lower_the_number(world: World, org: Organization, role: str, allowed: bool) -> None:
    module = org.module("a/b", approvals_required=3)
    person = org.owner if role == "owner" else org.member(role)
    if allowed:
        assert (
            person.call("update_module", p_module=module, p_spec={"approvals_required": 0})["approvals_required"] == 0
        )
        return
    with refused("RY403", "your role is operator"):
        person.call("update_module", p_module=module, p_spec={"approvals_required": 2, "description": "x"})
    assert world.owner.one("select approvals_required, description from public.modules where id = %s", module) == (
        3,
        "",
    )
    for number in (3, 4):
        person.call("update_module", p_module=module, p_spec={"approvals_required": number})


@pytest.mark.parametrize(("before", "now", "needed"), [(0, 3, 3), (2, 1, 2), (1, 1, 1), (0, 0, 0)])
def test_a_retry_needs_the_larger_number(world: World, org: Organization, before: int, now: int, needed: int) -> None:
    module = org.module("a/b", approvals_required=before)
    job = ask(org)
    org.owner.call("cancel_job", p_job=job)
    org.owner.call("update_module", p_module=module, p_spec={"approvals_required": now})
    again = world.job(org.owner.call("retry_job", p_job=job)["id"])
    assert (again["approvals_required"], again["status"]) == (needed, "AWAITING_APPROVAL" if needed else "QUEUED")
    assert (again["approval_deadline_at"] is not None) == bool(needed)


def test_an_edit_does_not_write_an_older_number_back(world: World, org: Organization) -> None:
    module = org.module("a/b")
    operator = org.member("operator")
    edit = world.during(
        org.owner,
        lambda: org.owner.call("update_module", p_module=module, p_spec={"approvals_required": 3}),
        lambda: operator.call("update_module", p_module=module, p_spec={"description": "x"}),
    )
    assert edit.result()["approvals_required"] == 3


def test_an_operator_cannot_make_a_module_temporary_that_only_an_admin_may_remove(org: Organization) -> None:
    module = org.module("a/b", approvals_required=3)
    spec = {"is_temporary": True}
    with refused("RY403", "your role is operator"):
        org.member("operator").call("update_module", p_module=module, p_spec=spec)
    assert org.owner.call("update_module", p_module=module, p_spec=spec)["is_temporary"]


def test_a_held_job_that_now_needs_more_approvals_is_not_retried_without_them(world: World, org: Organization) -> None:
    module = org.module("a/b")
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    job = org.enqueue("a/b", "APPLY")
    runner.report(runner.claim_one(), "APPLY")
    world.lose(runner)
    org.owner.call("update_module", p_module=module, p_spec={"approvals_required": 2})
    with refused("RY409", "Its module requires 2 approvals now; the job has 0."):
        org.owner.call("resolve_attention", p_job=job, p_action="retry")
    org.owner.call("resolve_attention", p_job=job, p_action="mark_failed")
    assert org.owner.call("retry_job", p_job=job)["approvals_required"] == 2


def test_a_retried_plan_needs_nobody(world: World, org: Organization) -> None:
    org.module("a/b", approvals_required=2)
    job = org.enqueue("a/b")
    org.owner.call("cancel_job", p_job=job)
    assert world.status(org.owner.call("retry_job", p_job=job)["id"]) == "QUEUED"


# ---------------------------------------------------------------------- the audit


def test_the_audit_names_the_member_not_the_token(world: World, org: Organization) -> None:
    """An address that somebody gave themselves is not the one that was invited."""
    operator = org.member("operator")
    world.act_as(operator, "authenticated", sub=operator.id, email="security@auditors.example")
    job = ask(org, operator)
    operator.call("cancel_job", p_job=job, p_reason="no")
    labels = world.owner.rows(
        "select actor_label from public.audit_events where actor_id = %s union select actor_label from public.job_events"
        " where actor_id = %s union select created_by_label from public.provision_jobs where created_by = %s",
        *[operator.id] * 3,
    )
    assert labels == [operator.email]


def test_the_audit_names_the_system_for_changes_within_a_runners_call(world: World, org: Organization) -> None:
    """The audit of one organisation names no runner of another."""
    stranger = world.organization().runner("r1")
    claims = Jsonb({"role": "worker", "sub": stranger.worker_id})
    with world.owner.connection.transaction():
        world.owner.one("select set_config('request.jwt.claims', %s::text, true)", claims)
        world.owner.one("select private.audit(%s, 'module.deleted', 'module', 'x', 'a/b')", org.id)
    last = "select actor_kind::text, actor_id, actor_label from public.audit_events where org_id = %s order by id desc"
    assert world.owner.rows(last, org.id)[0] == ("system", None, "system")


def test_the_audit_names_a_member_who_leaves(world: World, org: Organization) -> None:
    person = org.member("viewer")
    world.act_as(person, "authenticated", sub=person.id, email="else@example.org")
    person.call("remove_member", p_org=org.id, p_user=person.id)
    assert [label for label, _ in audited(world, org, "member.removed")] == [person.email]


def test_a_changed_module_shows_old_and_new_values(world: World, org: Organization) -> None:
    module = org.module("a/b", approvals_required=1)
    files = {"main.tf": "x" * 5000}
    org.owner.call(
        "update_module",
        p_module=module,
        p_spec={"approvals_required": 0, "description": "", "source": {"files": files}},
    )
    ((_, detail),) = audited(world, org, "module.updated")
    changes = detail["changes"]
    assert changes["approvals_required"] == {"from": 1, "to": 0}
    assert set(changes) == {"approvals_required", "source"}, "what stayed the same is not a change"
    assert changes["source"]["to"]["bytes"] > 5000, "what is large is named by its size and its digest"
    assert len(changes["source"]["to"]["sha256"]) == 64
