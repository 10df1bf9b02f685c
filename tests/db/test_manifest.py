"""The manifest: an organisation as one document, applied whole or not at all."""

import base64
import json
import os
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import psycopg
import pytest

from tests.db.call_arguments import RULE, SEALED
from tests.db.world import Caller, Organization, World, refused

Manifest = dict[str, Any]
KINDS = [
    "sealing_keys", "roles", "teams", "groups", "modules", "dependencies", "variables", "identities", "policies", "repositories",
    "schedules", "bindings", "notifications",
]  # fmt: skip
NOTHING: Manifest = {"version": 1, **{kind: [] for kind in KINDS}}
BOX = "c" * 80
GIT = {"source_kind": "git", "source": {"url": "https://git.example.com/a/b", "subfolder": "site"}}
DRIFT = [{"address": "aws_instance.*", "attribute": "tags", "reason": "The scanner tags them.", "until": "2030-01-31"}]
SCHEDULES = [
    {"path": "apps", "type": "PLAN", "cron": "0 2 * * *", "zone": "Europe/Zurich"},
    {"path": "", "type": "DRIFT", "cron": "30 7 * * 1-5", "is_on": False, "reason": "A quiet week."},
    {"path": "net/vpc", "type": "DESTROY", "cron": "0 20 * * 5"},
]


@pytest.fixture
def org(world: World) -> Organization:
    return world.organization()


@pytest.fixture
def rich(org: Organization) -> Organization:
    """An organisation with something of every kind, made by the calls of pages and commands."""
    call, member = _caller(org), org.member("viewer")
    org.group("net", p_description="Networks", p_hooks={"before_plan": "echo hi"}, p_time_limits={"plan": 60})
    org.group("apps/shop", p_git_apply="never", p_drift_action="plan")
    org.module("net/vpc", approvals_required=2, labels=["gpu", "a=b"], engine="terraform", engine_version="1.9.0")
    runner = org.worker("builder")
    site = org.module("apps/site", **GIT, drift_ignores=DRIFT, pinned_worker_id=runner, hooks={"after_apply": "true"})
    org.owner.call(
        "set_module_git", p_module=site, p_spec={"branch": "main", "paths": ["z", "lib"], "apply": "before_merge"}
    )
    ends = {"p_consumer": site, "p_producer": org.modules["net/vpc"]}
    org.owner.call("set_dependency", **ends, p_options={"bindings": {"vpc": "id"}, "cascades": "on_change"})
    key = call("create_sealing_key", p_public_key=base64.b64encode(os.urandom(32)).decode())["id"]
    call("set_variables", p_path="", p_variables=[_variable("region", "eu", is_enforced=True)])
    values = [
        _variable("size", {"b": [1, 2.5, None], "a": True}),
        _variable("none", None),
        _variable("zones", "[1, 2]", is_hcl=True),
        _variable("password", BOX, key_id=key),
        _variable("token", "vault://secret/data/app#token", is_reference=True),
        {"kind": "env", "name": "TF_LOG", "value": "12:30"},
        {"kind": "file", "name": "conf/a.ini", "value": "x\n\ty: 'z'\n"},
    ]
    call("set_variables", p_path="net/vpc", p_variables=values)
    call("attach_identity", p_path="apps", p_spec={"kind": "custom", "name": "registry", "audience": "x"})
    rules = {"name": "tags", "level": "mandatory", "files": {"a.rego": "package main\n"}, "source": "rules@1234567"}
    call("attach_policy", p_path="net", p_spec=rules)
    command = {"command.json": '{"argv": ["trivy", "config", "{plan}"]}', "ignored.txt": "AVD-1\n"}
    call("attach_policy", p_path="net", p_spec={"name": "vulnerabilities", "level": "advisory", "files": command})
    git = {"provider": "gitea", "url": GIT["source"]["url"], "poll_seconds": 60, "webhook_secret": SEALED}  # type: ignore[index]
    call("connect_repository", p_spec={**git, "token": SEALED})
    for spec in SCHEDULES:
        call("create_schedule", p_spec=spec)
    call("set_role", p_name="shipper", p_verbs="{job.plan,job.apply}", p_description="Ships on Fridays")
    team = call("create_team", p_name="sre")["id"]
    org.owner.call("set_team_member", p_team=team, p_user=member.id, p_is_member=True)
    org.owner.call("set_team_claim", p_team=team, p_claim="grp-sre")
    call("grant_role", p_path="net", p_role="shipper", p_kind="team", p_subject=team)
    call("grant_role", p_path="apps/site", p_role="operator", p_kind="member", p_subject=member.id)
    account = org.account("viewer", name="deployer")["id"]
    call("grant_role", p_path="", p_role="planner", p_kind="account", p_subject=account)
    call(
        "create_notification_rule",
        p_spec={**RULE, "path": "net", "secret": SEALED, "events": ["job.failed", "runner.lost"]},
    )
    return org


