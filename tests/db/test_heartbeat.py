"""Heartbeats: the fields that they change, those that they do not, and their answers."""

import pytest

from tests.db.world import Organization, World, refused


def xmin_of(world: World, worker_id: str) -> object:
    """Changes when, and only when, somebody writes the row."""
    return world.owner.one("select xmin::text from public.workers where id = %s", worker_id)


def test_a_heartbeat_writes_no_row_that_anybody_follows(world: World, org: Organization) -> None:
    runner = org.runner("r1")
    worker, instance = (
        xmin_of(world, runner.worker_id),
        world.owner.one("select xmin::text from public.worker_instances where id = %s", runner.instance_id),
    )
    for _ in range(3):
        runner.heartbeat()
    assert xmin_of(world, runner.worker_id) == worker
    assert (
        world.owner.one("select xmin::text from public.worker_instances where id = %s", runner.instance_id) == instance
    )
    assert (
        world.owner.one("select relpersistence::text from pg_class where oid = 'private.heartbeats'::regclass") == "u"
    )


def test_a_runner_that_reports_draining_gets_no_jobs_until_it_reports_online(world: World, org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    runner.heartbeat("DRAINING")
    assert world.worker_row(runner.worker_id)["status"] == "DRAINING"
    org.enqueue("a/b")
    assert runner.claim() == []
    runner.heartbeat("ONLINE")
    assert world.worker_row(runner.worker_id)["status"] == "ONLINE"
    assert len(runner.claim()) == 1


def test_other_words_are_refused(org: Organization) -> None:
    runner = org.runner("r1")
    with refused("RY422"):
        runner.heartbeat("OFFLINE")


def test_news_about_the_host_is_shown(world: World, org: Organization) -> None:
    runner = org.runner("r1", capacity=8)
    facts = {
        "engines": {"tofu": "1.12.6"},
        "engine_note": "tofu is being prepared",
        "last_error": "disk",
        "capacity": 3,
        "cores": 2,
    }
    runner.heartbeat(version="1.1.0", p_facts=facts)
    row = org.owner.one("select to_jsonb(i) from public.worker_instances as i where id = %s", runner.instance_id)
    shown = {key: row[key] for key in ("engines", "engine_note", "last_error", "capacity", "version")}
    assert shown == {
        "engines": {"tofu": "1.12.6"},
        "engine_note": "tofu is being prepared",
        "last_error": "disk",
        "capacity": 3,
        "version": "1.1.0",
    }
    assert row["facts"]["cores"] == 2
    assert world.worker_row(runner.worker_id)["version"] == "1.1.0"


def test_errors_of_a_shared_runner_are_shown_to_no_organisation(fresh_world: World) -> None:
    told = {"last_error": "job 7: OSError: /srv/acme"}
    runner = fresh_world.connect_runner(fresh_world.shared_worker(), **told)
    runner.heartbeat(p_facts=told)
    shown = fresh_world.organization().owner.one("select to_jsonb(i) from public.worker_instances as i")
    assert shown["last_error"] is None
    assert "last_error" not in shown["facts"]


def test_the_record_limits_the_capacity_that_a_process_offers(org: Organization) -> None:
    runner = org.runner("r1", capacity=2)
    runner.heartbeat(p_facts={"capacity": 50})
    assert org.owner.one("select capacity from public.worker_instances where id = %s", runner.instance_id) == 2
    org.owner.call("update_worker", p_worker=runner.worker_id, p_options={"capacity": 1})
    assert org.owner.one("select capacity from public.worker_instances where id = %s", runner.instance_id) == 1


def test_a_process_that_names_no_slots_does_not_inherit_those_of_the_one_before(
    world: World, org: Organization
) -> None:
    worker = org.worker("r1", capacity=4)
    first = world.connect_runner(worker, capacity=2)
    second = world.connect_runner(worker, boot_id=first.boot_id)
    second.heartbeat(p_facts={"disk": 1})
    assert org.owner.one("select capacity from public.worker_instances where id = %s", second.instance_id) == 4


def test_an_instance_has_at_least_one_slot_and_at_most_those_of_its_shared_runner(fresh_world: World) -> None:
    world = fresh_world
    shared = world.shared_worker(capacity=2)
    runner = world.connect_runner(shared, capacity=0)
    slots = "select capacity from public.worker_instances where id = %s"
    assert world.owner.one(slots, runner.instance_id) == 1
    runner.heartbeat(p_facts={"capacity": 8})
    assert world.owner.one(slots, runner.instance_id) == 2
    world.shared_worker(capacity=5)
    assert world.owner.one(slots, runner.instance_id) == 5


def test_a_heartbeat_reports_cancellations_and_lost_jobs(world: World, org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True, capacity=2)
    org.enqueue("a/b")
    job = runner.claim_one()
    org.owner.call("cancel_job", p_job=job["id"], p_kind="AFTER_STEP")
    answer = runner.heartbeat(running=[{"job": job["id"], "attempt": 1}, {"job": 999999, "attempt": 1}])
    assert [(item["job"], item["attempt"], item["kind"]) for item in answer["cancel"]] == [(job["id"], 1, "AFTER_STEP")]
    assert answer["lost"] == [{"job": 999999, "attempt": 1}]


def test_an_update_is_offered_when_it_is_newer(fresh_world: World) -> None:
    org = fresh_world.organization()
    runner = org.runner("r1")
    assert runner.heartbeat()["update"] is None
    for version, channel in (("1.9.0", "stable"), ("1.10.0", "stable"), ("2.0.0", "beta")):
        fresh_world.service.call(
            "publish_release", p_spec={"version": version, "channel": channel, "notes": f"n {version}"}
        )
    assert runner.heartbeat(version="1.9.0")["update"] == {
        "version": "1.10.0",
        "notes": "n 1.10.0",
        "is_breaking": False,
    }
    assert runner.heartbeat(version="1.10.0")["update"] is None
    fresh_world.service.call("withdraw_release", p_version="1.10.0", p_reason="bad")
    assert runner.heartbeat(version="1.9.0")["update"] is None


def test_a_heartbeat_reports_whether_work_is_available(org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    assert runner.heartbeat()["has_work"] is False
    org.enqueue("a/b")
    assert runner.heartbeat()["has_work"] is True
    org.owner.call("drain_worker", p_worker=runner.worker_id)
    assert runner.heartbeat()["has_work"] is False


def test_a_job_that_its_runner_does_not_list_is_queued_again(world: World, org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    job = org.enqueue("a/b")
    runner.claim_one()
    world.owner.connection.execute(
        "update private.live_jobs set claimed_at = now() - interval '1 minute' where job_id = %s", [job]
    )
    runner.heartbeat(running=[])
    world.up_for_long()
    world.sweep()
    assert world.status(job) == "CLAIMED"
    world.owner.connection.execute(
        "update private.live_jobs set unlisted_at = now() - interval '31 s' where job_id = %s", [job]
    )
    world.sweep()
    assert world.status(job) == "QUEUED"


def test_a_job_that_is_mentioned_again_stays(world: World, org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    job = org.enqueue("a/b")
    runner.claim_one()
    world.owner.connection.execute(
        "update private.live_jobs set claimed_at = now() - interval '1 minute' where job_id = %s", [job]
    )
    runner.heartbeat(running=[])
    runner.heartbeat(running=[{"job": job, "attempt": 1}])
    assert world.owner.one("select unlisted_at from private.live_jobs where job_id = %s", job) is None


def test_quarters_of_an_hour_become_a_history(world: World, org: Organization) -> None:
    runner = org.runner("r1", capacity=2)
    world.owner.connection.execute(
        "update private.heartbeats set tick_at = tick_at - interval '15 minutes', tick_heartbeats = 60, tick_busy = 60, tick_slots = 120 "
        "where instance_id = %s",
        [runner.instance_id],
    )
    runner.heartbeat()
    history = org.owner.call("worker_history", p_worker=runner.worker_id)
    assert [(tick["heartbeats"], tick["status"]) for tick in history] == [(60, "ONLINE"), (1, "ONLINE")]
    assert history[0]["load"] == 0.5


# ------------------------------------------------------------------ changes of the runner


CHANGES: dict[str, str] = {
    "disabled": "update public.workers set is_disabled = true where id = %(worker)s",
    "draining": "update public.workers set is_draining = true where id = %(worker)s",
    "no slot left": "update public.worker_instances set capacity = 0 where id = %(instance)s",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_by_hand_counts_from_the_next_claim_on(world: World, org: Organization, change: str) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    org.enqueue("a/b")
    names = {"worker": runner.worker_id, "instance": runner.instance_id}
    world.owner.connection.execute(CHANGES[change].encode(), names)
    assert runner.claim() == []


def test_a_session_that_is_ended_by_hand_is_over_at_once(world: World, org: Organization) -> None:
    runner = org.runner("r1")
    world.owner.connection.execute(
        "update private.sessions set ended_at = now(), end_reason = 'by hand' where id = %s", [runner.session_id]
    )
    for call in (runner.heartbeat, runner.claim):
        with refused("RY401") as refusal:
            call()
        assert "by hand" in str(refusal.value)


def test_a_heartbeat_reports_every_change_of_its_runner(org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    org.owner.call("update_worker", p_worker=runner.worker_id, p_options={"name": "r2", "capacity": 7})
    told = runner.heartbeat()
    assert (told["worker"]["name"], told["worker"]["capacity"], told["drain"]) == ("r2", 7, False)
    assert runner.heartbeat()["worker"] == told["worker"]
    org.owner.call("drain_worker", p_worker=runner.worker_id, p_reason="new disk")
    told = runner.heartbeat()
    assert (told["drain"], told["drain_reason"]) == (True, "new disk")
