"""Service accounts, releases, statistics and doorbells."""

from typing import Any

import pytest

from tests.db.world import TOKEN_HASH, Organization, World, refused

TRUSTED = {"issuer": "https://issuer.example", "audience": "runyard", "bound_claims": {"sub": "repo:x"}}
TRUST = {"name": "ci", "trusts": [TRUSTED]}


def test_the_edge_function_receives_the_trusts_of_an_account(world: World, org: Organization) -> None:
    made = org.owner.call("create_service_account", p_org=org.id, p_spec=TRUST)
    found = world.service.call("service_account_for", p_client_id=made["client_id"])
    assert (found["id"], found["trusts"], found["hashes"]) == (
        made["id"],
        TRUST["trusts"],
        [],
    )
    assert world.service.call("service_account_for", p_client_id="rysa_unknown") is None


def test_a_secret_is_a_hash_and_rotates_at_once(world: World, org: Organization) -> None:
    made = org.owner.call(
        "create_service_account", p_org=org.id, p_spec={"name": "ci"}, p_secret_hash=TOKEN_HASH, p_secret_hint="abcd"
    )
    assert (made["has_secret"], made["secret_hint"]) == (True, "abcd")
    newer = "$2b$10$" + "c" * 53
    org.owner.call("rotate_service_account_secret", p_account=made["id"], p_secret_hash=newer, p_secret_hint="wxyz")
    hashes = world.service.call("service_account_for", p_client_id=made["client_id"])["hashes"]
    assert [item["hash"] for item in hashes] == [newer]
    assert newer not in str(org.owner.rows("select to_jsonb(a) from public.service_accounts as a"))
    org.owner.call("remove_service_account", p_account=made["id"])
    assert world.service.call("service_account_for", p_client_id=made["client_id"]) is None


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"name": "x"}, "RY422"),
        ({"name": "x", "trusts": [{"issuer": "https://i.example"}]}, "RY422"),
        ({"name": "x", "trusts": [{**TRUSTED, "issuer": "ftp://i.example"}]}, "RY422"),
        ({"name": "x", "trusts": [{**TRUSTED, "bound_claims": {}}]}, "RY422"),
        ({"name": "x", "trusts": [{**TRUSTED, "colour": "red"}]}, "RY422"),
        ({"name": "x", "trusts": [TRUSTED, "https://i.example"]}, "RY422"),
        ({"name": "x", "trusts": [TRUSTED] * 11}, "RY422"),
        ({"name": "x", "trusts": TRUSTED}, "RY422"),
        ({**TRUST, "role": "owner"}, "RY422"),
        ({**TRUST, "role": "king"}, "RY422"),
        ({**TRUST, "path": "nowhere"}, "RY404"),
        ({**TRUST, "colour": "red"}, "RY422"),
    ],
)
def test_service_accounts_are_checked(org: Organization, spec: dict[str, Any], code: str) -> None:
    with refused(code):
        org.owner.call("create_service_account", p_org=org.id, p_spec=spec)


def test_service_accounts_are_the_admins_own(org: Organization, other_org: Organization) -> None:
    account = org.owner.call("create_service_account", p_org=org.id, p_spec=TRUST)["id"]
    with refused("RY409", 'There is already a service account "'):
        org.owner.call("create_service_account", p_org=org.id, p_spec=TRUST)
    for caller, code in ((org.member("operator"), "RY403"), (other_org.owner, "RY404")):
        for function, more in (
            ("update_service_account", {"p_spec": {"is_disabled": True}}),
            ("rotate_service_account_secret", {"p_secret_hash": TOKEN_HASH, "p_secret_hint": "abcd"}),
            ("remove_service_account", {}),
        ):
            with refused(code):
                caller.call(function, p_account=account, **more)


def test_releases_are_published_once_and_withdrawn_for_good(fresh_world: World) -> None:
    service = fresh_world.service
    spec = {"version": "1.2.0", "notes": "# New", "artifacts": [{"name": "x", "url": "https://x", "sha256": "0" * 64}]}
    made = service.call("publish_release", p_spec=spec)
    assert service.call("publish_release", p_spec=spec)["id"] == made["id"]
    with refused("RY409", "is published already, with other content."):
        service.call("publish_release", p_spec={**spec, "notes": "other"})
    with refused("RY422", "The release is not valid."):
        service.call("publish_release", p_spec={"version": "latest"})
    assert service.call("withdraw_release", p_version="1.2.0", p_reason="bad")["withdrawn_reason"] == "bad"
    with refused("RY404", "There is no release"):
        service.call("withdraw_release", p_version="9.9.9", p_reason="x")
    reader = fresh_world.user()
    assert reader.rows("select version from public.worker_releases") == ["1.2.0"]


