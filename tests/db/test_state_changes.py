"""STATE jobs: moving, removing and importing resources of a state, with review, and between two modules at once."""

import json
from typing import Any

import pytest

from tests.db.world import Organization, Runner, World, refused, this

MOVE = {"action": "move", "addresses": ["a.b"], "to": "c.d"}
REMOVE = {"action": "remove", "addresses": ["a.b", "a.c"]}


@pytest.fixture
def runner(org: Organization) -> Runner:
    return org.runner("r1", is_assigned_to_all_modules=True, capacity=5)


def body(serial: int, lineage: str = "l") -> str:
    return json.dumps({"version": 4, "serial": serial, "lineage": lineage, "resources": []})


def with_states(org: Organization, *paths: str) -> list[str]:
    """Modules whose state has the serial 5 and their path as lineage."""
    made = [org.module(path) for path in paths]
    for path, module in zip(paths, made, strict=True):
        org.owner.call("push_state", p_module=module, p_body=body(5, path))
    return made


def between(other: str) -> dict[str, Any]:
    return {**MOVE, "module": other}


def serials(org: Organization, *modules: str) -> list[int]:
    return [org.owner.call("state_info", p_module=each)["serial"] for each in modules]


def test_a_change_waits_for_review_with_a_message_that_describes_it(
    world: World, org: Organization, runner: Runner
) -> None:
    (module,) = with_states(org, "a/b")
    org.owner.call("update_module", p_module=module, p_spec={"approvals_required": 1})
    job = world.job(org.enqueue("a/b", "STATE", state_change=REMOVE))
    assert (job["status"], job["message"]) == ("AWAITING_APPROVAL", "Remove a.b, a.c from the state")
    assert runner.claim() == []
    org.member("operator").call("approve_job", p_job=job["id"], p_decision="approve")
    claimed = runner.claim_one()
    assert (claimed["type"], claimed["payload"]["options"]["state_change"]) == ("STATE", REMOVE)


def test_only_admins_change_a_state_and_only_one_that_is_kept_here(org: Organization) -> None:
    module, other = *with_states(org, "a/b"), org.module("a/own", backend="own")
    call = {"p_org": org.id, "p_type": "STATE", "p_module": module, "p_options": {"state_change": MOVE}}
    with refused("RY403"):
        org.member("operator").call("enqueue_job", **call)
    org.member("admin").call("enqueue_job", **call)
    org.module("a/new")
    org.module("a/pulumi", engine="pulumi")
    with refused("RY409", 'Runyard has no state of "a/new".'):
        org.enqueue("a/new", "STATE", state_change=MOVE)
    org.enqueue("a/new", "STATE", state_change={"action": "import", "addresses": ["a.b"], "id": "i-1"})
    with refused("RY409", '"a/own" keeps its own backend'):
        org.enqueue("a/b", "STATE", state_change=between(other))
    with refused("RY422", 'The state of "a/pulumi" is changed with Pulumi itself.'):
        org.enqueue("a/pulumi", "STATE", state_change=MOVE)


@pytest.mark.parametrize(
    "change",
    [
        "move",
        {"action": "dance", "addresses": ["a.b"]},
        {"action": "move", "addresses": ["a.b"]},
        {**MOVE, "to": "-lock=false"},
        {**MOVE, "addresses": ["a.b", "a.c"]},
        {**MOVE, "module": "elsewhere"},
        {**MOVE, "more": 1},
        {**REMOVE, "addresses": []},
        {**REMOVE, "addresses": ["-state=x"]},
        {**REMOVE, "to": "c.d"},
        {"action": "import", "addresses": ["a.b"]},
        {"action": "import", "addresses": ["a.b"], "id": "i\n2"},
    ],
)
def test_a_change_that_no_engine_could_carry_out_is_refused(org: Organization, change: Any) -> None:
    with_states(org, "a/b")
    words = "Unknown option: more." if "more" in change else "The change of the state cannot be read."
    with refused("RY422", words):
        org.enqueue("a/b", "STATE", state_change=change)


def test_only_a_state_job_has_a_change_and_it_has_nothing_else(org: Organization) -> None:
    modules = with_states(org, "a/b", "a/c")
    words = "A STATE job has a state_change, and no option of plans and applies."
    for kind, options in (
        ("STATE", {}),
        ("APPLY", {"state_change": MOVE}),
        ("STATE", {"state_change": MOVE, "destroy": True}),
    ):
        with refused("RY422", words):
            org.enqueue("a/b", kind, **options)
    several = {"p_org": org.id, "p_type": "STATE", "p_modules": f"{{{','.join(modules)}}}"}
    with refused("RY422", "One job changes the state of one module, or of two different ones."):
        org.owner.call("enqueue_jobs", **several, p_options={"state_change": MOVE})
    with refused("RY422", "One job changes the state of one module, or of two different ones."):
        org.enqueue("a/b", "STATE", state_change=between(modules[0]))


