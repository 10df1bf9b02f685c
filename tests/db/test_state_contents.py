"""A state on its page: resources and outputs, rolling back, breaking its lock, and a member's own lock."""

import json
from typing import Any

import pytest

from tests.db.calls import calls_of, count_calls
from tests.db.world import Organization, Runner, World, refused

TOFU = {
    "version": 4, "serial": 1, "lineage": "one",
    "outputs": {"url": {"value": "https://x", "type": "string"}, "key": {"value": "s3cret", "sensitive": True}},
    "resources": [
        {"mode": "managed", "type": "vm", "name": "a", "instances": [
            {"index_key": 0, "attributes": {"id": "i-0"}},
            {"index_key": 1, "attributes": {"id": "hidden-1"},
             "sensitive_attributes": [[{"type": "get_attr", "value": "id"}]]},
        ]},
        {"module": "module.m", "mode": "managed", "type": "vm", "name": "b", "instances": [{"index_key": "x"}]},
        {"mode": "data", "type": "img", "name": "c", "instances": [{}]},
    ],
}  # fmt: skip
PULUMI = {
    "version": 3,
    "deployment": {
        "resources": [
            {"urn": "urn:s", "type": "pulumi:pulumi:Stack",
             "outputs": {"a": 1, "b": {"4dabf18193072939515e22adb298388d": "x", "ciphertext": "c1ph"}}},
            {"urn": "urn:vm", "type": "aws:vm", "id": "i-1"},
        ]
    },
}  # fmt: skip


def write(org: Organization, body: dict[str, Any], kind: str = "APPLY", *, is_finished: bool = True) -> dict[str, Any]:
    """A job that has written a state."""
    runner = org.runner(f"r{len(org.modules)}-{body.get('serial')}", is_assigned_to_all_modules=True)
    org.enqueue("a/b", kind)
    job = runner.claim_one()
    runner.call("worker_state_put", p_job=job["id"], p_attempt=1, p_body=json.dumps(body), p_lock_id=None)
    if is_finished:
        runner.finish(job)
    return job | {"runner": runner}


def test_resources_and_outputs_without_a_secret(org: Organization, other_org: Organization) -> None:
    module = org.module("a/b")
    viewer = org.member("viewer")
    assert viewer.call("state_resources", p_module=module)["total"] == 0
    write(org, TOFU)
    found = viewer.call("state_resources", p_module=module)
    assert [each["address"] for each in found["resources"]] == ['module.m.vm.b["x"]', "vm.a[0]", "vm.a[1]"]
    assert (found["total"], found["types"], found["serial"]) == (3, {"vm": 3}, 1)
    assert [each["id"] for each in found["resources"]] == [None, "i-0", None]
    assert found["outputs"]["url"]["value"] == "https://x"
    assert not {"s3cret", "hidden-1"} & set(json.dumps(found).split('"'))
    few = viewer.call("state_resources", p_module=module, p_search="VM.a[")
    assert ([each["address"] for each in few["resources"]], few["found"], few["total"]) == (
        ["vm.a[0]", "vm.a[1]"],
        2,
        3,
    )
    assert viewer.call("state_resources", p_module=module, p_search=None)["found"] == 3
    with refused("RY404"):
        other_org.owner.call("state_resources", p_module=module)


def test_a_search_parses_no_state(fresh_world: World) -> None:
    """A state may have megabytes, and a page searches with every keystroke: it is parsed once, when it is written."""
    count_calls(fresh_world)
    org = fresh_world.organization()
    module = org.module("a/b")
    write(org, TOFU)
    calls = calls_of(org.owner, lambda: org.owner.call("state_resources", p_module=module, p_search="vm"))
    assert calls["state_resources"] == 1
    assert not calls.keys() & {"terraform_resources", "pulumi_resources"}