def test_statistics_by_the_hour(fresh_world: World) -> None:
    world = fresh_world
    org = world.organization()
    runner = org.runner("r1", is_assigned_to_all_modules=True, capacity=4)
    for number, status in enumerate(["SUCCEEDED", "SUCCEEDED", "FAILED", "CANCELLED"]):
        org.enqueue(f"a/m{number}")
        runner.finish(runner.claim_one(), status)
    world.owner.connection.execute(
        "update public.provision_jobs set finished_at = finished_at - interval '2 hours', "
        "queued_at = queued_at - interval '2 hours 10 seconds', "
        "claimed_at = claimed_at - interval '2 hours' where status = 'FAILED'"
    )
    # The sweep may have closed those hours already, when they were empty.
    world.owner.connection.execute("delete from private.rolled_hours")
    org.enqueue("a/last")
    running = runner.claim_one()
    runner.heartbeat(running=[{"job": running["id"], "attempt": 1}])
    finished = world.owner.rows(
        "select date_trunc('hour', finished_at)::text, count(*) filter (where status = 'SUCCEEDED'), "
        "count(*) filter (where status = 'FAILED'), count(*) "
        "from public.provision_jobs where finished_at is not null group by 1"
    )

    def by_hour(figure: str, key: str) -> dict[str, Any]:
        rows = org.owner.call("fleet_stats", p_org=org.id, p_hours=6)[figure]
        known = [(world.owner.one("select %s::timestamptz::text", row["hour"]), row[key]) for row in rows]
        return {hour: value for hour, value in known if value}

    def check() -> None:
        assert by_hour("throughput", "jobs") == {hour: jobs for hour, _, _, jobs in finished}
        assert by_hour("pass_rate", "failed") == {hour: failed for hour, _, failed, _ in finished if failed}
        assert max(by_hour("queue_wait", "p95").values()) >= 9

    check()
    assert max(by_hour("utilisation", "share").values()) > 0
    assert org.owner.call("fleet_stats", p_org=org.id)["now"]["used"] == 1
    world.owner.connection.execute("delete from private.clocks")
    world.sweep()
    assert world.owner.one("select count(*) from private.rolled_hours") == 24
    check()


def test_live_numbers(world: World, org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True, capacity=4)
    org.enqueue("a/b")
    org.enqueue("a/c")
    runner.claim_one()
    overview = org.owner.call("fleet_overview", p_org=org.id)
    (worker,) = overview["workers"]
    assert (worker["used"], worker["capacity"], worker["instances"][0]["name"]) == (1, 4, "one")
    assert overview["counts"]["jobs"] == {"QUEUED": 1, "CLAIMED": 1}
    assert overview["counts"]["workers"] == {"total": 1, "ONLINE": 1, "DRAINING": 0, "OFFLINE": 0}


# ---------------------------------------------------------------------- doorbells


def test_logs_wake_at_most_four_times_a_second(world: World, org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    org.enqueue("a/b")
    job = runner.claim_one()
    with runner.connection.transaction():
        for seq in range(1, 20):
            runner.append(job, (seq, "x\n"))
    wake_ups = world.wake_ups(f"org:{org.id}", "log")
    assert wake_ups[0]["job_id"] == job["id"]
    assert len(wake_ups) < 19


def test_unpublished_tables_wake_their_pages(world: World, org: Organization) -> None:
    org.module("a/b")
    org.worker("r1", assignments=["a"])
    assert {"groups", "modules", "worker_assignments", "memberships"} <= {
        wake_up["table"] for wake_up in world.wake_ups(f"org:{org.id}", "changed")
    }


def test_realtime_publishes_only_the_listed_tables(world: World) -> None:
    published = world.owner.rows(
        "select tablename from pg_publication_tables where pubname = 'supabase_realtime' and schemaname in ('public', 'private') order by 1"
    )
    assert published == ["provision_jobs", "rollouts", "worker_instances", "worker_releases", "workers"]


def hears(world: World, caller: Any, topic: str) -> bool:
    caller.connection.execute("select set_config('realtime.topic', %s, false)", [topic])
    world.owner.connection.execute(
        "insert into realtime.messages (topic, extension, payload, event, private) values (%s, 'broadcast', '{}', 'x', true)",
        [topic],
    )
    return bool(caller.one("select count(*) from realtime.messages where topic = %s", topic))


def test_each_caller_receives_only_its_own_topics(world: World, org: Organization, other_org: Organization) -> None:
    viewer, runner = org.member("viewer"), org.runner("r1")
    anonymous = world.caller("anon")
    topics = [
        f"org:{org.id}",
        f"worker:{runner.worker_id}",
        f"org:{other_org.id}",
    ]
    heard = {
        name: [topic for topic in topics if hears(world, caller, topic)]
        for name, caller in (
            ("viewer", viewer),
            ("stranger", other_org.owner),
            ("runner", runner),
            ("anonymous", anonymous),
        )
    }
    assert heard == {
        "viewer": [f"org:{org.id}"],
        "stranger": [f"org:{other_org.id}"],
        "runner": [f"worker:{runner.worker_id}"],
        "anonymous": [],
    }
    runner.call("worker_close_session")
    assert not hears(world, runner, f"worker:{runner.worker_id}")


def test_everything_works_without_realtime(fresh_world: World) -> None:
    fresh_world.database.connect("supabase_admin").execute("drop schema realtime cascade")
    org = fresh_world.organization()
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    org.enqueue("a/b")
    job = runner.claim_one()
    runner.append(job, (1, "x\n"))
    assert runner.finish(job)["status"] == "SUCCEEDED"


def test_the_oldest_open_transaction_is_named(world: World) -> None:
    somebody = world.database.connect("postgres")
    with somebody.transaction():
        somebody.execute("select now()")
        found = world.service.call("open_transactions")
    named = {each["pid"]: each for each in found}
    assert named[somebody.info.backend_pid]["role"] == "postgres"
    assert named[somebody.info.backend_pid]["state"] == "idle in transaction"
