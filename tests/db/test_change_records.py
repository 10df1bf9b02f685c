"""Records of changes: one for each end of a change, a chain for each module, never changed, and read by rights."""

import json
from typing import Any

import psycopg
import pytest

from tests.db.world import Organization, Runner, User, World, refused, sha256, this

SIGNATURE = "A" * 342 + "=="


@pytest.fixture
def runner(org: Organization) -> Runner:
    return org.runner("r1", is_assigned_to_all_modules=True, capacity=5)


def applied(runner: Runner, serial: int, status: str = "SUCCEEDED") -> dict[str, Any]:
    """Run the queued job as a runner does: a phase, two writes of the state, an end."""
    job = runner.claim_one()
    runner.report(job, "APPLY")
    runner.call("worker_state_lock", **this(job), p_lock={"ID": "l"})
    for number in (serial, serial + 1):
        body = json.dumps({"version": 4, "serial": number, "lineage": "x", "resources": []})
        runner.call("worker_state_put", **this(job), p_lock_id="l", p_body=body)
    runner.finish(job, status)
    return job


def statements(world: World, org: Organization) -> list[dict[str, Any]]:
    query = "select statement from private.change_records where org_id = %s order by module_id, sequence"
    return [json.loads(text) for text in world.owner.rows(query, org.id)]


