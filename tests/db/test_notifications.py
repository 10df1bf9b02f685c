"""Notifications: one message for each event and rule, in order for each job, and no job ever waits for one."""

import uuid
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.db.world import Caller, Organization, World, refused

SEALED = "s1." + "x" * 60
EVERYTHING = [
    "job.awaiting_approval", "job.needs_attention", "job.failed", "module.drift", "runner.lost", "runner.degraded", "runner.outdated",
    "release.published",
]  # fmt: skip


def rule(org: Organization, *events: str, path: str = "", **spec: Any) -> str:
    whole = {
        "channel": "webhook",
        "events": list(events) or EVERYTHING,
        "path": path,
        "address": SEALED,
        "address_hint": "…abcd",
    }
    return str(org.owner.call("create_notification_rule", p_org=org.id, p_spec=whole | spec)["id"])


def events(org: Organization, rule_id: str) -> list[str]:
    return org.owner.rows("select event from public.deliveries where rule_id = %s order by id", rule_id)


def test_each_event_is_written_once_for_each_rule_that_wants_it(world: World, org: Organization) -> None:
    org.module("pay/db", approvals_required=1), org.module("net/vpc")
    all_of_it, failures, pay, net = rule(org), rule(org, "job.failed"), rule(org, path="pay"), rule(org, path="net/vpc")
    runner = org.runner("r", is_assigned_to_all_modules=True, capacity=5)
    org.enqueue("pay/db", "APPLY")
    org.enqueue("net/vpc")
    runner.finish(runner.claim_one(), "FAILED", p_error={"code": "x", "message": "no"})
    assert events(org, all_of_it) == ["job.awaiting_approval", "job.failed"]
    assert (events(org, failures), events(org, pay), events(org, net)) == (
        ["job.failed"],
        ["job.awaiting_approval"],
        ["job.failed"],
    )
    said = org.owner.one("select title, body ->> 'reason' from public.deliveries where rule_id = %s", net)
    assert said[0].startswith("Plan of net/vpc (#")
    assert said[0].endswith("failed")
    assert said[1] == "no"


def test_a_rule_sends_only_while_it_is_switched_on(org: Organization) -> None:
    switched = rule(org, "job.failed", is_on=False)
    runner = org.runner("r", is_assigned_to_all_modules=True)
    sent = []
    for is_on in (False, True, False):
        org.owner.call("update_notification_rule", p_rule=switched, p_spec={"is_on": is_on})
        org.enqueue("net/vpc")
        runner.finish(runner.claim_one(), "FAILED", p_error={"code": "x", "message": "no"})
        sent.append(len(events(org, switched)))
    assert sent == [0, 1, 1]


def test_an_apply_that_succeeds_is_news_and_a_plan_is_not(org: Organization) -> None:
    wanted = rule(org, "job.succeeded")
    runner = org.runner("r", is_assigned_to_all_modules=True)
    for kind in ("PLAN", "APPLY"):
        org.enqueue("a/b", kind)
        runner.finish(runner.claim_one())
    [title] = org.owner.rows("select title from public.deliveries where rule_id = %s", wanted)
    assert title.startswith("Apply of a/b (#")
    assert title.endswith("succeeded")


def test_a_job_that_needs_attention_and_then_failed_notifies_in_order(world: World, org: Organization) -> None:
    wanted = rule(org)
    runner = org.runner("r", is_assigned_to_all_modules=True)
    org.enqueue("a/b", "APPLY")
    job = runner.claim_one()
    runner.report(job, "APPLY")
    world.lose(runner)
    org.owner.call("resolve_attention", p_job=job["id"], p_action="mark_failed")
    assert events(org, wanted) == ["job.needs_attention", "runner.lost", "job.failed"]
    about_the_job = [one for one in lease(world, org) if one["event"].startswith("job.")]
    assert [one["event"] for one in about_the_job] == ["job.needs_attention"], "the second waits for the first"
    end(world, about_the_job[0], "DELIVERED")
    assert "job.failed" in [one["event"] for one in lease(world, org)]