def test_an_output_that_is_not_plainly_open_is_kept_back(org: Organization) -> None:
    module = org.module("a/b")
    odd = {"one": {"value": "s3cret", "sensitive": "perhaps"}, "two": {"value": "x", "sensitive": False}}
    write(org, {**TOFU, "outputs": odd})
    assert org.owner.call("state_resources", p_module=module)["outputs"] == {
        "one": {"sensitive": True, "value": None},
        "two": {"sensitive": False, "value": "x"},
    }


def test_a_checkpoint_of_pulumi_is_read_too(org: Organization) -> None:
    module = org.module("a/b", engine="pulumi")
    write(org, PULUMI)
    found = org.owner.call("state_resources", p_module=module)
    assert [(each["address"], each["id"]) for each in found["resources"]] == [("urn:vm", "i-1")]
    assert found["outputs"]["a"]["value"] == 1
    assert "c1ph" not in json.dumps(found)


@pytest.mark.parametrize(
    "odd", [{"serial": 1, "resources": 7, "outputs": []}, {"serial": 1, "resources": [{"type": "x"}]}]
)
def test_odd_states_are_read_without_falling_over(org: Organization, odd: dict[str, Any]) -> None:
    module = org.module("a/b")
    write(org, odd)
    assert org.owner.call("state_resources", p_module=module)["total"] == 0


def test_a_resource_without_a_type_is_counted_under_none(org: Organization) -> None:
    module = org.module("a/b")
    write(org, {"serial": 1, "resources": [{"name": "x", "instances": [{}]}, *TOFU["resources"]]})
    found = org.owner.call("state_resources", p_module=module)
    assert (found["total"], found["types"]) == (4, {"vm": 3})


def test_an_older_version_becomes_the_newest_again(world: World, org: Organization) -> None:
    module = org.module("a/b")
    write(org, TOFU)
    write(org, TOFU | {"serial": 2, "resources": []})
    with refused("RY403"):
        org.member("operator").call("roll_back_state", p_module=module, p_serial=1)
    assert org.owner.call("roll_back_state", p_module=module, p_serial=1) == {"serial": 3}
    assert org.owner.call("state_resources", p_module=module)["total"] == 3
    body = org.owner.call("state_version", p_module=module, p_serial=3)["body"]
    assert json.loads(body)["serial"] == 3, "an engine refuses what is older than what it knows"
    with refused("RY409", "Serial 3 is the current state."):
        org.owner.call("roll_back_state", p_module=module, p_serial=3)
    with refused("RY404", "There is no version 9 of this state."):
        org.owner.call("roll_back_state", p_module=module, p_serial=9)
    assert world.owner.one(
        "select count(*) from public.audit_events where action = 'state.rolled_back' and org_id = %s", org.id
    )


def test_nothing_is_rolled_back_under_a_job(org: Organization) -> None:
    module = org.module("a/b")
    write(org, TOFU)
    write(org, TOFU | {"serial": 2}, is_finished=False)
    with refused("RY423", "A job is using the module's state."):
        org.owner.call("roll_back_state", p_module=module, p_serial=1)


def lock(runner: Runner, job: dict[str, Any]) -> None:
    runner.call("worker_state_lock", p_job=job["id"], p_attempt=1, p_lock={"ID": "abc"})


def applying(org: Organization) -> tuple[Runner, dict[str, Any]]:
    """An apply that has begun and holds the lock."""
    runner = org.runner("r", is_assigned_to_all_modules=True)
    org.enqueue("a/b", "APPLY")
    job = runner.claim_one()
    runner.report(job, "APPLY")
    lock(runner, job)
    return runner, job


def verdict(org: Organization) -> tuple[str, list[str]]:
    found = org.member("viewer").call("lock_evidence", p_module=org.modules["a/b"])
    return found["verdict"], [each["weighs"] for each in found["evidence"]]


def test_a_lock_is_safe_to_break_only_after_its_job_has_ended(world: World, org: Organization) -> None:
    org.module("a/b")
    assert verdict(org) == ("free", [])
    runner, job = applying(org)
    assert verdict(org) == ("unsafe", ["against"]), "it is running"
    world.lose(runner)
    assert verdict(org) == ("unclear", ["unclear", "unclear"]), "out of contact, and nobody knows how far it got"
    org.owner.call("resolve_attention", p_job=job["id"], p_action="mark_failed")
    assert verdict(org) == ("safe", ["for"]), "it has ended and left its lock"