def _caller(org: Organization) -> Callable[..., Any]:
    return lambda function, **given: org.owner.call(function, p_org=org.id, **given)


def _variable(name: str, value: Any, **more: Any) -> dict[str, Any]:
    return {"kind": "input", "name": name, "value": value, **more}


def export(org: Organization, by: Caller | None = None, *kinds: str) -> Manifest:
    found: Manifest = (by or org.owner).call(
        "export_manifest", p_org=org.id, p_kinds="{" + ",".join(kinds) + "}" if kinds else None
    )
    return found


def apply(org: Organization, manifest: Any, by: Caller | None = None, **how: bool) -> list[str]:
    """Apply a manifest; the changes in words."""
    named = {f"p_{name}": value for name, value in how.items()}
    answer = (by or org.owner).call("apply_manifest", p_org=org.id, p_manifest=manifest, **named)
    return [f"{each['act']} {each['kind']} {each['name']}" for each in answer["changes"]]


def text(manifest: Manifest) -> str:
    return json.dumps(manifest, indent=1)


def audited(org: Organization) -> int:
    return int(org.world.owner.one("select count(*) from public.audit_events where org_id = %s", org.id))


def test_export_reset_apply_export_is_equal(rich: Organization) -> None:
    before = export(rich)
    assert list(before) == ["version", *KINDS]
    assert [kind for kind in KINDS if not before[kind]] == []
    gone = apply(rich, NOTHING, prune=True)
    key = before["sealing_keys"]
    assert export(rich) == {**NOTHING, "sealing_keys": key}
    made = apply(rich, before, prune=True)
    assert (len(made), all(each.startswith("create") for each in made)) == (len(gone), True)
    assert text(export(rich)) == text(before)


def test_another_organisation_becomes_equal(rich: Organization, world: World) -> None:
    """Members, runners, accounts and keys are not of the manifest; the boxes of notifications open in one organisation alone."""
    other = world.organization()
    before = export(rich)
    email = before["teams"][0]["members"][0]
    user = world.owner.one("select id::text from auth.users where email = %s", email)
    member = world.caller("authenticated", sub=user, email=email)
    made = other.owner.call("invite_member", p_org=other.id, p_email=email, p_role="viewer", p_token_hash="0" * 64)
    member.call("accept_invitation", p_invitation=made["id"], p_token_hash="0" * 64)
    other.worker("builder")
    other.account("viewer", name="deployer")
    # A key belongs to one organisation of an installation.
    world.owner.connection.execute("delete from public.organizations where id = %s", [rich.id])
    apply(other, before)
    assert text(export(other)) == text(before)


def test_a_second_apply_changes_nothing(rich: Organization) -> None:
    before, events = export(rich), audited(rich)
    assert apply(rich, before, prune=True) == []
    shuffled = {kind: entries[::-1] if isinstance(entries, list) else entries for kind, entries in before.items()}
    assert apply(rich, shuffled) == []
    assert audited(rich) == events


def test_each_change_is_audited_and_all_are_counted(rich: Organization) -> None:
    wanted = export(rich)
    wanted["modules"][1]["approvals_required"] = 3
    wanted["teams"].append({"name": "new"})
    assert apply(rich, wanted) == ["create teams new", "update modules net/vpc"]
    query = "select action from public.audit_events where org_id = %s order by id desc limit 3"
    assert rich.world.owner.rows(query, rich.id) == ["manifest.applied", "module.updated", "team.created"]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("sealing_keys", "bindings")])