def test_a_notification_of_drift_is_sent_only_when_the_drift_is_new(org: Organization) -> None:
    wanted = rule(org, "module.drift")
    runner = org.runner("r", is_assigned_to_all_modules=True)
    for found in (True, True, False, True):
        org.enqueue("a/b", "DRIFT")
        runner.finish(runner.claim_one(), p_plan_summary={"update": 2 * found, "has_changes": found})
    assert events(org, wanted) == ["module.drift", "module.drift"]


def test_a_stopped_runner_is_not_reported_as_lost_and_a_degraded_one_is_reported_once(
    world: World, org: Organization
) -> None:
    org.module("a/x"), org.module("b/y")
    everywhere, here, elsewhere = rule(org), rule(org, path="a"), rule(org, path="b")
    runner = org.runner("r")
    org.owner.call("assign_worker", p_worker=runner.worker_id, p_path="a/x")
    facts = "update public.worker_instances set facts = %s where worker_id = %s"
    for degraded in ({"reason": "disk is full"}, {"reason": "disk is full"}, None):
        world.owner.connection.execute(facts, [Jsonb({"degraded": degraded}), runner.worker_id])
    runner.call("worker_close_session", p_reason="stopped")
    assert [events(org, each) for each in (everywhere, here, elsewhere)] == [
        ["runner.degraded"],
        ["runner.degraded"],
        [],
    ]


def test_a_release_is_one_message_however_many_runners_are_outdated(fresh_world: World) -> None:
    org, other = fresh_world.organization(), fresh_world.organization()
    wanted, none = rule(org), rule(other)
    for number in range(3):
        org.runner(f"r{number}").heartbeat(version="1.0.0")
    fresh_world.service.call("publish_release", p_spec={"version": "2.0.0"})
    fresh_world.service.call("publish_release", p_spec={"version": "2.1.0-beta.1", "channel": "beta"})
    assert events(org, wanted) == ["release.published", "runner.outdated"]
    assert events(other, none) == ["release.published"]
    assert "3 runners are older" in org.owner.one("select title from public.deliveries where event = 'runner.outdated'")


def test_a_job_without_a_module_notifies_the_whole_organisation(fresh_world: World) -> None:
    org = fresh_world.organization()
    org.module("pay/db")
    whole, pay = rule(org, "job.failed"), rule(org, "job.failed", path="pay")
    shared = fresh_world.connect_runner(fresh_world.shared_worker())
    org.owner.call("verify_cloud_identity", p_identity=org.cloud_identity(is_tested=False))
    shared.finish(shared.claim_one(), "FAILED", p_error={"code": "cloud_identity", "message": "no"})
    assert (events(org, whole), events(org, pay)) == (["job.failed"], [])


def test_a_message_that_cannot_be_written_fails_no_job(fresh_world: World) -> None:
    org = fresh_world.organization()
    rule(org)
    runner = org.runner("r", is_assigned_to_all_modules=True)
    job = org.enqueue("a/b")
    fresh_world.owner.connection.execute(
        "alter table public.deliveries add constraint broken check (event <> 'job.failed')"
    )
    runner.finish(runner.claim_one(), "FAILED")
    assert fresh_world.status(job) == "FAILED"


# ---------------------------------------------------------------------- delivery


def lease(world: World, org: Organization, limit: int = 100) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = world.service.call("lease_deliveries", p_limit=limit)
    return [one for one in found if one["org"] == org.id]


def end(world: World, message: dict[str, Any], status: str) -> str:
    result = {"status": status, "http_status": 200 if status == "DELIVERED" else 500, "took_ms": 5, "note": "x"}
    answer = world.service.call("finish_delivery", p_delivery=message["id"], p_lease=message["lease"], p_result=result)
    return str(answer["status"])


def fail_jobs(org: Organization, count: int) -> None:
    runner = org.runner(f"r{uuid.uuid4().hex[:6]}", is_assigned_to_all_modules=True, capacity=50)
    for _ in range(count):
        org.enqueue(f"a/m{uuid.uuid4().hex[:8]}")
        runner.finish(runner.claim_one(), "FAILED")


