"""The backend that keeps a module's state, and how a state is imported and pushed."""

import json

import pytest

from tests.db.test_reading import guest
from tests.db.world import Organization, Runner, World, refused, this


@pytest.fixture
def runner(org: Organization) -> Runner:
    return org.runner("r1", is_assigned_to_all_modules=True, capacity=5)


def body(serial: int, lineage: str = "l", **more: object) -> str:
    return json.dumps({"version": 4, "serial": serial, "lineage": lineage, "resources": [], **more})


def push(org: Organization, path: str, text: str) -> dict[str, object]:
    done: dict[str, object] = org.member("admin").call("push_state", p_module=org.modules[path], p_body=text)
    return done


def test_nobody_has_chosen_a_backend_until_somebody_does(world: World, org: Organization) -> None:
    module = org.module("a/b")
    assert world.job(org.enqueue("a/b"))["payload"]["module"]["backend"] is None
    org.member("operator").call("update_module", p_module=module, p_spec={"backend": "own"})
    assert world.job(org.enqueue("a/b"))["payload"]["module"]["backend"] == "own"
    with refused("RY422", "A field of the module is out of range."):
        org.owner.call("update_module", p_module=module, p_spec={"backend": "elsewhere"})
    with refused("RY403"):
        org.member("viewer").call("update_module", p_module=module, p_spec={"backend": "runyard"})


def test_a_pulumi_module_has_no_backend_of_its_own(org: Organization) -> None:
    with refused("RY422", "Runyard keeps the state of Pulumi modules itself."):
        org.module("a/p", engine="pulumi", backend="own")
    org.module("a/p", engine="pulumi")
    with refused("RY409", '"a/p" keeps its own backend or is a Pulumi module.'):
        org.enqueue("a/p", bring_state=True)


def test_a_module_with_a_state_here_cannot_change_to_its_own_backend(org: Organization) -> None:
    module = org.module("a/b")
    push(org, "a/b", body(0))
    with refused("RY409", "Runyard has a state of this module."):
        org.owner.call("update_module", p_module=module, p_spec={"backend": "own"})


def test_a_module_with_its_own_backend_gets_no_state_here(org: Organization, runner: Runner) -> None:
    org.module("a/b", backend="own")
    words = '"a/b" keeps its own backend; Runyard stores no state of it.'
    with refused("RY409", words):
        push(org, "a/b", body(1))
    org.enqueue("a/b", "APPLY")
    with refused("RY409", words):
        runner.call("worker_state_put", **this(runner.claim_one(), p_body=body(1)))
    with refused("RY409", '"a/b" keeps its own backend or is a Pulumi module.'):
        org.enqueue("a/b", bring_state=True)


def test_a_state_comes_in_by_a_whole_plan_and_only_once(org: Organization) -> None:
    org.module("a/b")
    for wrong in ({"destroy": True}, {"targets": ["x"]}, {"confirm": True}, {"auto_apply": True}):
        with refused("RY422", "A state is brought in by a plan of the whole module"):
            org.enqueue("a/b", bring_state=True, **wrong)
    with refused("RY422", "A state is brought in by a plan of the whole module"):
        org.enqueue("a/b", "APPLY", bring_state=True)
    with refused("RY422", '"bring_state" is not true or false.'):
        org.enqueue("a/b", bring_state="yes")
    org.enqueue("a/b", bring_state=True)
    push(org, "a/b", body(1))
    with refused("RY409", 'Runyard has a state of "a/b" already.'):
        org.enqueue("a/b", bring_state=True)


def test_one_call_brings_in_the_states_of_many_modules_or_of_none(org: Organization) -> None:
    modules = [org.module("a/b"), org.module("a/c")]
    several = {
        "p_org": org.id,
        "p_type": "PLAN",
        "p_modules": f"{{{','.join(modules)}}}",
        "p_options": {"bring_state": True},
    }
    assert len(org.owner.call("enqueue_jobs", **several)) == 2
    push(org, "a/c", body(1))
    with refused("RY409", 'Runyard has a state of "a/c" already.'):
        org.owner.call("enqueue_jobs", **several)


def test_a_state_that_came_meanwhile_is_not_replaced_by_one_that_is_brought_in(
    org: Organization, runner: Runner
) -> None:
    org.module("a/b")
    org.enqueue("a/b", bring_state=True)
    push(org, "a/b", body(5))
    job = runner.claim_one()
    with refused("RY409", "Runyard has a state of this module already."):
        runner.call("worker_state_put", **this(job, p_body=body(6)))
    assert runner.call("worker_state_put", **this(job, p_body=body(5)))["is_unchanged"], "after a retry"


