"""A session ends with its credential: a token that expired or was revoked, an account that was removed, disabled, rotated or detached."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from tests.db.world import TOKEN_HASH, VERSION, Organization, Runner, World, refused, this

SECRET: dict[str, Any] = {"p_secret_hash": TOKEN_HASH, "p_secret_hint": "abcd"}
NEW_TOKEN: dict[str, Any] = {"p_token_hash": TOKEN_HASH, "p_token_hint": "wxyz"}


def account_of(org: Organization, name: str = "sa") -> str:
    return str(org.owner.call("create_service_account", p_org=org.id, p_spec={"name": name}, **SECRET)["id"])


def sign_in(world: World, worker: str, account: str, proof: dict[str, Any] | None = None) -> Runner:
    """A process that came with its service account, and with the token of now or of another time."""
    boot = str(uuid.uuid4())
    opened = world.service.call(
        "open_worker_session",
        p_worker=worker,
        p_instance="one",
        p_boot_id=boot,
        p_facts={"version": VERSION},
        **(proof or world.proof(account)),
    )
    connection = world.database.connect("worker", {"sub": worker, "sid": opened["session_id"], "org": opened["org_id"]})
    runner = Runner(connection, worker, opened["session_id"], opened["instance_id"], boot, "", "one")
    runner.heartbeat()
    return runner


def assert_ended(world: World, runner: Runner, job: dict[str, Any], reason: str) -> None:
    """No call of the session is answered, and it is not renewed."""
    named = {"p_job": job["id"], "p_attempt": job["attempt"]}
    calls: list[Callable[[], Any]] = [
        runner.heartbeat,
        runner.claim,
        lambda: runner.report(job, "PLAN"),
        lambda: runner.append(job, (1, "line\n")),
        lambda: runner.finish(job),
        lambda: runner.call("worker_recover", p_running=[]),
        lambda: world.caller("executor", sid=runner.session_id, job=str(job["id"]), att="1").call(
            "worker_job", **named
        ),
    ]
    for call in calls:
        with refused("RY401", reason):
            call()
    with refused("RY401", "This session has ended"):
        world.service.call("renew_worker_session", p_session=runner.session_id)


def expire(world: World, runner: Runner) -> None:
    """As if the token's last day were over."""
    for statement in (
        "update private.worker_tokens set expires_at = now() - interval '1 second' where id = %s",
        "update private.sessions set expires_at = now() - interval '1 second' where token_id = %s",
    ):
        world.owner.connection.execute(statement.encode(), [runner.token_id])


def test_an_expired_token_ends_its_sessions(world: World, org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True, token_expires_at="2999-01-01")
    org.enqueue("a/b")
    job = runner.claim_one()
    expire(world, runner)
    assert_ended(world, runner, job, "its token expired")


def test_the_sweep_records_that_the_token_expired(world: World, org: Organization) -> None:
    runner = org.runner("r1", token_expires_at="2999-01-01")
    expire(world, runner)
    world.sweep()
    row = world.worker_row(runner.worker_id)
    assert (row["status"], row["status_reason"]) == ("OFFLINE", "No usable token or service account")
    reason = "select end_reason from private.sessions where id = %s"
    assert world.owner.one(reason, runner.session_id) == "its token expired"


def test_an_expired_token_opens_no_session(world: World, org: Organization) -> None:
    runner = org.runner("r1", token_expires_at="2999-01-01")
    expire(world, runner)
    with refused("RY403", "These credentials do not belong to this runner."):
        world.service.call(
            "open_worker_session",
            p_worker=runner.worker_id,
            p_instance="one",
            p_boot_id=runner.boot_id,
            p_token=runner.token_id,
        )


def test_a_rotated_token_and_its_sessions_are_valid_for_the_overlap(world: World, org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    org.enqueue("a/b")
    job = runner.claim_one()
    org.owner.call("rotate_worker_token", p_worker=runner.worker_id, p_overlap_seconds=3600, **NEW_TOKEN)
    runner.heartbeat(running=[{"job": job["id"], "attempt": 1}])
    assert world.service.call("renew_worker_session", p_session=runner.session_id)["session_id"] == runner.session_id
    expire(world, runner)
    assert_ended(world, runner, job, "its token expired")


def test_a_second_rotation_ends_the_sessions_of_the_oldest_token(world: World, org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    org.enqueue("a/b")
    job = runner.claim_one()
    for _ in range(2):
        org.owner.call("rotate_worker_token", p_worker=runner.worker_id, p_overlap_seconds=3600, **NEW_TOKEN)
    assert_ended(world, runner, job, "its token was revoked")


def test_a_new_token_of_a_shared_runner_ends_the_sessions_of_the_old_one(fresh_world: World) -> None:
    world, org = fresh_world, fresh_world.organization()
    runner = world.connect_runner(world.shared_worker())
    org.enqueue("a/b")
    job = runner.claim_one()
    new = NEW_TOKEN | {"p_token_hash": "$2b$10$" + "b" * 53}
    world.service.call("ensure_shared_worker", p_name="shared", p_options={}, **new)
    assert_ended(world, runner, job, "its token expired")
    world.connect_runner(runner.worker_id, boot_id=runner.boot_id)
    world.service.call("ensure_shared_worker", p_name="shared", p_options={}, **NEW_TOKEN)
    (live,) = world.service.call("worker_token_hashes", p_worker=runner.worker_id)
    assert live["hash"] == TOKEN_HASH, "back to the token from before"


def disable(org: Organization, worker: str, account: str) -> None:
    org.owner.call("update_service_account", p_account=account, p_spec={"is_disabled": True})


def rotate(org: Organization, worker: str, account: str) -> None:
    org.owner.call("rotate_service_account_secret", p_account=account, **SECRET)


def take_away(org: Organization, worker: str, account: str) -> None:
    org.owner.call("update_worker", p_worker=worker, p_options={"service_account_id": None})


def replace(org: Organization, worker: str, account: str) -> None:
    other = account_of(org, "another")
    org.owner.call("update_worker", p_worker=worker, p_options={"service_account_id": other})


def remove(org: Organization, worker: str, account: str) -> None:
    take_away(org, worker, account)
    org.owner.call("remove_service_account", p_account=account)


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (disable, "its service account was disabled"),
        (rotate, "its service account's secret was rotated"),
        (take_away, "its service account was taken from it"),
        (replace, "its service account was taken from it"),
        (remove, "its service account was taken from it"),
    ],
)
def test_changes_to_an_account_end_its_sessions(
    world: World, org: Organization, act: Callable[[Organization, str, str], None], reason: str
) -> None:
    account = account_of(org)
    worker = org.worker("r1", service_account_id=account, is_assigned_to_all_modules=True)
    runner = sign_in(world, worker, account)
    org.enqueue("a/b")
    job = runner.claim_one()
    act(org, worker, account)
    assert_ended(world, runner, job, reason)
    assert world.worker_row(worker)["status"] == "OFFLINE"