def test_a_dead_sender_loses_no_message_and_cannot_end_the_delivery_of_another(world: World, org: Organization) -> None:
    rule(org)
    fail_jobs(org, 1)
    (first,) = lease(world, org)
    assert lease(world, org) == [], "it has a lease"
    world.owner.connection.execute(
        "update public.deliveries set lease_until = now() - interval '1 second' where org_id = %s", [org.id]
    )
    (second,) = lease(world, org)
    assert (second["event_id"], second["attempt"]) == (first["event_id"], 2)
    assert end(world, first, "FAILED") == "GONE"
    assert end(world, second, "DELIVERED") == "DELIVERED"
    assert end(world, second, "FAILED") == "GONE"


def test_waiting_messages_are_sent_once_their_receiver_answers_again(world: World, org: Organization) -> None:
    answers_again, stays_away = rule(org), rule(org)
    fail_jobs(org, 4)
    for message in lease(world, org):
        end(world, message, "FAILED")
    assert lease(world, org) == [], "all wait out their pause"
    fail_jobs(org, 1)
    fresh = {rule_of(org, message): message for message in lease(world, org)}
    end(world, fresh[answers_again], "DELIVERED")
    end(world, fresh[stays_away], "FAILED")
    assert [rule_of(org, message) for message in lease(world, org)] == [answers_again] * 4


def rule_of(org: Organization, message: dict[str, Any]) -> str:
    return str(org.owner.one("select rule_id::text from public.deliveries where id = %s", message["id"]))


def test_failures_are_tried_again_with_growing_pauses_and_given_up_at_last(world: World, org: Organization) -> None:
    wanted = rule(org)
    fail_jobs(org, 1)
    whole, waits = [], []
    # Seen from before the failure a pause is not shorter than it is, seen from after it not longer.
    query = (
        "select extract(epoch from next_at - %s)::integer, extract(epoch from next_at - now())::integer"
        " from public.deliveries where rule_id = %s"
    )
    for _ in range(10):
        (message,) = lease(world, org)
        before = org.owner.one("select clock_timestamp()")
        end(world, message, "FAILED")
        for seconds, kept in zip(org.owner.one(query, before, wanted), (whole, waits), strict=True):
            kept.append(seconds)
        world.owner.connection.execute("update public.deliveries set next_at = now() where org_id = %s", [org.id])
    row = org.owner.one(
        "select status, attempt, http_status, finished_at is not null from public.deliveries where rule_id = %s", wanted
    )
    assert row == ("FAILED", 10, 500, True)
    assert waits[:9] == sorted(waits[:9])
    assert whole[0] >= 8
    assert waits[0] <= 12
    assert waits[8] > 7 * 3600
    # By hand it is sent again, with the same id.
    delivery = org.owner.one("select id from public.deliveries where rule_id = %s", wanted)
    org.owner.call("redeliver", p_delivery=delivery)
    (again,) = lease(world, org)
    assert (again["attempt"], again["event_id"]) == (1, message["event_id"])


def answer(world: World, message: dict[str, Any], http_status: int | None) -> None:
    """The receiver's answer to a message, or none."""
    is_good = http_status == 200
    result = {"status": "DELIVERED" if is_good else "FAILED", "http_status": http_status}
    world.service.call("finish_delivery", p_delivery=message["id"], p_lease=message["lease"], p_result=result)


def test_messages_leave_as_soon_as_their_receiver_answers_again(world: World, org: Organization) -> None:
    rule(org, "job.failed")
    fail_jobs(org, 4)
    first, second, third, refused_one = lease(world, org)
    for message, status in ((first, None), (second, 503), (third, 0), (refused_one, 422)):
        answer(world, message, status)
    assert lease(world, org) == [], "all of them wait"
    fail_jobs(org, 1)
    (fresh,) = lease(world, org)
    answer(world, fresh, 200)
    assert {one["id"] for one in lease(world, org)} == {first["id"], second["id"], third["id"]}


def test_another_receiver_that_answers_ends_no_pause(world: World, org: Organization) -> None:
    away, there = rule(org, "job.failed"), rule(org, "job.failed")
    fail_jobs(org, 1)
    messages = lease(world, org)
    rules = dict(org.owner.rows("select id, rule_id::text from public.deliveries where org_id = %s", org.id))
    for message in sorted(messages, key=lambda one: rules[one["id"]] == there):
        answer(world, message, 200 if rules[message["id"]] == there else None)
    assert {*rules.values()} == {away, there}
    assert lease(world, org) == []