def test_an_entry_of_each_kind_is_changed(rich: Organization, kind: str) -> None:
    changes: dict[str, dict[str, Any]] = {
        "roles": {"verbs": ["job.plan"]},
        "teams": {"claim": None, "members": []},
        "groups": {"description": "Other", "drift_action": "tell", "git_apply": "after_merge"},
        "modules": {"description": "Other", "git_is_on": False, "pinned_runner": None},
        "dependencies": {"bindings": {"network": "id"}, "cascades": "off"},
        "variables": {"value": "other"},
        "identities": {"audience": "y"},
        "policies": {"level": "advisory", "files": {"b.rego": "package main\n"}},
        "repositories": {"poll_seconds": 0, "allows_forks": True},
        "schedules": {"is_on": False, "reason": "Frozen."},
        "notifications": {"is_on": False, "secret": None},
    }
    wanted = export(rich)
    wanted[kind][0] |= changes[kind]
    assert len(apply(rich, wanted, is_dry=True)) == 1
    assert len(apply(rich, wanted)) == 1
    assert apply(rich, wanted) == []


def test_what_is_left_out_is_as_usual(rich: Organization) -> None:
    wanted = export(rich)
    del wanted["groups"][2]["hooks"], wanted["modules"][1]["engine"], wanted["modules"][1]["engine_version"]
    apply(rich, wanted)
    after = export(rich)
    assert "hooks" not in after["groups"][2]
    assert "engine" not in after["modules"][1]


def test_a_kind_that_is_not_listed_is_left_alone(rich: Organization) -> None:
    before = export(rich)
    assert apply(rich, {"version": 1, "schedules": []}, prune=True) == [
        f"remove schedules {name}"
        for name in ("apps PLAN 0 2 * * * Europe/Zurich", "net/vpc DESTROY 0 20 * * 5 UTC", '"" DRIFT 30 7 * * 1-5 UTC')
    ]
    assert export(rich) == {**before, "schedules": []}
    assert list(export(rich, None, "groups", "roles")) == ["version", "roles", "groups"]


def test_without_prune_nothing_is_removed(rich: Organization) -> None:
    document = {"version": 1, "teams": [], "roles": []}
    left = [{"kind": "teams", "name": "sre"}, {"kind": "roles", "name": "shipper"}]
    for how in ({}, {"p_prune": False}, {"p_prune": None}):
        answer = rich.owner.call("apply_manifest", p_org=rich.id, p_manifest=document, **how)
        assert answer == {"changes": [], "left": left}


def test_prune_leaves_groups_of_what_stays(rich: Organization) -> None:
    assert apply(rich, {"version": 1, "groups": []}, prune=True) == ["remove groups apps/shop"]
    org = export(rich, None, "groups")
    assert [each["path"] for each in org["groups"]] == ["apps", "net"]


def test_a_trial_says_what_would_change_and_changes_nothing(rich: Organization) -> None:
    before, events = export(rich), audited(rich)
    wanted = deepcopy(before)
    wanted["modules"][1]["approvals_required"] = 3
    wanted["groups"].append({"path": "new"})
    assert apply(rich, wanted, is_dry=True) == ["create groups new", "update modules net/vpc"]
    assert (export(rich), audited(rich)) == (before, events)


def test_one_missing_verb_refuses_the_whole(rich: Organization) -> None:
    before = export(rich)
    operator = rich.member("operator")
    wanted = export(rich, None, "groups", "policies")
    wanted["groups"].append({"path": "aaa"})
    wanted["policies"][0]["level"] = "advisory"
    with refused("RY403", "policies[0] net tags: You need policy.write at net; your role is operator."):
        apply(rich, wanted, operator)
    assert export(rich) == before
    del wanted["policies"]
    assert apply(rich, wanted, operator) == ["create groups aaa"]


def test_a_role_at_a_path_is_enough_below_it(rich: Organization) -> None:
    member = rich.member("viewer")
    rich.owner.call("grant_role", p_org=rich.id, p_path="net", p_role="operator", p_kind="member", p_subject=member.id)
    assert apply(rich, {"version": 1, "groups": [{"path": "net/new"}]}, member) == ["create groups net/new"]
    with refused("RY403", "groups[0] apps/new: You need group.write at apps/new"):
        apply(rich, {"version": 1, "groups": [{"path": "apps/new"}]}, member)
    with refused("RY403", "modules apps/site: You need module.delete at apps/site"):
        apply(rich, {"version": 1, "modules": []}, member, prune=True)


def test_boxes_are_for_those_who_may_write_them(rich: Organization) -> None:
    viewer, operator = rich.member("viewer"), rich.member("operator")
    with refused("RY403", "You need variable.write at net/vpc"):
        export(rich, viewer, "variables")
    assert export(rich, operator, "variables")["variables"]
    with refused("RY403", "You need notification.manage"):
        export(rich, operator)
    with refused("RY403", "You need notification.manage"):
        apply(rich, {"version": 1, "notifications": []}, viewer)
    assert export(rich, viewer, "modules", "groups")["modules"]


