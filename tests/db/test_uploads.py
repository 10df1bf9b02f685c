"""A folder that was sent to be planned: one plan of its own module, and an apply only where the module allows it."""

import base64
from typing import Any

import pytest

from tests.db.world import Caller, Organization, Runner, World, refused, sha256

BODY = base64.b64encode(b"hello").decode()
SENT = {"p_body_base64": BODY, "p_sha256": sha256("hello")}


def upload(org: Organization, module: str, caller: Caller | None = None) -> str:
    module_id = org.modules.get(module) or org.module(module)
    return str((caller or org.owner).call("upload_source", p_module=module_id, **SENT)["id"])


def planned(world: World, org: Organization, module: str = "a/b") -> dict[str, Any]:
    """A finished plan of an upload."""
    job = org.enqueue(module, upload_id=upload(org, module))
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    claimed = runner.claim_one()
    assert claimed["id"] == job
    runner.finish(claimed, "SUCCEEDED", p_result={}, p_plan_summary={"has_changes": True, "create": 1})
    return world.job(job)


def test_an_upload_is_the_source_of_one_plan(world: World, org: Organization) -> None:
    job = org.enqueue("a/b", upload_id=upload(org, "a/b"))
    plain = world.job(org.enqueue("a/b"))["payload"]
    sent_module = plain["module"] | {"source_kind": "upload", "source": {"bytes": 5, "sha256": sha256("hello")}}
    assert world.job(job)["payload"] == plain | {"module": sent_module}
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    claimed = runner.claim_one()
    sent = runner.call("worker_get_artifact", p_job=job, p_attempt=claimed["attempt"], p_name="source")
    assert base64.b64decode(sent["body_base64"]) == b"hello"


def test_an_upload_is_accepted_once(org: Organization) -> None:
    sent = upload(org, "a/b")
    org.enqueue("a/b", upload_id=sent)
    with refused("RY404", "There is no such upload for this module."):
        org.enqueue("a/b", upload_id=sent)


def test_an_upload_that_disappears_while_its_job_is_created_is_refused(world: World, org: Organization) -> None:
    """Otherwise the job would plan the module's own source."""
    with refused("RY404", "There is no such upload for this module."):
        world.owner.one("select private.take_upload(%s, gen_random_uuid())", org.enqueue("a/b"))


def test_an_upload_belongs_to_its_module(org: Organization, other_org: Organization) -> None:
    sent, elsewhere = upload(org, "a/b"), upload(other_org, "x/y")
    org.module("a/c")
    for module, wrong in (("a/c", sent), ("a/b", elsewhere)):
        with refused("RY404", "There is no such upload for this module."):
            org.enqueue(module, upload_id=wrong)
    with refused("RY422", "An upload belongs to one module."):
        org.owner.call(
            "enqueue_jobs", p_org=org.id, p_type="PLAN", p_modules=f"{{{','.join(org.modules.values())}}}",
            p_options={"upload_id": sent},
        )  # fmt: skip


@pytest.mark.parametrize("kind", ["APPLY", "DESTROY", "DRIFT", "OUTPUT"])
def test_an_upload_is_only_planned(org: Organization, kind: str) -> None:
    with refused("RY422", "A folder that was uploaded can only be planned."):
        org.enqueue("a/b", kind, upload_id=upload(org, "a/b"))


def test_the_plan_of_an_upload_is_applied_only_where_the_module_allows_it(world: World, org: Organization) -> None:
    plan = planned(world, org)
    with refused("RY403", "is of a folder on somebody's disk; that may not be applied to a/b."):
        org.enqueue("a/b", "APPLY", plan_job_id=plan["id"])
    allow = {"p_module": org.modules["a/b"], "p_spec": {"can_apply_uploads": True}}
    with refused("RY403", "your role is operator"):
        org.member("operator").call("update_module", **allow)
    org.owner.call("update_module", **allow)
    apply = world.job(org.enqueue("a/b", "APPLY", plan_job_id=plan["id"]))
    assert apply["payload"]["module"]["source"] == plan["payload"]["module"]["source"]


def test_the_plan_of_an_upload_is_not_applied_automatically(world: World, org: Organization) -> None:
    org.module("a/b", auto_apply=True, can_apply_uploads=True)
    planned(world, org)
    assert org.owner.rows("select type::text from public.provision_jobs where org_id = %s", org.id) == ["PLAN"]


def source_of(runner: Runner) -> bytes:
    """The folder that the next job gets; it fails afterwards."""
    job = runner.claim_one()
    sent = runner.call("worker_get_artifact", p_job=job["id"], p_attempt=job["attempt"], p_name="source")
    runner.finish(job, "FAILED", p_result={})
    return base64.b64decode(sent["body_base64"])