def internal(statement: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = statement["predicate"]["buildDefinition"]["internalParameters"]
    return found


def sign(world: World) -> None:
    for each in world.service.call("lease_records", p_limit=100):
        world.service.call("sign_record", p_record=each["id"], p_key="k1", p_signature=SIGNATURE)


def test_each_end_of_a_change_adds_a_record_that_names_the_one_before(
    world: World, org: Organization, runner: Runner
) -> None:
    for serial, status in ((1, "SUCCEEDED"), (3, "FAILED")):
        org.enqueue("a/b", "APPLY")
        applied(runner, serial, status)
    org.enqueue("a/b", "PLAN")
    runner.finish(runner.claim_one())
    first, second = statements(world, org)
    assert (first["_type"], first["predicateType"]) == (
        "https://in-toto.io/Statement/v1", "https://slsa.dev/provenance/v1",
    )  # fmt: skip
    assert [each["annotations"] for each in first["subject"]] == [{"role": "after", "serial": 2}]
    assert [each["annotations"] for each in second["subject"]] == [
        {"role": "before", "serial": 2}, {"role": "after", "serial": 4},
    ]  # fmt: skip
    assert second["subject"][0]["digest"] == first["subject"][0]["digest"]
    query = "select statement from private.change_records where org_id = %s and sequence = 1"
    text = world.owner.one(query, org.id)
    assert internal(first)["chain"] == {"sequence": 1, "previous_sha256": None}
    assert internal(second)["chain"] == {"sequence": 2, "previous_sha256": sha256(text)}
    assert [internal(each)["status"] for each in (first, second)] == ["SUCCEEDED", "FAILED"]
    assert internal(first)["token_claims"]["runyard_phase"] == "apply"
    assert first["predicate"]["runDetails"]["runner"]["name"] == "r1"


def test_a_record_names_variables_by_version_and_never_their_values(
    world: World, org: Organization, runner: Runner
) -> None:
    org.module("a/b")
    for value in ("eu-west-1", "very-private-value"):
        spec = {"kind": "input", "name": "region", "value": value}
        org.owner.call("set_variables", p_org=org.id, p_path="a", p_variables=[spec])
    org.enqueue("a/b", "APPLY")
    applied(runner, 1)
    [statement] = statements(world, org)
    given = statement["predicate"]["buildDefinition"]["externalParameters"]["variables"]
    assert given == [{"path": "a", "kind": "input", "name": "region", "version": 2}]
    assert "very-private-value" not in json.dumps(statement)


def test_a_record_says_who_approved_what_and_how_they_had_signed_in(
    world: World, org: Organization, runner: Runner
) -> None:
    module = org.module("a/b")
    org.owner.call("update_module", p_module=module, p_spec={"approvals_required": 1})
    job = org.enqueue("a/b", "APPLY")
    operator = org.member("operator")
    strong = world.caller(
        "authenticated", sub=operator.id, aal="aal2",
        amr=[{"method": "password", "timestamp": 1}, {"method": "totp", "timestamp": 2}],
        app_metadata={"provider": "email"},
    )  # fmt: skip
    strong.call("approve_job", p_job=job, p_decision="approve", p_comment="Seen.")
    applied(runner, 1)
    [statement] = statements(world, org)
    [approval] = internal(statement)["approvals"]
    assert (approval["decision"], approval["comment"], approval["id"]) == ("approve", "Seen.", operator.id)
    assert approval["signed_in"] == {
        "through": "session", "level": "aal2", "methods": ["password", "totp"], "provider": "email",
    }  # fmt: skip


def test_a_record_has_the_verdicts_of_its_plan(world: World, org: Organization, runner: Runner) -> None:
    plan = org.enqueue("a/b", "PLAN")
    runner.finish(runner.claim_one(), p_plan_summary={"has_changes": True})
    world.owner.connection.execute(
        "insert into public.policy_checks (job_id, set_id, org_id, attempt, path, name, level, bundle_sha256, verdict,"
        " overridden_label, override_reason) values (%s, gen_random_uuid(), %s, 1, 'a', 'tags', 'overridable', 'abc',"
        " 'failed', 'ops', 'Once.')",
        (plan, org.id),
    )
    org.enqueue("a/b", "APPLY", plan_job_id=plan)
    applied(runner, 1)
    [statement] = statements(world, org)
    assert internal(statement)["checks"] == [
        {"name": "tags", "path": "a", "level": "overridable", "rules_sha256": "abc", "verdict": "failed",
         "overridden_by": "ops", "reason": "Once."},
    ]  # fmt: skip


def test_a_job_that_no_runner_had_changes_nothing_and_has_no_record(
    world: World, org: Organization, runner: Runner
) -> None:
    job = org.enqueue("a/b", "APPLY")
    org.owner.call("cancel_job", p_job=job)
    assert statements(world, org) == []
    with refused("RY404", "There is no record of this run."):
        org.owner.call("change_record", p_job=job)


def test_a_move_between_two_modules_is_in_both_chains(world: World, org: Organization, runner: Runner) -> None:
    modules = [org.module(path) for path in ("a/b", "a/c")]
    for path, module in zip(("a/b", "a/c"), modules, strict=True):
        body = json.dumps({"version": 4, "serial": 5, "lineage": path, "resources": []})
        org.owner.call("push_state", p_module=module, p_body=body)
    org.enqueue(
        "a/b", "STATE", state_change={"action": "move", "addresses": ["a.b"], "to": "c.d", "module": modules[1]}
    )
    job = runner.claim_one()
    runner.report(job, "APPLY")
    runner.finish(job)
    paths = {
        each["predicate"]["buildDefinition"]["externalParameters"]["module"]["path"] for each in statements(world, org)
    }
    assert paths == {"a/b", "a/c"}


def test_a_record_waits_for_its_signature_and_is_signed_once(world: World, org: Organization, runner: Runner) -> None:
    org.enqueue("a/b", "APPLY")
    job = applied(runner, 1)
    record = org.owner.call("change_record", p_job=job["id"])
    assert (record["sequence"], record["envelope"]) == (1, None)
    assert world.service.call("has_unsigned_records")
    mine = list(world.service.call("lease_records", p_limit=100))
    assert [each["statement"] for each in mine if json.loads(each["statement"])["subject"][0]["name"] == "a/b/state/2"]
    assert world.service.call("lease_records") == [], "another signer has them"
    for each in mine:
        for _ in range(2):
            world.service.call("sign_record", p_record=each["id"], p_key="k1", p_signature=SIGNATURE)
    signed = org.owner.call("change_record", p_job=job["id"])
    assert signed["envelope"]["signatures"] == [{"keyid": "k1", "sig": SIGNATURE}]
    with refused("RY422", "A signature comes with the id of its key"):
        world.service.call("sign_record", p_record=mine[0]["id"], p_key="k 1", p_signature="short")
    with refused("RY422", "A signer takes 1 to 100 records."):
        world.service.call("lease_records", p_limit=0)


def test_a_signer_that_dies_loses_no_record(world: World, org: Organization, runner: Runner) -> None:
    org.enqueue("a/b", "APPLY")
    applied(runner, 1)
    first = world.service.call("lease_records", p_limit=100)
    world.owner.connection.execute("update private.change_records set sign_at = now() where signature is null")
    assert world.service.call("lease_records", p_limit=100) == first


def test_nobody_changes_or_deletes_a_record(world: World, org: Organization, runner: Runner) -> None:
    org.enqueue("a/b", "APPLY")
    applied(runner, 1)
    sign(world)
    for act in ("update private.change_records set statement = '{}'", "update private.change_records set signature = ''",
                "delete from private.change_records"):  # fmt: skip
        with refused("RY409", "A record of a change is never changed or deleted."):
            world.owner.connection.execute(act + " where org_id = %s", (org.id,))
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        org.owner.rows("select * from private.change_records")


def test_records_outlive_their_jobs_and_go_with_the_organisation(
    world: World, org: Organization, runner: Runner
) -> None:
    module = org.module("a/b")
    org.enqueue("a/b", "APPLY")
    job = applied(runner, 1)
    world.owner.rows("select private.delete_jobs(array[%s::bigint])", job["id"])
    assert org.owner.call("change_record", p_job=job["id"])["sequence"] == 1
    assert len(org.owner.call("list_change_records", p_module=module)) == 1
    assert org.owner.call("list_change_records", p_module=module, p_after=1) == []
    world.owner.connection.execute("delete from public.organizations where id = %s", (org.id,))
    assert statements(world, org) == []


def test_reading_follows_the_rights_at_the_modules_path(
    world: World, org: Organization, other_org: Organization, runner: Runner
) -> None:
    module = org.module("a/b")
    org.enqueue("a/b", "APPLY")
    job = applied(runner, 1)
    guest: User = org.member("guest")
    for caller in (guest, other_org.owner):
        with refused("RY404"):
            caller.call("change_record", p_job=job["id"])
        with refused("RY404"):
            caller.call("list_change_records", p_module=module)
    org.owner.call("grant_role", p_org=org.id, p_path="a", p_role="viewer", p_kind="member", p_subject=guest.id)
    assert guest.call("change_record", p_job=job["id"])["sequence"] == 1


def page_record(org: Organization, job: dict[str, Any]) -> dict[str, Any]:
    number = org.owner.one("select number from public.provision_jobs where id = %s", job["id"])
    found: dict[str, Any] = org.owner.call("job_page", p_org=org.id, p_number=number)["record"]
    return found


def test_the_page_says_where_a_chain_is_broken(world: World, org: Organization, runner: Runner) -> None:
    jobs = []
    for serial in (1, 3, 5):
        org.enqueue("a/b", "APPLY")
        jobs.append(applied(runner, serial))
    sign(world)
    whole = page_record(org, jobs[-1])
    assert (whole["sequence"], whole["broken_at"], whole["key_id"]) == (3, None, "k1")
    connection = world.owner.connection
    connection.execute("alter table private.change_records disable trigger guard")
    try:
        connection.execute(
            "update private.change_records set statement = replace(statement, 'r1', 'r2') where job_id = %s",
            (jobs[1]["id"],),
        )
        assert page_record(org, jobs[-1])["broken_at"] == 2
        connection.execute("delete from private.change_records where job_id = %s", (jobs[1]["id"],))
        assert page_record(org, jobs[-1])["broken_at"] == 3
    finally:
        connection.execute("alter table private.change_records enable trigger guard")