@pytest.mark.parametrize("act", [disable, rotate, take_away, replace, remove])
def test_changes_to_an_account_do_not_end_a_session_that_a_token_opened(
    world: World, org: Organization, act: Callable[[Organization, str, str], None]
) -> None:
    account = account_of(org)
    runner = org.runner("r1", service_account_id=account)
    act(org, runner.worker_id, account)
    assert runner.heartbeat()["worker"]["name"] == "r1"


TRUST = {"issuer": "https://issuer.example", "audience": "runyard", "bound_claims": {"sub": "x"}}


def trust(org: Organization, worker: str, account: str) -> None:
    org.owner.call("update_service_account", p_account=account, p_spec={"trusts": [TRUST]})


@pytest.mark.parametrize("act", [rotate, trust])
def test_a_token_of_older_credentials_opens_no_session(
    world: World, org: Organization, act: Callable[[Organization, str, str], None]
) -> None:
    account = account_of(org)
    worker = org.worker("r1", service_account_id=account)
    before = world.proof(account)
    act(org, worker, account)
    with refused("RY403", "These credentials do not belong to this runner."):
        world.service.call("check_worker_credential", p_worker=worker, **before)
    for proof in (before, {"p_service_account": account}):
        with refused("RY403", "These credentials do not belong to this runner."):
            sign_in(world, worker, account, proof)
    assert sign_in(world, worker, account).heartbeat()["worker"]["name"] == "r1"


def test_a_session_that_opens_while_the_secret_is_rotated_is_refused(world: World, org: Organization) -> None:
    account = account_of(org)
    worker = org.worker("r1", service_account_id=account)
    before = world.proof(account)
    opened = world.during(
        org.owner, lambda: rotate(org, worker, account), lambda: sign_in(world, worker, account, before)
    )
    with refused("RY403", "These credentials do not belong to this runner."):
        opened.result()


@pytest.mark.parametrize("act", [rotate, trust])
def test_an_executor_ends_with_the_credentials_even_in_the_middle_of_a_change(
    world: World, org: Organization, act: Callable[[Organization, str, str], None]
) -> None:
    account = account_of(org)
    worker = org.worker("r1", service_account_id=account, is_assigned_to_all_modules=True)
    runner = sign_in(world, worker, account)
    org.enqueue("a/b", "APPLY")
    job = runner.claim_one()
    executor = world.caller("executor", sub=worker, sid=runner.session_id, job=str(job["id"]), att="1")
    executor.call("worker_report", **this(job, p_phase="APPLY"))
    assert executor.call("worker_job", **this(job))["has_touched"] is True
    act(org, worker, account)
    for call in (
        lambda: executor.call("worker_job", **this(job)),
        lambda: world.service.call("renew_worker_session", p_session=runner.session_id, **this(job)),
    ):
        with refused("RY401", "This session has ended"):
            call()


def test_another_change_of_the_runner_ends_nothing(world: World, org: Organization) -> None:
    account = account_of(org)
    runner = sign_in(world, org.worker("r1", service_account_id=account), account)
    org.owner.call("update_worker", p_worker=runner.worker_id, p_options={"capacity": 3, "service_account_id": account})
    assert runner.heartbeat()["worker"]["capacity"] == 3


def test_renewal_does_not_trust_the_session_alone(world: World, org: Organization) -> None:
    """Whatever left the session open, the credential that opened it is checked again."""
    account = account_of(org)
    by_account = sign_in(world, org.worker("r1", service_account_id=account), account)
    by_token = org.runner("r2")
    world.owner.connection.execute("update public.service_accounts set is_disabled = true where id = %s", [account])
    world.owner.connection.execute(
        "update private.worker_tokens set revoked_at = now() where id = %s", [by_token.token_id]
    )
    for runner in (by_account, by_token):
        with refused("RY401", "This session has ended"):
            world.service.call("renew_worker_session", p_session=runner.session_id)