def test_a_slow_receiver_does_not_occupy_all_senders(world: World, org: Organization) -> None:
    slow, quick = rule(org), rule(org, "job.failed")
    fail_jobs(org, 12)
    rules = [one["id"] for one in lease(world, org)]
    by_rule = org.owner.rows(
        "select rule_id::text, count(*) from public.deliveries where id = any(%s) group by 1", rules
    )
    assert dict(by_rule) == {slow: 5, quick: 5}


def test_each_organisation_and_each_rule_has_its_turn(fresh_world: World) -> None:
    busy, other = fresh_world.organization(), fresh_world.organization()
    for _ in range(4):
        rule(busy, "job.failed")
    fail_jobs(busy, 6)
    young = rule(busy, "job.failed")
    rule(other, "job.failed")
    fail_jobs(other, 1)
    fail_jobs(busy, 1)
    sent = fresh_world.service.call("lease_deliveries", p_limit=6)
    assert sorted(one["org"] for one in sent) == sorted([busy.id] * 5 + [other.id])
    rules = busy.owner.rows(
        "select distinct rule_id::text from public.deliveries where id = any(%s)", [one["id"] for one in sent]
    )
    assert (len(rules), young in rules) == (5, True)


def test_a_message_that_was_written_while_its_rule_was_removed_is_given_up(fresh_world: World) -> None:
    org = fresh_world.organization()
    made = rule(org)
    org.owner.call("remove_notification_rule", p_rule=made)
    fresh_world.owner.connection.execute(
        "insert into public.deliveries (org_id, rule_id, event, event_id, subject, title) "
        "values (%s, %s, 'job.failed', 'x', 'x', 'x')",
        [org.id, made],
    )
    assert lease(fresh_world, org) == []
    row = org.owner.one("select status, attempt, note, finished_at is not null from public.deliveries")
    assert row == ("FAILED", 0, "The rule was removed.", True)
    assert not fresh_world.owner.one("select private.has_due_deliveries()")


def test_one_test_of_a_rule_is_on_its_way_at_a_time(world: World, org: Organization) -> None:
    made = rule(org)
    org.owner.call("test_notification_rule", p_rule=made)
    with refused("RY429", "A test of this rule is on its way."):
        org.owner.call("test_notification_rule", p_rule=made)
    (first,) = lease(world, org)
    with refused("RY429", "A test of this rule is on its way."):
        org.owner.call("test_notification_rule", p_rule=made)
    assert end(world, first, "FAILED") == "PENDING"
    org.owner.call("test_notification_rule", p_rule=made)
    org.owner.call("test_notification_rule", p_rule=rule(org))


def test_two_senders_at_once_never_have_the_same_message(world: World, org: Organization) -> None:
    rule(org)
    fail_jobs(org, 8)
    other = Caller(world.database.connect("service_role"))
    mine, theirs = lease(world, org, 3), other.call("lease_deliveries", p_limit=100)
    assert not {one["id"] for one in mine} & {one["id"] for one in theirs}


def test_addresses_come_sealed_and_never_leave(world: World, org: Organization) -> None:
    for wrong in ({"address": "https://hooks.example.org/x"}, {"secret": "plain"}):
        with refused("RY422", "An address or a secret comes sealed."):
            rule(org, **wrong)
    made = rule(org, secret=SEALED)
    shown = org.owner.call("list_notification_rules", p_org=org.id)
    assert (shown[0]["address_hint"], shown[0]["has_secret"]) == ("…abcd", True)
    assert SEALED not in str(shown)
    assert SEALED not in str(org.owner.call("list_deliveries", p_org=org.id))
    org.owner.call("update_notification_rule", p_rule=made, p_spec={"secret": None, "events": ["job.failed"]})
    fail_jobs(org, 1)
    assert [(one["address"], one["secret"]) for one in lease(world, org)] == [(SEALED, None)]
    audit = world.owner.rows("select detail::text from public.audit_events where org_id = %s", org.id)
    assert not any(SEALED in text for text in audit)


