"""Groups and modules: input of people is checked, and queued jobs keep their values."""

from typing import Any

import psycopg
import pytest

from tests.db.world import Organization, World, refused


def test_a_module_brings_its_groups(org: Organization) -> None:
    org.module("platform/network/eu/vpc")
    assert org.owner.rows("select path from public.groups order by path") == [
        "platform",
        "platform/network",
        "platform/network/eu",
    ]


def test_only_named_fields_change(org: Organization) -> None:
    module = org.module("platform/vpc", engine="pulumi", labels=["gpu=true"], inputs={"a": 1})
    changed = org.owner.call("update_module", p_module=module, p_spec={"inputs": {"a": 2}, "auto_apply": True})
    assert (changed["engine"], changed["labels"], changed["auto_apply"]) == ("pulumi", ["gpu=true"], True)
    shown = org.owner.call("preview_variables", p_org=org.id, p_path="platform/vpc")
    assert [(each["name"], each["value"], each["version"]) for each in shown] == [("a", 2, 2)]


@pytest.mark.parametrize(
    "spec",
    [
        {"engine": "ansible"},
        {"colour": "red"},
        {"labels": ["Not A Label"]},
        {"labels": [f"label{number:02}=" + "x" * 60 for number in range(20)]},
        {"hooks": {"before_lunch": "x"}},
        {"hooks": {"before_init": 3}},
        {"env": {"a-b": "x"}},
        {"env": {"A": 1}},
        {"source_kind": "git", "source": {"ref": "main"}},
        {"source_kind": "git", "source": {"url": "https://me:secret@example.org/x.git"}},
        {"extra_files": [{"path": "../x", "content": ""}]},
        {"extra_files": [{"path": "/etc/passwd", "content": ""}]},
        {"extra_files": [{"path": "a"}]},
        {"approvals_required": 11},
        {"approval_timeout_seconds": 1},
        {"time_limits": {"plan": 0}},
        {"time_limits": {"plan": "1h"}},
        {"time_limits": {"hook": 601}},
        {"time_limits": {"apply": 604801}},
        {"time_limits": {"init": 60}},
        {"time_limits": [3600]},
        {"inputs": []},
        {"description": "x" * 2001},
        {"source": {"files": {"main.tf": "x" * 2**20}}},
        {"inputs": {"a": "x" * 2**20}},
        {"env": {"A": "x" * 2**20}},
        {"extra_files": [{"path": "a", "content": "x" * 2**20}]},
    ],
)
def test_invalid_fields_of_a_module_are_refused(org: Organization, spec: dict[str, Any]) -> None:
    with refused("RY422"):
        org.module("platform/vpc", **spec)
    module = org.module("platform/other")
    with refused("RY422"):
        org.owner.call("update_module", p_module=module, p_spec=spec)


def test_tables_have_the_bounds_of_their_options(world: World, org: Organization) -> None:
    rows = {"module": ("public.modules", org.module("platform/vpc")), "runner": ("public.workers", org.worker("r1"))}
    bounds = world.owner.rows(
        "select object, option, type, least, most from private.options where most is not null and object = any (%s)",
        list(rows),
    )
    assert len(bounds) == 6
    for what, option, kind, least, most in bounds:
        table, key = rows[what]
        # No text is shorter than none.
        for wrong in [each for each in (least - 1, most + 1) if kind == "integer" or each >= 0]:
            value = "x" * wrong if kind == "text" else wrong
            with pytest.raises(psycopg.errors.CheckViolation):
                world.owner.connection.execute(f"update {table} set {option} = %s where id = %s", [value, key])


@pytest.mark.parametrize("path", ["Platform/x", "a//b", "/a/b", "a b/c", "a/../b"])
def test_bad_paths_are_refused(org: Organization, path: str) -> None:
    with refused("RY422", '" is not a path.'):
        org.group(path)


def test_names_are_unique_until_removed(org: Organization) -> None:
    module = org.module("platform/vpc")
    with refused("RY409", 'There is already a module "'):
        org.module("platform/vpc")
    org.owner.call("delete_module", p_module=module, p_confirm_name="vpc")
    assert org.module("platform/vpc") != module


def test_a_path_is_either_a_group_or_a_module(org: Organization) -> None:
    org.module("platform/vpc")
    with refused("RY409", '" is a module.'):
        org.group("platform/vpc")
    org.group("platform/eu")
    with refused("RY409", '" is a group.'):
        org.module("platform/eu")


@pytest.mark.parametrize("below", ["platform/vpc/x", "platform/vpc/x/y"])
def test_nothing_is_made_below_a_module(org: Organization, below: str) -> None:
    org.module("platform/vpc")
    for make in (org.module, org.group):
        with refused("RY409", '"platform/vpc" is a module.'):
            make(below)
    assert org.owner.rows("select path from public.groups") == ["platform"]


def test_removal_requires_the_name_and_the_end_of_all_jobs(org: Organization) -> None:
    module = org.module("platform/vpc")
    with refused("RY422", "The name does not match."):
        org.owner.call("delete_module", p_module=module, p_confirm_name="vpd")
    job = org.enqueue("platform/vpc")
    with refused("RY409", "The module has jobs that are not finished."):
        org.owner.call("delete_module", p_module=module, p_confirm_name="vpc")
    org.owner.call("cancel_job", p_job=job)
    assert org.owner.call("delete_module", p_module=module, p_confirm_name="vpc")["deleted_at"] is not None
    with refused("RY404"):
        org.owner.call("enqueue_job", p_org=org.id, p_type="PLAN", p_module=module)