def test_a_guest_has_no_manifest(rich: Organization) -> None:
    with refused("RY403", "You need module.read"):
        export(rich, rich.member("guest"), "groups")
    with refused("RY403", "You need module.read"):
        apply(rich, {"version": 1, "groups": []}, rich.member("guest"))


def test_a_repository_without_a_secret_is_polled_and_takes_no_delivery(rich: Organization) -> None:
    before = export(rich)
    apply(rich, NOTHING, prune=True)
    apply(rich, before)
    (row,) = rich.owner.call("list_git_connections", p_org=rich.id)
    assert (row["has_token"], row["next_poll_at"] is not None) == (False, True)
    assert rich.world.service.call("git_connection_secret", p_connection=row["id"]) is None
    rich.owner.call("update_git_connection", p_connection=row["id"], p_spec={"webhook_secret": SEALED})
    assert rich.world.service.call("git_connection_secret", p_connection=row["id"])["webhook_secret"] == SEALED


def test_a_binding_becomes_a_variable_and_back(rich: Organization) -> None:
    wanted = export(rich)
    del wanted["dependencies"][0]["bindings"]
    wanted["variables"].append({"path": "apps/site", "kind": "input", "name": "vpc", "value": "x"})
    before = export(rich)
    assert len(apply(rich, wanted, prune=True)) == 2
    assert len(apply(rich, before, prune=True)) == 2
    assert export(rich) == before


def test_temporary_modules_are_nobodys_document(rich: Organization) -> None:
    before = export(rich)
    temporary = rich.module("tmp/upload", is_temporary=True)
    rich.owner.call("set_variables", p_org=rich.id, p_path="tmp/upload", p_variables=[_variable("a", 1)])
    assert [each["path"] for each in export(rich)["groups"]] == ["apps", "apps/shop", "net", "tmp"]
    assert {**export(rich), "groups": before["groups"]} == before
    assert apply(rich, before, prune=True) == []
    query = "select deleted_at from public.modules where id = %s"
    assert rich.world.owner.one(query, temporary) is None


def test_two_equal_schedules_are_one_entry(rich: Organization) -> None:
    before = export(rich)
    rich.owner.call("create_schedule", p_org=rich.id, p_spec=SCHEDULES[0])
    assert export(rich) == before
    assert apply(rich, before, prune=True) == []