@pytest.mark.parametrize(
    ("spec", "code", "words"),
    [
        *((spec, "RY422", "The rule is not valid.") for spec in [
            {"events": []}, {"events": ["job.exploded"]}, {"events": "job.failed"}, {"channel": "pigeon"}, {"is_on": None},
            {"address": None}, {"address_hint": None},
        ]),
        ({"path": "nowhere"}, "RY404", 'There is no module or group "nowhere".'),
        ({"colour": "red"}, "RY422", "Unknown option: colour."),
    ],
)  # fmt: skip
def test_a_wrong_rule_is_refused(org: Organization, spec: dict[str, Any], code: str, words: str) -> None:
    with refused(code, words):
        rule(org, **spec)
    assert org.owner.call("list_notification_rules", p_org=org.id) == []


def test_the_number_of_rules_of_an_organisation_is_limited(org: Organization) -> None:
    for _ in range(200):
        rule(org, "job.failed")
    with refused("RY413", "An organisation has at most 200 rules."):
        rule(org, "job.failed")


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("update_notification_rule", {"p_spec": {"is_on": False}}),
        ("remove_notification_rule", {}),
        ("test_notification_rule", {}),
    ],
)
def test_a_rule_of_another_organisation_is_not_found(
    world: World, org: Organization, function: str, arguments: dict[str, Any]
) -> None:
    other = world.organization()
    for unknown in (rule(other), str(uuid.uuid4())):
        with refused("RY404", "There is no such rule."):
            org.owner.call(function, p_rule=unknown, **arguments)
    assert [row["is_on"] for row in other.owner.call("list_notification_rules", p_org=other.id)] == [True]


def test_a_delivery_of_another_organisation_is_not_found(world: World, org: Organization) -> None:
    other = world.organization()
    sent = other.owner.call("test_notification_rule", p_rule=rule(other))
    for unknown in (sent["id"], 2**62):
        with refused("RY404", f"There is no delivery {unknown}."):
            org.owner.call("redeliver", p_delivery=unknown)


@pytest.mark.parametrize("page", [{"p_limit": 0}, {"p_limit": 201}, {"p_limit": None}, {"p_status": "LOST"}])
def test_a_page_of_the_log_has_a_length_and_a_status_that_exists(org: Organization, page: dict[str, Any]) -> None:
    with refused("RY422", "A page has 1 to 200 deliveries, of one status: PENDING, DELIVERED, KEPT or FAILED."):
        org.owner.call("list_deliveries", p_org=org.id, **page)


@pytest.mark.parametrize("limit", [0, 101, None])
def test_a_sender_leases_1_to_100_messages(world: World, limit: int | None) -> None:
    with refused("RY422", "A sender takes 1 to 100 messages."):
        world.service.call("lease_deliveries", p_limit=limit)


@pytest.mark.parametrize(
    "wrong", [{"status": "PENDING"}, {"status": None}, {"http_status": "many"}, {"http_status": 1000}, {"took_ms": -1}]
)
def test_a_wrong_end_of_a_delivery_is_refused_and_its_lease_stays(
    world: World, org: Organization, wrong: dict[str, Any]
) -> None:
    org.owner.call("test_notification_rule", p_rule=rule(org))
    (message,) = lease(world, org)
    words = "A delivery ends as DELIVERED, KEPT or FAILED, with the receiver's status and the milliseconds."
    with refused("RY422", words):
        world.service.call(
            "finish_delivery",
            p_delivery=message["id"],
            p_lease=message["lease"],
            p_result={"status": "DELIVERED", **wrong},
        )
    assert end(world, message, "DELIVERED") == "DELIVERED"


@pytest.mark.parametrize("url", ["notify", "ftp://example.org", "https://a b", "https://" + "x" * 500])
def test_the_senders_address_must_be_one(world: World, url: str) -> None:
    with refused("RY422", "That is not an address."):
        world.service.call("set_notifier_url", p_url=url)


def test_a_removed_rule_sends_nothing_more_and_keeps_its_log(world: World, org: Organization) -> None:
    made = rule(org)
    fail_jobs(org, 1)
    org.owner.call("remove_notification_rule", p_rule=made)
    fail_jobs(org, 1)
    assert lease(world, org) == []
    (row,) = org.owner.call("list_deliveries", p_org=org.id)["rows"]
    assert (row["status"], row["note"]) == ("FAILED", "The rule was removed.")
    with refused("RY409", "Its rule was removed, and with it the address."):
        org.owner.call("redeliver", p_delivery=row["id"])
