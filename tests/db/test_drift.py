"""Drift: told once, acted on once, as the module's group says, and shown by group."""

from typing import Any

import pytest

from tests.db.test_policies import attach
from tests.db.world import Organization, Runner, World, refused, this

VPC, SUBNET = "aws_vpc.main", "aws_subnet.a"


def found(*resources: tuple[str, str], mark: str = "a") -> dict[str, Any]:
    """A summary of a check or a plan."""
    rows = [{"address": address, "action": action} for address, action in resources]
    counts = {name: sum(each["action"] == name for each in rows) for name in ("create", "update", "replace", "delete")}
    return {**counts, "resources": rows, "outputs": [], "has_changes": bool(rows), "fingerprint": mark * 64}


def check(org: Organization, runner: Runner, summary: dict[str, Any]) -> None:
    org.enqueue("net/eu/vpc", "DRIFT")
    runner.finish(runner.claim_one(), p_plan_summary=summary)


def waiting(org: Organization) -> list[tuple[Any, ...]]:
    """The jobs that nobody has begun: type, status, whether a person must confirm."""
    return org.world.owner.rows(
        "select type::text, status::text, needs_confirmation from public.provision_jobs"
        " where org_id = %s and status in ('QUEUED', 'AWAITING_APPROVAL') order by id",
        org.id,
    )


@pytest.fixture
def runner(org: Organization) -> Runner:
    org.module("net/eu/vpc")
    return org.runner("r", is_assigned_to_all_modules=True)


def test_people_are_only_told_unless_the_group_says_otherwise(world: World, org: Organization, runner: Runner) -> None:
    check(org, runner, found((VPC, "update")))
    assert waiting(org) == []


def test_a_finding_is_acted_on_once_and_another_one_again(world: World, org: Organization, runner: Runner) -> None:
    org.group("net", p_drift_action="plan")
    for mark in "aab":
        check(org, runner, found((VPC, "update"), mark=mark))
        for _ in waiting(org):
            runner.finish(runner.claim_one(), p_plan_summary=found())
            # A plan without changes clears the mark; what follows is another finding.
            world.owner.connection.execute(
                "update public.modules set drift_since = now(), drift_finding = %s", [mark * 64]
            )
    made = world.owner.rows(
        "select count(*) from public.provision_jobs where type = 'PLAN' and created_by_label = 'drift'"
    )
    assert made == [2]


def test_the_nearest_group_decides_and_may_inherit_again(org: Organization) -> None:
    org.group("net", p_drift_action="apply")
    assert org.group("net/eu", p_drift_action="tell")["drift_action"] == "tell"
    assert org.group("net/eu")["drift_action"] == "tell"
    assert org.group("net/eu", p_drift_action="inherit")["drift_action"] is None


@pytest.mark.parametrize(
    ("action", "plan", "then"),
    [
        ("plan", [(VPC, "update")], ("APPLY", "AWAITING_APPROVAL", True)),
        ("apply", [(VPC, "update")], ("APPLY", "QUEUED", False)),
        ("apply", [(VPC, "create")], ("APPLY", "QUEUED", False)),
        ("apply", [(VPC, "replace")], ("APPLY", "AWAITING_APPROVAL", True)),
        ("apply", [(VPC, "update"), (SUBNET, "delete")], ("APPLY", "AWAITING_APPROVAL", True)),
        ("apply", [(VPC, "update"), (SUBNET, "update")], ("APPLY", "AWAITING_APPROVAL", True)),
    ],
)
def test_only_drifted_resources_are_repaired_without_a_person(
    world: World, org: Organization, runner: Runner, action: str, plan: list[tuple[str, str]], then: tuple[Any, ...]
) -> None:
    org.group("net", p_drift_action=action)
    check(org, runner, found((VPC, "update")))
    assert waiting(org) == [("PLAN", "QUEUED", False)]
    runner.finish(runner.claim_one(), p_plan_summary=found(*plan))
    assert waiting(org) == [then]


def test_a_repair_of_a_module_with_approvals_waits_for_them(world: World, org: Organization, runner: Runner) -> None:
    org.group("net", p_drift_action="apply")
    org.owner.call("update_module", p_module=org.modules["net/eu/vpc"], p_spec={"approvals_required": 1})
    check(org, runner, found((VPC, "update")))
    runner.finish(runner.claim_one(), p_plan_summary=found((VPC, "update")))
    assert waiting(org) == [("APPLY", "AWAITING_APPROVAL", False)]