def test_the_state_is_unclear_after_a_killed_engine_until_its_lock_is_released(org: Organization) -> None:
    org.module("a/b")
    runner, job = applying(org)
    runner.finish(job, "NEEDS_ATTENTION", p_error={"code": "engine_killed", "message": "killed"})
    assert verdict(org) == ("unclear", ["unclear"])
    org.owner.call("resolve_attention", p_job=job["id"], p_action="release_lock", p_proof="abc")
    assert verdict(org) == ("free", [])


def test_a_locked_module_is_not_changed_by_running_a_job_again(world: World, org: Organization) -> None:
    module = org.module("a/b")
    cancelled = org.enqueue("a/b", "APPLY")
    org.owner.call("cancel_job", p_job=cancelled)
    runner, held = applying(org)
    world.lose(runner)
    org.member("operator").call("lock_module", p_module=module, p_reason="Month-end")
    with refused("RY409", "has locked the module"):
        org.owner.call("retry_job", p_job=cancelled)
    with refused("RY409", "has locked the module"):
        org.owner.call("resolve_attention", p_job=held["id"], p_action="retry")
    org.owner.call("unlock_module", p_module=module)
    assert org.owner.call("resolve_attention", p_job=held["id"], p_action="retry")["status"] == "QUEUED"


def test_a_locked_module_is_planned_and_not_changed(world: World, org: Organization) -> None:
    module = org.module("a/b", auto_apply=True)
    operator = org.member("operator")
    for bad in ("  ", None, "x" * 501):
        with refused("RY422", "A lock needs a reason"):
            operator.call("lock_module", p_module=module, p_reason=bad)
    assert operator.call("lock_module", p_module=module, p_reason="Month-end")["reason"] == "Month-end"
    with refused("RY409", "The module is locked already."):
        org.owner.call("lock_module", p_module=module, p_reason="me too")
    for kind in ("APPLY", "DESTROY"):
        with refused("RY409", f"{operator.email} has locked the module: Month-end"):
            org.enqueue("a/b", kind)
    runner = org.runner("r", is_assigned_to_all_modules=True)
    plan = org.enqueue("a/b", "PLAN")
    runner.finish(runner.claim_one(), p_plan_summary={"has_changes": True})
    waiting = world.owner.one("select id from public.provision_jobs where plan_job_id = %s", plan)
    assert world.status(waiting) == "AWAITING_APPROVAL", (
        "what a person has locked waits for a person, also with auto-apply"
    )
    with refused("RY409", "has locked the module"):
        org.owner.call("approve_job", p_job=waiting, p_decision="approve")
    assert org.owner.call("unlock_module", p_module=module) == {"unlocked": True}
    with refused("RY404", "The module is not locked."):
        org.owner.call("unlock_module", p_module=module)
    assert org.owner.call("approve_job", p_job=waiting, p_decision="approve")["status"] == "QUEUED"


@pytest.mark.parametrize("kind", ["APPLY", "DESTROY"])
def test_a_module_is_not_locked_while_a_job_is_queued_that_would_change_it(org: Organization, kind: str) -> None:
    module = org.module("a/b")
    org.enqueue("a/b", "PLAN")
    queued = org.enqueue("a/b", kind)
    number = org.world.job(queued)["number"]
    with refused("RY409", f"Job {number} is queued and would change the module."):
        org.owner.call("lock_module", p_module=module, p_reason="Month-end")
    org.owner.call("cancel_job", p_job=queued)
    assert org.owner.call("lock_module", p_module=module, p_reason="Month-end")["reason"] == "Month-end"


def test_a_module_is_locked_while_a_job_changes_it(world: World, org: Organization) -> None:
    _, job = applying(org)
    org.owner.call("lock_module", p_module=org.modules["a/b"], p_reason="Month-end")
    assert world.status(job["id"]) == "PROCESSING"