def test_groups_are_deleted_when_nothing_needs_them(org: Organization) -> None:
    group = org.group("platform/eu")["id"]
    org.group("platform/eu/west")
    with refused("RY409", '" is not empty.'):
        org.owner.call("delete_group", p_group=group)
    west = org.owner.one("select id from public.groups where path = 'platform/eu/west'")
    org.worker("r1", assignments=["platform/eu/west"])
    with refused("RY409", 'Runners are assigned to "'):
        org.owner.call("delete_group", p_group=west)
    worker = org.owner.one("select id from public.workers")
    org.owner.call("unassign_worker", p_worker=worker, p_path="platform/eu/west")
    org.owner.call("delete_group", p_group=west)
    assert org.owner.call("delete_group", p_group=group)["path"] == "platform/eu"


def test_a_removed_module_outlives_its_group(org: Organization) -> None:
    job = org.enqueue("past/gone")
    org.owner.call("cancel_job", p_job=job)
    org.owner.call("delete_module", p_module=org.modules["past/gone"], p_confirm_name="gone")
    org.owner.call("delete_group", p_group=org.owner.one("select id from public.groups where path = 'past'"))
    assert org.owner.one("select module_path from public.provision_jobs where id = %s", job) == "past/gone"


def test_the_payload_is_frozen_when_enqueued(world: World, org: Organization) -> None:
    module = org.module(
        "platform/eu/vpc", inputs={"size": 1}, env={"A": "module"}, engine="terraform", engine_version=">=1.9",
        hooks={"after_plan": "echo module"}, source_kind="inline", source={"files": {}},
    )  # fmt: skip
    org.group("platform", p_env={"A": "top", "B": "top"}, p_hooks={"before_init": "echo top"})
    org.group("platform/eu", p_env={"B": "eu"})
    job = org.enqueue("platform/eu/vpc", targets=["x.y"])
    org.owner.call("update_module", p_module=module, p_spec={"inputs": {"size": 2}})
    org.group("platform", p_env={"B": "changed"})

    assert world.job(job)["payload"] == {
        "module": {
            "id": module, "name": "vpc", "path": "platform/eu/vpc", "group_path": "platform/eu", "engine": "terraform",
            "engine_version": ">=1.9", "backend": None, "source_kind": "inline", "source": {"files": {}},
            "extra_files": [], "hooks": {"after_plan": "echo module"}, "time_limits": {}, "drift_ignores": None,
            "bindings": None,
        },
        "group": {"hooks": {"before_init": "echo top"}, "time_limits": {}},
        "options": {"targets": ["x.y"]},
    }  # fmt: skip
    assert world.given(job) == {"size": 1}
    assert world.given(job, "env") == {"A": "module", "B": "eu"}


def test_a_job_has_the_nearest_time_limits_of_the_moment_it_was_requested(world: World, org: Organization) -> None:
    org.owner.call("update_organization", p_org=org.id, p_time_limits={"plan": 60, "apply": 600, "hook": 5})
    org.group("a", p_time_limits={"plan": 120, "apply": 1200})
    org.group("a/b", p_time_limits={"plan": 180})
    org.module("a/b/c", time_limits={"apply": 7})
    payload = world.job(org.enqueue("a/b/c"))["payload"]
    assert payload["group"]["time_limits"] == {"plan": 180, "apply": 1200, "hook": 5}
    assert payload["module"]["time_limits"] == {"apply": 7}
    org.group("a/b", p_description="Limits stay.")
    org.owner.call("update_module", p_module=org.modules["a/b/c"], p_spec={"time_limits": {}})
    payload = world.job(org.enqueue("a/b/c"))["payload"]
    assert (payload["group"]["time_limits"]["plan"], payload["module"]["time_limits"]) == (180, {})


def test_time_limits_of_groups_and_organisations_are_checked(org: Organization) -> None:
    with refused("RY422", "The group is not valid."):
        org.group("a", p_time_limits={"plan": 604801})
    with refused("RY422", "The name, the retention or a time limit is not valid."):
        org.owner.call("update_organization", p_org=org.id, p_time_limits={"hook": 601})


@pytest.mark.parametrize(("role", "may"), [("viewer", False), ("operator", True), ("admin", True)])
def test_operators_and_admins_may_create_modules_and_viewers_may_not(org: Organization, role: str, may: bool) -> None:
    member = org.member(role)
    arguments = {"p_org": org.id, "p_group_path": "platform", "p_name": "vpc"}
    if may:
        assert member.call("create_module", **arguments)["path"] == "platform/vpc"
    else:
        with refused("RY403"):
            member.call("create_module", **arguments)


def test_operators_do_not_delete(org: Organization) -> None:
    module = org.module("platform/vpc")
    with refused("RY403"):
        org.member("operator").call("delete_module", p_module=module, p_confirm_name="vpc")


def test_another_organisations_module_does_not_exist(org: Organization, other_org: Organization) -> None:
    module = org.module("platform/vpc")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("update_module", {"p_spec": {}}),
        ("state_info", {}),
        ("delete_module", {"p_confirm_name": "vpc"}),
    ]
    for function, more in calls:
        with refused("RY404"):
            other_org.owner.call(function, p_module=module, **more)