def test_accepted_drift_is_taken_into_the_state_and_checked_again(
    world: World, org: Organization, runner: Runner
) -> None:
    org.group("net", p_drift_action="accept")
    check(org, runner, found((VPC, "update")))
    assert waiting(org) == [("APPLY", "QUEUED", False)]
    job = runner.claim_one()
    assert job["payload"]["options"]["refresh_only"] is True
    runner.report(job, "APPLY")
    runner.finish(job)
    assert waiting(org) == [("DRIFT", "QUEUED", False)]
    runner.finish(runner.claim_one(), p_plan_summary=found())
    assert world.owner.rows("select drift_since, drift_finding from public.modules where org_id = %s", org.id) == [
        (None, None)
    ]


def test_a_locked_modules_drift_waits_for_a_person(world: World, org: Organization, runner: Runner) -> None:
    org.group("net", p_drift_action="accept")
    org.owner.call("lock_module", p_module=org.modules["net/eu/vpc"], p_reason="hands off")
    check(org, runner, found((VPC, "update")))
    assert waiting(org) == [("APPLY", "AWAITING_APPROVAL", True)]


def test_a_group_repairs_drift_only_where_its_author_may_apply(org: Organization) -> None:
    org.member("operator").call("upsert_group", p_org=org.id, p_path="net", p_drift_action="apply")
    planner = org.member("viewer")
    org.owner.call("set_role", p_org=org.id, p_name="keeper", p_verbs="{group.write,module.read}")
    org.owner.call("grant_role", p_org=org.id, p_path="net", p_role="keeper", p_kind="member", p_subject=planner.id)
    planner.call("upsert_group", p_org=org.id, p_path="net", p_drift_action="tell")
    for action in ("apply", "accept"):
        with refused("RY403"):
            planner.call("upsert_group", p_org=org.id, p_path="net", p_drift_action=action)
    with refused("RY422", "The group is not valid."):
        org.group("net", p_drift_action="destroy")


@pytest.mark.parametrize(
    "rules",
    [
        {},
        ["x"],
        [{"address": "a"}],
        [{"reason": "r"}],
        [{"address": "", "reason": "r"}],
        [{"address": "a", "reason": " "}],
        [{"address": "a", "reason": "r", "until": "tomorrow"}],
        [{"address": "a", "reason": "r", "until": "2030-13-01"}],
        [{"address": "a", "reason": "r", "value": "x"}],
        [{"address": "a", "reason": "r", "attribute": 1}],
        [{"address": "a", "reason": "r"}] * 101,
    ],
)
def test_rules_that_are_none_are_refused(org: Organization, rules: Any) -> None:
    with refused("RY422", "A time limit or a rule of drift is not valid."):
        org.module("net/vpc", drift_ignores=rules)


def test_rules_go_with_checks_alone(world: World, org: Organization) -> None:
    rules = [{"address": "aws_vpc.*", "attribute": "tags", "reason": "the scanner", "until": "2030-01-31"}]
    org.module("net/vpc", drift_ignores=rules)
    frozen = {kind: world.job(org.enqueue("net/vpc", kind))["payload"]["module"] for kind in ("DRIFT", "APPLY")}
    assert (frozen["DRIFT"]["drift_ignores"], frozen["APPLY"]["drift_ignores"]) == (rules, None)


def test_the_overview_counts_by_group_and_says_who_was_told(org: Organization, runner: Runner) -> None:
    org.owner.call("update_module", p_module=org.modules["net/eu/vpc"], p_spec={})
    check(org, runner, found((VPC, "update"), (SUBNET, "delete")))
    rows = org.member("viewer").call("drift_overview", p_org=org.id)
    assert [(row["path"], row["modules"], row["resources"], row["action"], row["told"]) for row in rows] == [
        ("net/eu", 1, 2, "tell", [])
    ]
    assert org.owner.call("drift_overview", p_org=org.id, p_path="other") == []


@pytest.mark.parametrize("action", ["plan", "apply", "accept"])
def test_what_drift_starts_is_checked_by_the_policies_of_its_module(
    org: Organization, runner: Runner, action: str
) -> None:
    attach(org, "net", "cost", "overridable")
    org.group("net", p_drift_action=action)
    check(org, runner, found((VPC, "update")))
    job = runner.claim_one()
    assert [each["name"] for each in runner.call("worker_policies", **this(job))["sets"]] == ["cost"]
    if action == "accept":
        checks = [{"id": each["id"], "verdict": "passed"} for each in job["payload"]["policies"]]
        runner.call("worker_record_checks", **this(job), p_checks=checks)
        runner.finish(job, p_plan_summary=found())
        again = runner.claim_one()
        assert (again["type"], again["payload"].get("policies")) == ("DRIFT", None)
