"""Sealed variables: the organisation's key, which runners get such jobs, and where the boxes are refused."""

import base64
import hashlib
from typing import Any

import pytest
from nacl.public import PrivateKey

from tests.db.world import Organization, Runner, World, refused, this

BOX = "QUJD" * 20


@pytest.fixture
def org(world: World) -> Organization:
    made = world.organization()
    made.module("a/b")
    return made


def new_key(org: Organization) -> dict[str, Any]:
    public = base64.b64encode(bytes(PrivateKey.generate().public_key)).decode()
    made: dict[str, Any] = org.owner.call("create_sealing_key", p_org=org.id, p_public_key=public)
    assert made["id"] == hashlib.sha256(base64.b64decode(public)).hexdigest()[:16]
    return made


def put(org: Organization, key: str | None, path: str = "a/b", **more: Any) -> dict[str, Any]:
    variable = {"kind": "input", "name": "password", "value": BOX, "key_id": key, **more}
    (made,) = org.owner.call("set_variables", p_org=org.id, p_path=path, p_variables=[variable])
    answer: dict[str, Any] = made
    return answer


def sealed_runner(org: Organization, label: str, name: str = "with-key") -> Runner:
    return org.runner(name, is_assigned_to_all_modules=True, labels=[label], capacity=5)


def test_only_runners_with_the_label_of_the_key_get_the_job(world: World, org: Organization) -> None:
    key = new_key(org)
    without = org.runner("without", is_assigned_to_all_modules=True)
    shared = world.connect_runner(world.shared_worker("everybody"))
    org.use_shared("NONE_AVAILABLE")
    put(org, key["id"])
    job = org.enqueue("a/b")
    assert (without.claim(1), shared.claim(1)) == ([], [])
    waits = org.owner.call("explain_queue", p_job=job)
    assert key["label"] in str(waits), "the reason names what the runners lack"
    claimed = sealed_runner(org, key["label"]).claim_one()
    assert claimed["id"] == job


def test_the_job_gets_the_box_and_members_see_none(org: Organization) -> None:
    key = new_key(org)
    made = put(org, key["id"])
    assert (made["value"], made["key_id"], made["warning"]) == (None, key["id"], None)
    (shown,) = org.owner.call("preview_variables", p_org=org.id, p_path="a/b")
    assert shown["value"] is None
    job = org.enqueue("a/b")
    runner = sealed_runner(org, key["label"])
    (given,) = runner.call("worker_variables", **this(runner.claim_one()))["variables"]
    assert (given["value"], given["key_id"], given["path"]) == (BOX, key["id"], "a/b")
    (kept,) = org.owner.call("list_job_variables", p_job=job)
    assert (kept["is_sealed"], "value" in kept) == (True, False)


def test_boxes_are_handed_out_for_resealing_alone_and_no_table_shows_them(org: Organization) -> None:
    put(org, new_key(org)["id"])
    viewer = org.member("viewer")
    for caller in (viewer, org.owner):
        with refused("42501"):
            caller.rows("select value from public.variables")
        with refused("42501"):
            caller.rows("select * from public.variables")
        assert BOX not in str(caller.call("list_variables", p_org=org.id))
    with refused("RY403", "variable.write"):
        viewer.call("list_variables", p_org=org.id, p_with_sealed=True)
    (row,) = org.member("operator").call("list_variables", p_org=org.id, p_path="a/b", p_with_sealed=True)
    assert (row["value"], row["name"]) == (BOX, "password")
    assert org.owner.call("list_variables", p_org=org.id, p_path="") == []


def test_a_hidden_box_needs_no_key_and_an_apply_needs_that_of_its_plan(world: World, org: Organization) -> None:
    key = new_key(org)
    put(org, key["id"], "a")
    put(org, None, value="plain")
    assert world.job(org.enqueue("a/b"))["labels"] == []
    put(org, key["id"])
    plan = org.enqueue("a/b")
    runner = sealed_runner(org, key["label"])
    for _ in range(2):
        runner.finish(runner.claim_one(), "SUCCEEDED", p_result={}, p_plan_summary={"has_changes": True, "create": 1})
    org.owner.call("update_module", p_module=org.modules["a/b"], p_spec={"inputs": {"other": 1}})
    put(org, None, value="plain again")
    assert world.job(org.enqueue("a/b", "APPLY", plan_job_id=plan))["labels"] == [key["label"]]


def test_a_files_inputs_leave_boxes_alone(org: Organization) -> None:
    put(org, new_key(org)["id"])
    org.owner.call("update_module", p_module=org.modules["a/b"], p_spec={"inputs": {}})
    (shown,) = org.owner.call("preview_variables", p_org=org.id, p_path="a/b")
    assert shown["name"] == "password"


def test_a_newer_key_replaces_the_current_one(org: Organization, other_org: Organization) -> None:
    old = new_key(org)
    put(org, old["id"])
    new = new_key(org)
    for key in (old["id"], new_key(other_org)["id"], "0" * 16):
        with refused("RY409", "The value is sealed to a key that is not the organisation's current one."):
            put(org, key)
    assert put(org, new["id"])["version"] == 2
    with refused("RY409", "This key is known already."):
        org.owner.call("create_sealing_key", p_org=org.id, p_public_key=new["public_key"])