def test_a_retry_of_a_retry_has_the_folder_still(org: Organization) -> None:
    job = org.enqueue("a/b", upload_id=upload(org, "a/b"))
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    assert source_of(runner) == b"hello"
    for _ in range(3):
        job = org.owner.call("retry_job", p_job=job)["id"]
        assert source_of(runner) == b"hello"


def test_a_plan_that_was_retried_is_applied_with_its_folder(org: Organization) -> None:
    org.module("a/b", can_apply_uploads=True)
    job = org.enqueue("a/b", upload_id=upload(org, "a/b"))
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    source_of(runner)
    plan = org.owner.call("retry_job", p_job=job)["id"]
    runner.finish(runner.claim_one(), "SUCCEEDED", p_result={}, p_plan_summary={"has_changes": True, "create": 1})
    org.enqueue("a/b", "APPLY", plan_job_id=plan)
    assert source_of(runner) == b"hello"


def test_variables_of_one_job(world: World, org: Organization) -> None:
    org.module("a/b", inputs={"region": "eu", "size": 1})
    job = org.enqueue("a/b", variables={"region": "us", "zones": ["a"]})
    assert world.given(job) == {"region": "us", "size": 1, "zones": ["a"]}
    assert world.given(org.enqueue("a/b")) == {"region": "eu", "size": 1}
    for wrong in ([], {"a b": 1}, {"": 1}, "x", {"a": "x" * 2**20}):
        with refused("RY422", "Variables are an object of names and values."):
            org.enqueue("a/b", variables=wrong)


def test_a_saved_plan_is_applied_with_its_own_variables(world: World, org: Organization) -> None:
    org.module("a/b", inputs={"region": "eu"})
    job = org.enqueue("a/b", variables={"region": "us"})
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    runner.finish(runner.claim_one(), "SUCCEEDED", p_result={}, p_plan_summary={"has_changes": True, "create": 1})
    with refused("RY422", "A saved plan has its variables already."):
        org.enqueue("a/b", "APPLY", plan_job_id=job, variables={"region": "x"})
    assert world.given(org.enqueue("a/b", "APPLY", plan_job_id=job)) == {"region": "us"}


def test_invalid_uploads_are_refused(world: World, org: Organization) -> None:
    module = org.module("a/b")
    for wrong in (
        {**SENT, "p_sha256": sha256("other")},
        {**SENT, "p_sha256": None},
    ):
        with refused("RY422", "The upload is not what its SHA-256 says."):
            org.owner.call("upload_source", p_module=module, **wrong)
    empty = {"p_body_base64": "", "p_sha256": sha256("")}
    for wrong in (empty, {**SENT, "p_body_base64": "§"}):
        with refused("RY422", "The upload is empty, too large, or not base64."):
            org.owner.call("upload_source", p_module=module, **wrong)
    with refused("RY422", "A module's code cannot be an upload."):
        org.owner.call("update_module", p_module=module, p_spec={"source_kind": "upload", "source": {}})


def test_uploads_do_not_pile_up(world: World, org: Organization) -> None:
    for _ in range(20):
        upload(org, "a/b")
    with refused("RY429", "Twenty uploads wait for their jobs already."):
        upload(org, "a/b")
    world.owner.connection.execute("update private.uploads set created_at = now() - interval '2 hours'")
    upload(org, "a/b")


def test_an_announced_upload_arrives_once_and_is_planned_only_then(org: Organization) -> None:
    module = org.modules.get("a/b") or org.module("a/b")
    made = org.owner.call("start_upload", p_module=module)["id"]
    assert org.owner.call("upload_status", p_upload=made)["is_complete"] is False
    with refused("RY404", "There is no such upload for this module."):
        org.enqueue("a/b", upload_id=made)
    org.owner.call("upload_source", p_module=module, p_upload=made, **SENT)
    assert org.owner.call("upload_status", p_upload=made)["is_complete"] is True
    with refused("RY409", "This upload has arrived already, or does not wait any more."):
        org.owner.call("upload_source", p_module=module, p_upload=made, **SENT)
    org.enqueue("a/b", upload_id=made)


def test_an_upload_is_applied_by_itself_only_where_the_module_allows_it(world: World, org: Organization) -> None:
    org.module("a/b", can_apply_uploads=False)
    with refused("RY403", "A folder on somebody's disk may not be applied to a/b."):
        org.enqueue("a/b", upload_id=upload(org, "a/b"), auto_apply=True)
    org.owner.call("update_module", p_module=org.modules["a/b"], p_spec={"can_apply_uploads": True})
    org.enqueue("a/b", upload_id=upload(org, "a/b"), auto_apply=True)
