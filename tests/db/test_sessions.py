"""Sessions: how a process becomes an instance, and when a second one may not."""

import uuid

import pytest

from tests.db.world import Organization, World, refused


def test_the_first_session_puts_the_runner_online(world: World, org: Organization) -> None:
    runner = org.runner("r1")
    row = world.worker_row(runner.worker_id)
    assert (row["status"], row["never_contacted"], row["version"]) == ("ONLINE", False, "1.0.0")
    assert row["first_seen_at"] is not None
    instance = org.owner.one(
        "select to_jsonb(i) from public.worker_instances as i where worker_id = %s", runner.worker_id
    )
    assert (instance["name"], instance["status"], instance["hostname"], instance["epoch"]) == (
        "one",
        "ONLINE",
        "host",
        1,
    )


def test_a_second_process_of_a_single_instance_runner_is_refused(world: World, org: Organization) -> None:
    runner = org.runner("r1")
    with refused("RY409", 'Runner "r1" accepts one process, and "one" is connected.'):
        world.connect_runner(runner.worker_id, "two")
    runner.heartbeat()


def test_two_processes_cannot_have_the_same_name(world: World, org: Organization) -> None:
    runner = org.runner("r1", allow_multiple_instances=True)
    world.connect_runner(runner.worker_id, "two")
    with refused("RY409", 'Another process is connected as instance "') as caught:
        world.connect_runner(runner.worker_id, "two")
    assert "two" in str(caught.value)


def test_a_process_that_was_silent_is_replaced_by_another_and_learns_of_it(world: World, org: Organization) -> None:
    old = org.runner("r1")
    world.silence(old)
    new = world.connect_runner(old.worker_id, "one")
    with refused("RY401") as caught:
        old.heartbeat()
    assert "took over" in str(caught.value)
    assert new.instance_id == old.instance_id
    assert org.owner.one("select epoch from public.worker_instances where worker_id = %s", old.worker_id) == 2


def test_the_same_process_may_reconnect_at_once_and_keeps_its_jobs(world: World, org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    org.enqueue("a/b")
    job = runner.claim_one()
    again = world.connect_runner(runner.worker_id, "one", boot_id=runner.boot_id)
    assert again.report(job, "PLAN") == {"cancel_kind": None}
    with refused("RY401"):
        runner.heartbeat()


def test_leaving_is_immediate(world: World, org: Organization) -> None:
    runner = org.runner("r1")
    runner.call("worker_close_session", p_reason="shutdown")
    row = world.worker_row(runner.worker_id)
    assert (row["status"], row["status_reason"]) == ("OFFLINE", "Stopped: shutdown")
    with refused("RY401"):
        runner.heartbeat()
    world.connect_runner(runner.worker_id, "two")


def test_renewal_needs_a_live_session(world: World, org: Organization) -> None:
    runner = org.runner("r1")
    assert world.service.call("renew_worker_session", p_session=runner.session_id)["worker_id"] == runner.worker_id
    runner.call("worker_close_session")
    with refused("RY401", "This session has ended."):
        world.service.call("renew_worker_session", p_session=runner.session_id)


def test_an_unknown_session_is_refused_in_words(world: World) -> None:
    stranger = world.caller("worker", sub=str(uuid.uuid4()), sid=str(uuid.uuid4()))
    with refused("RY401", "This session has ended: it is not known."):
        stranger.call("worker_heartbeat", p_status="ONLINE", p_version="1.0.0")


def test_a_token_without_a_session_is_refused(world: World) -> None:
    with refused("RY401"):
        world.caller("worker", sub=str(uuid.uuid4())).call("worker_claim", p_request_id=str(uuid.uuid4()))


def test_credentials_must_be_the_runners_own(world: World, org: Organization) -> None:
    first, second = org.worker("r1"), org.worker("r2")
    token = world.service.call("worker_token_hashes", p_worker=second)[0]["token_id"]
    with refused("RY403", "These credentials do not belong to this runner."):
        world.service.call(
            "open_worker_session", p_worker=first, p_instance="one", p_boot_id=str(uuid.uuid4()), p_token=token
        )
    with refused("RY403"):
        world.service.call("open_worker_session", p_worker=first, p_instance="one", p_boot_id=str(uuid.uuid4()))


@pytest.mark.parametrize("name", ["", "a b", "x" * 101])
def test_instance_names_are_checked(world: World, org: Organization, name: str) -> None:
    with refused("RY422", "An instance name has 1 to 100 letters, digits, dots, hyphens or underscores."):
        world.connect_runner(org.worker(f"r{len(name)}"), name)


def test_a_service_account_opens_a_session_until_it_is_disabled(world: World, org: Organization) -> None:
    spec = {
        "name": "sa",
        "trusts": [{"issuer": "https://issuer.example", "audience": "runyard", "bound_claims": {"sub": "x"}}],
    }
    account = org.owner.call("create_service_account", p_org=org.id, p_spec=spec)["id"]
    made = org.owner.call(
        "register_worker",
        p_org=org.id,
        p_name="r1",
        p_token_hash=None,
        p_token_hint=None,
        p_options={"service_account_id": account},
    )
    arguments = {"p_worker": made["id"], "p_instance": "one", "p_boot_id": str(uuid.uuid4())}
    opened = world.service.call("open_worker_session", **arguments, **world.proof(account))
    runner = world.caller("worker", sub=made["id"], sid=opened["session_id"])
    runner.call("worker_heartbeat", p_status="ONLINE", p_version="1.0.0")

    org.owner.call("update_service_account", p_account=account, p_spec={"is_disabled": True})

    with refused("RY401"):
        runner.call("worker_heartbeat", p_status="ONLINE", p_version="1.0.0")
    with refused("RY403"):
        world.service.call("open_worker_session", **arguments, **world.proof(account))


def test_a_removed_runner_opens_no_session(world: World, org: Organization) -> None:
    worker = org.worker("r1")
    token = world.service.call("worker_token_hashes", p_worker=worker)[0]["token_id"]
    org.owner.call("remove_worker", p_worker=worker)
    assert world.service.call("worker_token_hashes", p_worker=worker) == []
    with refused("RY404", "There is no such runner."):
        world.service.call(
            "open_worker_session", p_worker=worker, p_instance="one", p_boot_id=str(uuid.uuid4()), p_token=token
        )


def test_attempts_are_counted_per_window(world: World) -> None:
    key = f"test:{uuid.uuid4()}"
    counted = [world.service.call("rate_limit", p_key=key, p_limit=2, p_window_seconds=60) for _ in range(3)]
    world.owner.connection.execute(
        "update private.rate_limits set window_started_at = now() - interval '61 s' where key = %s", [key]
    )
    assert counted == [True, True, False]
    assert world.service.call("rate_limit", p_key=key, p_limit=2, p_window_seconds=60) is True
    with refused("RY422") as refusal:
        world.service.call("rate_limit", p_key=None, p_limit=2, p_window_seconds=60)
    assert "A limit needs a key, a number and a time." in str(refusal.value)