@pytest.mark.parametrize("value", ["", "too short", "ä" * 100, BOX + "!"])
def test_a_value_that_is_not_a_sealed_box_is_refused(org: Organization, value: str) -> None:
    key = new_key(org)["id"]
    with refused("RY422", '"password" is not a valid input variable.'):
        put(org, key, value=value)


def test_invalid_keys_and_keys_from_operators_are_refused(org: Organization) -> None:
    for wrong in ("", "x", "A" * 44):
        with refused("RY422", "A public key is 32 bytes in base64."):
            org.owner.call("create_sealing_key", p_org=org.id, p_public_key=wrong)
    with refused("RY403"):
        org.member("operator").call("create_sealing_key", p_org=org.id, p_public_key="A" * 43 + "=")


def test_the_users_of_a_secret_include_the_runners_that_open_it(org: Organization) -> None:
    key = new_key(org)
    made = put(org, key["id"])
    sealed_runner(org, key["label"])
    org.runner("without", is_assigned_to_all_modules=True)
    users = org.owner.call("list_variable_users", p_variable=made["id"])
    assert (users["modules"], users["runners"]) == (["a/b"], ["with-key"])


def refer(org: Organization, value: str, **more: Any) -> dict[str, Any]:
    return put(org, None, value=value, is_reference=True, **more)


def test_a_reference_needs_the_key_and_shows_its_address(org: Organization) -> None:
    with refused("RY409", "A reference needs the organisation's sealing key"):
        refer(org, "vault://kv/data/x#password")
    key = new_key(org)
    made = refer(org, "vault://kv/data/x#password")
    assert (made["value"], made["key_id"], made["warning"]) == ("vault://kv/data/x#password", key["id"], None)
    job = org.enqueue("a/b")
    org.runner("without", is_assigned_to_all_modules=True)
    runner = sealed_runner(org, key["label"])
    claimed = runner.claim_one()
    assert (claimed["id"], claimed["labels"]) == (job, [key["label"]])
    (given,) = runner.call("worker_variables", **this(claimed))["variables"]
    assert (given["value"], given["is_reference"]) == ("vault://kv/data/x#password", True)
    (kept,) = org.owner.call("list_job_variables", p_job=job)
    assert (kept["is_sealed"], kept["is_reference"]) == (False, True)


# Spellings of another place that a vault, a proxy or a program may tidy up into it.
CLIMBING = [
    "vault://kv/data/team/../other/prod",
    "vault://kv/data/team/%2e%2e/other/prod",
    "vault://kv/data/team/%2E%2E/other/prod",
    "vault://kv/data/team/%252e%252e/other/prod",
    "vault://kv/data/team/..%2fother/prod",
    "vault://kv/data/team/..\\other/prod",
    "vault://kv/data/team\\..\\other/prod",
    "vault://kv/data/team/./x",
    "vault://kv/data/team/..",
    "vault://kv/data/team/..#value",
    "vault://kv/data/team//other/prod",
    "vault://kv/data/team/x/",
    "vault://kv/data/team/x?list=true",
    "vault://kv/data/team/x;version=1",
    "vault://kv/data/team/\uff0e\uff0e/other/prod",
    "vault://kv/data/team/\u2024\u2024/other/prod",
    "vault://kv/data/team/x\u200b",
    "vault://kv/data/team/x\x7f",
    "vault:///kv/data/team/x",
    "VAULT://kv/data/team/x",
    "aws-sm://eu-west-1/team/*",
    "file://srv/team/x",
    "file:////srv/team/x",
    "file:///srv/team/x#/../../other/prod",
    "file:///srv/team/x#",
    "file:///~root/team/x",
    f"vault://kv/data/team/{'x' * 1000}",
]


@pytest.mark.parametrize("value", CLIMBING)
def test_a_reference_has_one_reading(org: Organization, value: str) -> None:
    new_key(org)
    with refused("RY422", 'The address of "password" is not one that runners read.') as refusal:
        refer(org, value)
    assert "between single slashes" in (refusal.value.diag.message_hint or "")


@pytest.mark.parametrize(
    "value",
    [
        "aws-sm://arn:aws:secretsmanager:eu-west-1:1:secret:rds!db-x#password",
        "file:///etc/runyard/secrets/..data/license",
        "vault://kv/data/a_b-c.d/e@f+g=h,i#a field's name"[:35],
    ],
)
def test_usual_names_of_secrets_are_references(org: Organization, value: str) -> None:
    new_key(org)
    assert refer(org, value)["value"] == value


@pytest.mark.parametrize("value", ["https://x.example/y", "vault://", "file:// x", "command:cat /etc/passwd", 3])
def test_other_addresses_are_no_references(org: Organization, value: Any) -> None:
    new_key(org)
    with refused("RY422"):
        refer(org, value)