def test_a_change_is_refused_while_a_job_uses_one_of_the_states(org: Organization, runner: Runner) -> None:
    _, other = with_states(org, "a/b", "a/c")
    org.enqueue("a/c")
    job = runner.claim_one()
    for path, change in (("a/c", MOVE), ("a/b", between(other))):
        with refused("RY423", 'A job is using the state of "a/c".'):
            org.enqueue(path, "STATE", state_change=change)
    runner.finish(job)
    org.enqueue("a/b", "STATE", state_change=between(other))


def test_a_locked_module_keeps_its_state(org: Organization) -> None:
    modules = with_states(org, "a/b", "a/c")
    org.owner.call("lock_module", p_module=modules[1], p_reason="frozen")
    for path, change in (("a/c", MOVE), ("a/b", between(modules[1]))):
        with refused("RY409", "has locked the module: frozen"):
            org.enqueue(path, "STATE", state_change=change)
    org.enqueue("a/b", "STATE", state_change=MOVE)
    with refused("RY409", "is queued and would change the module."):
        org.owner.call("lock_module", p_module=modules[0], p_reason="frozen")


def test_a_move_between_modules_writes_both_states_or_neither(org: Organization, runner: Runner) -> None:
    modules = with_states(org, "a/b", "a/c")
    org.enqueue("a/b", "STATE", state_change=between(modules[1]))
    job = runner.claim_one()
    assert runner.call("worker_destination_state", **this(job))["lineage"] == "a/c"
    # The second state does not follow the stored one: the first stays, too.
    with refused("RY409", "The state's serial 5 is not newer than 5."):
        runner.call("worker_move_states", **this(job, p_from=body(6, "a/b"), p_to=body(5, "a/c") + " "))
    assert serials(org, *modules) == [5, 5]
    # Somebody began to use the other state meanwhile.
    org.enqueue("a/c")
    planning = runner.claim_one()
    new = {"p_from": body(6, "a/b"), "p_to": body(6, "a/c")}
    with refused("RY423", "A job is using one of the two states."):
        runner.call("worker_move_states", **this(job, **new))
    assert serials(org, *modules) == [5, 5]
    runner.finish(planning)
    runner.call("worker_move_states", **this(job, **new))
    assert serials(org, *modules) == [6, 6]
    # Its answer was lost, and the other module's next job has begun.
    org.enqueue("a/c")
    runner.claim_one()
    runner.call("worker_move_states", **this(job, **new))
    for module in modules:
        newest = org.owner.call("state_info", p_module=module)["versions"][0]
        assert newest["job_id"] == job["id"]


def test_a_changed_state_ends_the_applies_that_wait_in_both_modules(
    world: World, org: Organization, runner: Runner
) -> None:
    modules = with_states(org, "a/b", "a/c")
    changes = {"p_result": {}, "p_plan_summary": {"has_changes": True, "update": 1}}
    for path in ("a/b", "a/c"):
        org.enqueue(path, confirm=True)
        runner.finish(runner.claim_one(), "SUCCEEDED", **changes)
    org.enqueue("a/b", "STATE", state_change=between(modules[1]))
    job = runner.claim_one()
    runner.call("worker_move_states", **this(job, p_from=body(6, "a/b"), p_to=body(6, "a/c")))
    runner.finish(job)
    waiting = "select status::text from public.provision_jobs where type = 'APPLY' and module_id = any (%s::uuid[])"
    assert world.owner.rows(waiting, modules) == ["CANCELLED", "CANCELLED"]


def test_another_runner_and_another_job_reach_no_other_state(org: Organization, runner: Runner) -> None:
    modules = with_states(org, "a/b", "a/c")
    org.enqueue("a/b", "APPLY")
    job = runner.claim_one()
    with refused("RY404", "The module that the resources move to does not exist."):
        runner.call("worker_destination_state", **this(job))
    runner.finish(job, "FAILED", p_error={"code": "x", "message": "x"})
    org.enqueue("a/b", "STATE", state_change=between(modules[1]))
    job, stranger = runner.claim_one(), org.runner("r2")
    with refused("RY410"):
        stranger.call("worker_move_states", **this(job, p_from=body(6, "a/b"), p_to=body(6, "a/c")))


def test_an_operator_cannot_retry_a_state_change_that_needs_an_admin(org: Organization, runner: Runner) -> None:
    with_states(org, "a/b")
    job = org.enqueue("a/b", "STATE", state_change=MOVE)
    runner.finish(runner.claim_one(), "FAILED", p_error={"code": "x", "message": "x"})
    with refused("RY403"):
        org.member("operator").call("retry_job", p_job=job)
    assert org.owner.call("retry_job", p_job=job)["type"] == "STATE"