def test_who_may_only_plan_brings_no_state_in(org: Organization) -> None:
    module, planner = org.module("a/b"), guest(org, "a", role="planner")
    plan = {"p_org": org.id, "p_type": "PLAN", "p_module": module}
    with refused("RY403", "job.apply"):
        planner.call("enqueue_job", **plan, p_options={"bring_state": True})
    assert planner.call("enqueue_job", **plan)["status"] == "QUEUED"


def test_nothing_is_applied_automatically_after_a_state_was_brought_in(
    world: World, org: Organization, runner: Runner
) -> None:
    module = org.module("a/b", auto_apply=True)
    applies = "select id from public.provision_jobs where type = 'APPLY' and module_id = %s"
    org.enqueue("a/b", bring_state=True)
    changes = {"p_result": {}, "p_plan_summary": {"has_changes": True, "update": 1}}
    runner.finish(runner.claim_one(), "SUCCEEDED", **changes)
    assert world.owner.rows(applies, module) == []
    org.enqueue("a/b")
    runner.finish(runner.claim_one(), "SUCCEEDED", **changes)
    assert len(world.owner.rows(applies, module)) == 1


def test_each_push_is_a_version_with_its_author_and_an_audit_entry(org: Organization) -> None:
    module = org.module("a/b")
    assert push(org, "a/b", body(7)) == {"serial": 7, "lineage": "l"}
    push(org, "a/b", body(8))
    info = org.owner.call("state_info", p_module=module)
    assert [(each["serial"], each["job_id"]) for each in info["versions"]] == [(8, None), (7, None)]
    assert all("@" in each["written_by"] for each in info["versions"])
    assert org.owner.call("state_version", p_module=module, p_serial=7)["body"] == body(7)
    entries = org.owner.rows(
        "select detail from public.audit_events where action = 'state.pushed' and target_id = %s order by at", module
    )
    assert [(each["serial"], each["before"]) for each in entries] == [(7, None), (8, 7)]


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (body(5), "RY409", "The state's serial 5 is not newer than 5."),
        (body(6, "other"), "RY409", "The state has the lineage other, and the stored one l."),
        (body(10**9), "RY422", "The state's serial 1000000000 is not between 0 and 1000005."),
        ('{"serial": 6, "lineage": "l"}', "RY422", "This is not a state of tofu."),
        ("[]", "RY422", "This is not a state of tofu."),
        (body(6, version=5), "RY422", "The state has the version 5; only version 4 is stored."),
        (body(6, version=3), "RY422", "The state has the version 3; only version 4 is stored."),
        (body(6, version=None), "RY422", "The state has the version null; only version 4 is stored."),
        (body(6, version="4"), "RY422", 'The state has the version "4"; only version 4 is stored.'),
        (body(6, resources={}), "RY422", "The state has not the shape of version 4"),
        (body(6, resources=["x"]), "RY422", "The state has not the shape of version 4"),
        (body(6, outputs=[]), "RY422", "The state has not the shape of version 4"),
        (body(6).replace("6", chr(34) + "6" + chr(34)), "RY422", "The state has not the shape of version 4"),
        (body(6).replace(chr(34) + "l" + chr(34), "{}"), "RY422", "The state has not the shape of version 4"),
        (body(6, "l" * 201), "RY422", "The state has not the shape of version 4"),
        (body(10**30), "RY422", "The state is not JSON, or its serial is not a number."),
        (body(-6), "RY409", "The state's serial -6 is not newer than 5."),
        ("[" * 100_000 + "]" * 100_000, "RY422", "The state nests its values too deeply to be read."),
        ("not json", "RY422", "The state is not JSON, or its serial is not a number."),
    ],
)
def test_a_state_that_does_not_follow_the_stored_one_is_refused(
    org: Organization, text: str, code: str, words: str
) -> None:
    org.module("a/b")
    push(org, "a/b", body(5))
    with refused(code, words):
        push(org, "a/b", text)


def test_an_encrypted_state_and_a_pulumi_checkpoint_can_be_pushed(org: Organization) -> None:
    org.module("a/b")
    assert push(org, "a/b", '{"serial": 3, "lineage": "l", "encrypted_data": "x"}')["serial"] == 3
    org.module("a/p", engine="pulumi")
    assert push(org, "a/p", '{"version": 3, "deployment": {"resources": []}}')["serial"] == 1


def test_a_push_waits_for_the_job_that_uses_the_state(org: Organization, runner: Runner) -> None:
    org.enqueue("a/b")
    job = runner.claim_one()
    with refused("RY423", "A job is using the module's state."):
        push(org, "a/b", body(1))
    runner.finish(job)
    assert push(org, "a/b", body(1))["serial"] == 1


def test_only_admins_push(org: Organization, other_org: Organization) -> None:
    module = org.module("a/b")
    with refused("RY403"):
        org.member("operator").call("push_state", p_module=module, p_body=body(1))
    with refused("RY404"):
        other_org.owner.call("push_state", p_module=module, p_body=body(1))