WRONG: dict[str, tuple[str, str, Any]] = {
    "no object": ("RY422", 'A manifest is an object with "version": 1 and a list for each kind.', []),
    "no version": ("RY422", 'A manifest is an object with "version": 1', {"groups": []}),
    "another version": ("RY422", 'A manifest is an object with "version": 1', {"version": 2}),
    "an unknown kind": ("RY422", "Unknown option: moduls.", {"version": 1, "moduls": []}),
    "no list": ("RY422", '"groups" is not a list.', {"version": 1, "groups": {"path": "a"}}),
    "no entry": (
        "RY422",
        "groups[1]: The options must be a JSON object.",
        {"version": 1, "groups": [{"path": "a"}, "b"]},
    ),
    "an unknown field": ("RY422", "groups[0]: Unknown option: pth.", {"version": 1, "groups": [{"pth": "a"}]}),
    "no name": ("RY422", 'groups[0]: "path" is missing.', {"version": 1, "groups": [{}]}),
    "a number for a name": ("RY422", 'groups[0]: "path" is not a text.', {"version": 1, "groups": [{"path": 1}]}),
    "a text for a list": (
        "RY422",
        'roles[0]: "verbs" is not a list of texts.',
        {"version": 1, "roles": [{"name": "aa", "verbs": "job.plan"}]},
    ),
    "numbers in a set": (
        "RY422",
        'modules[0]: "labels" is not a list of texts.',
        {"version": 1, "modules": [{"path": "a/b", "labels": [1]}]},
    ),
    "a fraction": (
        "RY422",
        'modules[0]: "approvals_required" is not a whole number.',
        {"version": 1, "modules": [{"path": "a/b", "approvals_required": 1.5}]},
    ),
    "a text for a truth": (
        "RY422",
        'modules[0]: "auto_apply" is not true or false.',
        {"version": 1, "modules": [{"path": "a/b", "auto_apply": "yes"}]},
    ),
    "nothing for a text": (
        "RY422",
        'groups[0]: "description" is not a text.',
        {"version": 1, "groups": [{"path": "a", "description": None}]},
    ),
    "one name twice": (
        "RY422",
        'groups: "net" is in the list twice.',
        {"version": 1, "groups": [{"path": "net"}, {"path": "net", "description": "x"}]},
    ),
    "a cycle": (
        "RY409",
        "dependencies: This would be a cycle: ",
        {
            "version": 1,
            "modules": [{"path": "new/a"}, {"path": "new/b"}],
            "dependencies": [
                {"consumer": "new/a", "producer": "new/b"},
                {"consumer": "new/b", "producer": "new/a"},
            ],
        },
    ),
    "an unknown member": (
        "RY404",
        'teams[0] new: There is no member "nobody@example.org".',
        {"version": 1, "teams": [{"name": "new", "members": ["nobody@example.org"]}]},
    ),
    "an unknown team": (
        "RY404",
        'bindings[0] net planner team:ghosts: There is no team "ghosts".',
        {"version": 1, "bindings": [{"path": "net", "role": "planner", "subject": "team:ghosts"}]},
    ),
    "an unknown runner": (
        "RY404",
        'modules[0] net/new: There is no runner "ghost".',
        {"version": 1, "modules": [{"path": "net/new", "pinned_runner": "ghost"}]},
    ),
    "a field out of range": (
        "RY422",
        'modules[1] net/new: "approvals_required" is not a whole number from 0 to 10.',
        {"version": 1, "modules": [{"path": "new/first"}, {"path": "net/new", "approvals_required": 11}]},
    ),
    "a module without a group": (
        "RY422",
        'modules[0] alone: "" is not a path.',
        {"version": 1, "modules": [{"path": "alone"}]},
    ),
    "a time that is written otherwise": (
        "RY409",
        "schedules[0] net PLAN  1 2 * * *  UTC: It would not be as the manifest has it.",
        {"version": 1, "schedules": [{"path": "net", "type": "PLAN", "cron": " 1 2 * * * "}]},
    ),
    "a variable below what goes": (
        "RY409",
        "identities[0] net n: It would not be as the manifest has it.",
        {
            "version": 1,
            "dependencies": [],
            "modules": [],
            "groups": [],
            "identities": [{"path": "net", "name": "n", "kind": "custom", "audience": "x"}],
        },
    ),
    "too much": ("RY413", "A manifest has at most 4 MiB.", {"version": 1, "groups": [{"path": "x" * 5_000_000}]}),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_manifest_changes_nothing(rich: Organization, name: str) -> None:
    code, words, manifest = WRONG[name]
    if name == "a variable below what goes":
        apply(rich, {"version": 1, "identities": [*export(rich)["identities"], *manifest["identities"]]})
    before, events = export(rich), audited(rich)
    with refused(code, words):
        apply(rich, manifest, prune=True)
    assert (export(rich), audited(rich)) == (before, events)


def test_exporting_an_unknown_kind_is_refused(org: Organization) -> None:
    with refused("RY422", "Unknown option: moduls."):
        export(org, None, "moduls")


def test_two_applies_wait_for_each_other(world: World, rich: Organization) -> None:
    """Each sees what the other has written, so that neither fails on what both make."""
    wanted = {"version": 1, "teams": [{"name": f"team-{n}"} for n in range(3)]}
    second = world.database.connect("authenticated", {"sub": rich.owner.id, "email": rich.owner.email})
    with rich.owner.connection.transaction():
        apply(rich, wanted)
        second.execute("set lock_timeout = '200ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            apply(rich, wanted, Caller(second))
    assert apply(rich, wanted, Caller(second)) == []


def test_dependencies_are_made_in_any_order_and_looked_at_once(org: Organization) -> None:
    modules = [{"path": f"g{n % 5}/m{n}", **GIT} for n in range(100)]
    edges = [{"consumer": f"g{n % 5}/m{n}", "producer": f"g{(n - 1) % 5}/m{n - 1}"} for n in range(1, 100)]
    manifest = {"version": 1, "modules": modules[::-1], "dependencies": edges}
    assert len(apply(org, manifest)) == 199
    turned = [{"consumer": each["producer"], "producer": each["consumer"]} for each in edges]
    assert len(apply(org, {**manifest, "dependencies": turned}, prune=True)) == 198
