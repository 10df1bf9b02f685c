"""Runner records: registration, tokens, flags, assignments, removal, shared runners."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.db.world import TOKEN_HASH, Caller, Organization, World, refused


def rotate(org: Organization, worker: str, overlap: int = 3600) -> dict[str, Any]:
    made: dict[str, Any] = org.owner.call(
        "rotate_worker_token", p_worker=worker, p_token_hash=TOKEN_HASH, p_token_hint="wxyz", p_overlap_seconds=overlap
    )
    return made


def test_registration_stores_the_hash_out_of_sight(world: World, org: Organization) -> None:
    worker = org.worker("r1", labels=["gpu=true", "gpu=true"], capacity=4)
    row = world.worker_row(worker)
    assert (row["labels"], row["capacity"], row["status"], row["status_reason"]) == (
        ["gpu=true"],
        4,
        "OFFLINE",
        "Never contacted",
    )
    assert TOKEN_HASH not in str(org.owner.rows("select to_jsonb(w) from public.workers as w"))
    with refused("42501"):
        org.owner.connection.execute("select * from private.worker_tokens")


def test_names_are_unique_in_an_organisation_only(org: Organization, other_org: Organization) -> None:
    org.worker("r1")
    other_org.worker("r1")
    with refused("RY409", 'There is already a runner called "'):
        org.worker("R1")


def test_the_name_is_free_again_after_removal(org: Organization) -> None:
    org.owner.call("remove_worker", p_worker=org.worker("r1"))
    assert org.worker("r1")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("", {}),
        (" x", {"capacity": 0}),
        ("x" * 64, {}),
        ("r1", {"capacity": 257}),
        ("r1", {"labels": ["Bad Label"]}),
        ("r1", {"accepted_job_types": ["DANCE"]}),
    ],
)
def test_bad_settings_are_refused(org: Organization, name: str, options: dict[str, Any]) -> None:
    with refused("RY422"):
        org.worker(name, **options)


def test_a_token_must_come_as_a_hash(org: Organization) -> None:
    with refused("RY422", "The token must come as a bcrypt hash of cost 8 to 12 with a hint of four characters."):
        org.owner.call("register_worker", p_org=org.id, p_name="r1", p_token_hash="plain", p_token_hint="abcd")
    with refused("RY422", "A runner needs a token or a service account."):
        org.owner.call("register_worker", p_org=org.id, p_name="r1", p_token_hash=None, p_token_hint=None)


def test_rotation_overlaps_and_keeps_two_tokens(world: World, org: Organization) -> None:
    worker = org.worker("r1")
    for _ in range(3):
        rotate(org, worker)
    hashes = world.service.call("worker_token_hashes", p_worker=worker)
    tokens = org.owner.call("list_worker_tokens", p_worker=worker)
    assert len(hashes) == 2
    assert [token["is_live"] for token in tokens] == [True, True, False, False]
    assert tokens[1]["expires_at"] is not None
    assert all("hash" not in token for token in tokens)


def test_a_session_survives_rotation_and_ends_with_its_token(world: World, org: Organization) -> None:
    runner = org.runner("r1")
    rotate(org, runner.worker_id)
    runner.heartbeat()
    org.owner.call("revoke_worker_token", p_token=runner.token_id)
    with refused("RY401") as caught:
        runner.heartbeat()
    assert "its token was revoked" in str(caught.value)
    assert world.worker_row(runner.worker_id)["status"] == "OFFLINE"
    assert world.wake_ups(f"worker:{runner.worker_id}", "directive")


def test_an_expired_token_is_not_offered(world: World, org: Organization) -> None:
    worker = org.worker("r1", token_expires_at="2020-01-01T00:00:00Z")
    assert world.service.call("worker_token_hashes", p_worker=worker) == []


def test_drain_shows_its_reason_and_resume_ends_it(world: World, org: Organization) -> None:
    runner = org.runner("r1")
    org.owner.call("drain_worker", p_worker=runner.worker_id, p_reason="Host maintenance")
    row = world.worker_row(runner.worker_id)
    assert (row["status"], row["status_reason"]) == ("DRAINING", "Host maintenance")
    answer = runner.heartbeat()
    assert (answer["drain"], answer["drain_reason"]) == (True, "Host maintenance")
    org.owner.call("resume_worker", p_worker=runner.worker_id)
    assert world.worker_row(runner.worker_id)["status"] == "ONLINE"


def test_an_assignment_that_waited_for_the_removal_of_a_runner_is_refused(world: World, org: Organization) -> None:
    worker = org.worker("r1")
    admin = org.member("admin")
    assigned = world.during(
        org.owner,
        lambda: org.owner.call("remove_worker", p_worker=worker),
        lambda: admin.call("assign_worker", p_worker=worker, p_path=""),
    )
    with refused("RY404", "There is no such runner."):
        assigned.result()


def register(org: Organization, admin: Caller, account: str) -> None:
    options = {"service_account_id": account}
    admin.call("register_worker", p_org=org.id, p_name="r2", p_token_hash=None, p_token_hint=None, p_options=options)


def give(org: Organization, admin: Caller, account: str) -> None:
    worker = org.world.owner.one("select id from public.workers where org_id = %s", org.id)
    admin.call("update_worker", p_worker=worker, p_options={"service_account_id": account})


@pytest.mark.parametrize("act", [register, give])
def test_no_runner_gets_a_service_account_that_was_removed_meanwhile(
    world: World, org: Organization, act: Callable[[Organization, Caller, str], None]
) -> None:
    account = org.account()["id"]
    org.worker("r1")
    admin = org.member("admin")
    late = world.during(
        org.owner,
        lambda: org.owner.call("remove_service_account", p_account=account),
        lambda: act(org, admin, account),
    )
    with refused("RY404", "There is no such service account."):
        late.result()


def test_assignments_need_something_to_be_assigned_to(org: Organization) -> None:
    worker = org.worker("r1")
    with refused("RY404", 'There is no module or group "platform".'):
        org.owner.call("assign_worker", p_worker=worker, p_path="platform")
    org.module("platform/vpc")
    for path in ("", "platform", "platform/vpc"):
        assert org.owner.call("assign_worker", p_worker=worker, p_path=path)["path"] == path
    org.owner.call("unassign_worker", p_worker=worker, p_path="platform")
    with refused("RY404", 'The runner is not assigned to "'):
        org.owner.call("unassign_worker", p_worker=worker, p_path="platform")


@pytest.fixture
def scoped_account(org: Organization) -> str:
    """A service account that serves platform, beside modules that it does not serve."""
    org.module("platform/eu/vpc")
    org.module("apps/web")
    spec = {
        "name": "sa",
        "path": "platform",
        "trusts": [{"issuer": "https://issuer.example", "audience": "runyard", "bound_claims": {"sub": "ci"}}],
    }
    return str(org.owner.call("create_service_account", p_org=org.id, p_spec=spec)["id"])


def test_a_service_account_limits_where_its_runner_serves(org: Organization, scoped_account: str) -> None:
    worker = org.worker("r1", service_account_id=scoped_account, assignments=["platform/eu"])
    with refused("RY422", "The runner's service account serves only"):
        org.owner.call("assign_worker", p_worker=worker, p_path="apps")
    with refused("RY422"):
        org.worker("r2", service_account_id=scoped_account, is_assigned_to_all_modules=True)
    with refused("RY409", "runners sign in with it."):
        org.owner.call("remove_service_account", p_account=scoped_account)


def test_a_runner_of_a_scoped_account_cannot_be_given_all_modules(org: Organization, scoped_account: str) -> None:
    worker = org.worker("r1", service_account_id=scoped_account, assignments=["platform/eu"])
    with refused("RY422"):
        org.owner.call("update_worker", p_worker=worker, p_options={"is_assigned_to_all_modules": True})


def test_a_runner_of_all_modules_cannot_be_given_a_scoped_account(org: Organization, scoped_account: str) -> None:
    worker = org.worker("r1", is_assigned_to_all_modules=True)
    with refused("RY422"):
        org.owner.call("update_worker", p_worker=worker, p_options={"service_account_id": scoped_account})
    narrowed = {"service_account_id": scoped_account, "is_assigned_to_all_modules": False}
    assert org.owner.call("update_worker", p_worker=worker, p_options=narrowed)["service_account_id"] == scoped_account


@pytest.mark.parametrize("path", ["apps", ""])
def test_a_runner_assigned_elsewhere_cannot_be_given_a_scoped_account(
    org: Organization, scoped_account: str, path: str
) -> None:
    worker = org.worker("r1", assignments=["platform/eu", path])
    with refused("RY422") as refusal:
        org.owner.call("update_worker", p_worker=worker, p_options={"service_account_id": scoped_account})
    assert refusal.value.diag.message_primary == (
        f"The service account sa serves only platform, but the runner serves {path or 'all modules'}."
    )
    org.owner.call("unassign_worker", p_worker=worker, p_path=path)
    org.owner.call("update_worker", p_worker=worker, p_options={"service_account_id": scoped_account})


def test_removal_ends_sessions_and_handles_jobs(world: World, org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True, capacity=3)
    planning, applying, pinned = (
        org.enqueue("a/one"),
        org.enqueue("a/two", "APPLY"),
        org.enqueue("a/three", pinned_worker_id=runner.worker_id),
    )
    jobs = {job["id"]: job for job in runner.claim(2)}
    runner.report(jobs[applying], "APPLY")
    runner.report(jobs[planning], "PLAN")

    org.owner.call("remove_worker", p_worker=runner.worker_id)

    assert world.status(planning) == "QUEUED"
    assert world.status(applying) == "NEEDS_ATTENTION"
    assert world.status(pinned) == "FAILED"
    with refused("RY401"):
        runner.heartbeat()
    assert org.owner.rows("select path from public.worker_assignments") == []


def test_nothing_waits_for_a_runner_that_was_removed(world: World, org: Organization) -> None:
    """Neither a job that waited for an approval, nor one that a person would queue again."""
    runner = org.runner("r1", is_assigned_to_all_modules=True, capacity=2)
    pin: dict[str, Any] = {"pinned_worker_id": runner.worker_id}
    unapproved = org.enqueue("a/one", "APPLY", approvals_required=1, **pin)
    failed, held = org.enqueue("a/two", **pin), org.enqueue("a/three", "APPLY", **pin)
    jobs = {job["id"]: job for job in runner.claim(2)}
    runner.finish(jobs[failed], "FAILED")
    runner.report(jobs[held], "APPLY")
    org.owner.call("remove_worker", p_worker=runner.worker_id)
    assert (world.status(unapproved), world.status(held)) == ("CANCELLED", "NEEDS_ATTENTION")
    assert world.events(unapproved) == ["enqueued", "cancelled"]
    for function, more in (("retry_job", {}), ("resolve_attention", {"p_action": "retry"})):
        with refused("RY409", 'The runner that it is pinned to, "r1", was removed.'):
            org.owner.call(function, p_job=failed if function == "retry_job" else held, **more)
    org.owner.call("resolve_attention", p_job=held, p_action="mark_failed")


@pytest.mark.parametrize(
    "scaling",
    [
        *({"min": "x"}, {"max": 0}, {"max": 1.5}, {"min": 3, "max": 2}, {"idle_seconds": -1}, {"jobs_per_task": 1e30}),
        *({"idle_seconds": 300.0}, {"idle_seconds": 86401}, {"max": None}, 7),
    ],
)
def test_limits_for_scaling_that_nobody_could_follow_are_refused(org: Organization, scaling: Any) -> None:
    """One planner reads those of all organisations."""
    worker = org.worker("r1")
    with refused("RY422"):
        org.owner.call("update_worker", p_worker=worker, p_options={"scaling": scaling})


def test_no_organisation_changes_a_shared_runner(fresh_world: World) -> None:
    world, org = fresh_world, fresh_world.organization()
    shared = world.shared_worker()
    calls: list[tuple[str, dict[str, Any]]] = [
        ("update_worker", {"p_options": {"capacity": 9}}),
        ("drain_worker", {}),
        ("resume_worker", {}),
        ("set_worker_disabled", {"p_disabled": True}),
        ("remove_worker", {}),
        ("assign_worker", {"p_path": ""}),
        ("unassign_worker", {"p_path": ""}),
        ("rotate_worker_token", {"p_token_hash": TOKEN_HASH, "p_token_hint": "wxyz"}),
        ("update_one_worker", {}),
        ("remove_cloud_worker", {}),
    ]
    before = world.worker_row(shared)
    for function, more in calls:
        with refused("RY403", "A shared runner belongs to the installation; no organisation can change it."):
            org.owner.call(function, p_worker=shared, **more)
    token = world.owner.one("select id from private.worker_tokens where worker_id = %s", shared)
    with refused("RY403"):
        org.owner.call("revoke_worker_token", p_token=token)
    with refused("RY404"):
        org.owner.call("list_worker_tokens", p_worker=shared)
    assert world.worker_row(shared) == before
    assert org.owner.one("select name from public.workers where is_shared") == "shared"


def test_configuration_makes_and_changes_a_shared_runner(fresh_world: World) -> None:
    world = fresh_world
    first = world.shared_worker(capacity=2)
    second = world.shared_worker(capacity=5, labels=["big"])
    row = world.worker_row(first)
    assert (first, row["capacity"], row["labels"], row["type"], row["org_id"]) == (second, 5, ["big"], "shared", None)
    assert len(world.service.call("worker_token_hashes", p_worker=first)) == 1
    world.service.call("remove_shared_worker", p_name="shared")
    acts = world.owner.rows("select action, actor_kind::text from public.audit_events where org_id is null order by id")
    assert acts == [("worker.registered", "system"), ("worker.removed", "system")]
    with refused("RY404", 'There is no shared runner "'):
        world.service.call("remove_shared_worker", p_name="shared")


@pytest.mark.parametrize(
    ("role", "may_drain", "may_register"), [("viewer", False, False), ("operator", True, False), ("admin", True, True)]
)
def test_operators_may_drain_a_runner_and_only_admins_may_register_or_disable_one(
    org: Organization, role: str, may_drain: bool, may_register: bool
) -> None:
    worker = org.worker("r1")
    member = org.member(role)
    acts: list[tuple[bool, str, dict[str, Any]]] = [
        (may_drain, "drain_worker", {"p_worker": worker}),
        (may_register, "set_worker_disabled", {"p_worker": worker, "p_disabled": True}),
        (
            may_register,
            "register_worker",
            {"p_org": org.id, "p_name": "r2", "p_token_hash": TOKEN_HASH, "p_token_hint": "abcd"},
        ),
    ]
    for may, function, arguments in acts:
        if may:
            member.call(function, **arguments)
        else:
            with refused("RY403"):
                member.call(function, **arguments)
