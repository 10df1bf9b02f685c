"""Schedules: times in zones, missed times, storms, and the roles that may have them."""

import uuid
from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest

from tests.db.world import Organization, World, refused

LISBON = "Europe/Lisbon"
FIVE_FIELDS = "A time has five fields: minute, hour, day, month, weekday."


def next_times(world: World, cron: str, zone: str, after: str, count: int) -> list[str]:
    """The next times of a cron after an instant, in UTC."""
    found: list[str] = []
    for _ in range(count):
        at: datetime = world.owner.one(
            "select private.next_time(private.parse_cron(%s), %s, %s::timestamptz) at time zone 'UTC'",
            cron,
            zone,
            after,
        )
        after = f"{at:%Y-%m-%d %H:%M}Z"
        found.append(f"{at:%Y-%m-%d %H:%M}")
    return found


@pytest.mark.parametrize(
    ("cron", "after", "times"),
    [
        ("30 7 * * 1-5", "2026-11-13 08:00Z", ["2026-11-16 07:30", "2026-11-17 07:30"]),
        ("0 4 1 * *", "2026-11-15 00:00Z", ["2026-12-01 04:00", "2027-01-01 04:00"]),
        ("0 0 29 2 *", "2026-01-01 00:00Z", ["2028-02-29 00:00", "2032-02-29 00:00"]),
        ("0 0 13 * fri", "2026-11-14 00:00Z", ["2026-11-20 00:00", "2026-11-27 00:00", "2026-12-04 00:00"]),
        ("*/20 22-23 * * 7", "2026-11-15 22:30Z", ["2026-11-15 22:40", "2026-11-15 23:00", "2026-11-15 23:20"]),
        ("@daily", "2026-12-31 12:00Z", ["2027-01-01 00:00"]),
        ("0 12 1-7/3 jan,jul *", "2026-12-31 12:00Z", ["2027-01-01 12:00", "2027-01-04 12:00", "2027-01-07 12:00", "2027-07-01 12:00"]),
    ],
)  # fmt: skip
def test_the_next_times_are_those_of_cron(world: World, cron: str, after: str, times: list[str]) -> None:
    assert next_times(world, cron, "UTC", after, len(times)) == times


# In Lisbon the clocks go from 01:00 to 02:00 on 29 March 2026 and from 02:00 to 01:00 on 25 October 2026.
@pytest.mark.parametrize(
    ("cron", "after", "times"),
    [
        # Doubled: once, at the first; and the day after at the same time of the wall.
        ("30 1 * * *", "2026-10-24 12:00Z", ["2026-10-25 00:30", "2026-10-26 01:30"]),
        # Left out: once, an hour later on the wall.
        ("30 1 * * *", "2026-03-28 12:00Z", ["2026-03-29 01:30", "2026-03-30 00:30"]),
        # 07:30 stays 07:30.
        ("30 7 * * *", "2026-10-24 00:00Z", ["2026-10-24 06:30", "2026-10-25 07:30"]),
        # Every hour continues through both, and leaves none out.
        ("0 * * * *", "2026-10-24 23:30Z", ["2026-10-25 00:00", "2026-10-25 01:00", "2026-10-25 02:00"]),
        ("0 * * * *", "2026-03-28 23:30Z", ["2026-03-29 00:00", "2026-03-29 01:00", "2026-03-29 02:00"]),
        ("*/30 * * * *", "2026-10-25 00:20Z", ["2026-10-25 00:30", "2026-10-25 01:00", "2026-10-25 01:30", "2026-10-25 02:00"]),
    ],
)  # fmt: skip
def test_clocks_change_and_nothing_runs_twice_or_never(world: World, cron: str, after: str, times: list[str]) -> None:
    assert next_times(world, cron, LISBON, after, len(times)) == times


def test_half_an_hours_change_is_a_change(world: World) -> None:
    # Lord Howe goes back by 30 minutes, from 02:00 to 01:30, on 5 April 2026.
    assert next_times(world, "45 1 * * *", "Australia/Lord_Howe", "2026-04-04 00:00Z", 2) == [
        "2026-04-04 14:45",
        "2026-04-05 15:15",
    ]


@pytest.mark.parametrize(
    ("cron", "words"),
    [
        ("0 2 * * *", "Every day at 02:00"), ("30 7 * * 1-5", "Weekdays at 07:30"), ("0 4 1 * *", "1st of the month at 04:00"),
        ("0 */6 * * *", "Every 6 hours"), ("*/10 * * * *", "Every 10 minutes"), ("0 6 * * mon", "Mondays at 06:00"),
        ("15 * * * *", "Every hour at :15"), ("0 6 * * 0,6", "Weekends at 06:00"), ("@daily", "Daily"),
        ("0 1 13 * 5", "0 1 13 * 5"), ("5 4 1,15 * *", "5 4 1,15 * *"),
    ],
)  # fmt: skip
def test_times_in_words(world: World, cron: str, words: str) -> None:
    assert world.owner.one("select private.cron_words(%s)", cron) == words


@pytest.mark.parametrize(
    ("cron", "words"),
    [
        ("", FIVE_FIELDS), ("* * * *", FIVE_FIELDS), ("* * * * * *", FIVE_FIELDS),
        *((cron, f'The {field} of "{cron}" cannot be read.') for cron, field in [
            ("60 * * * *", "minute"), ("* 24 * * *", "hour"), ("* * 0 * *", "day"), ("* * * 13 *", "month"), ("* * * * 8", "weekday"),
            ("*/0 * * * *", "minute"), ("5-1 * * * *", "minute"), ("a b c d e", "minute"), ("1,,2 * * * *", "minute"),
            ("* * * foo *", "month"),
        ]),
        ("0 0 30 2 *", '"0 0 30 2 *" never comes.'),
    ],
)  # fmt: skip
def test_a_wrong_cron_is_refused_by_the_name_of_its_field(org: Organization, cron: str, words: str) -> None:
    org.module("a/one")
    with refused("RY422", words):
        org.owner.call("preview_schedule", p_org=org.id, p_cron=cron, p_zone="UTC")
    with refused("RY422", words):
        schedule(org, "a", cron=cron)


@pytest.mark.parametrize("zone", ["", "Nowhere", "Nowhere5", "+05", "posix/UTC", "europe/lisbon; drop table"])
def test_an_unknown_zone_is_refused(org: Organization, zone: str) -> None:
    with refused("RY422", f'There is no time zone "{zone}".'):
        org.owner.call("preview_schedule", p_org=org.id, p_cron="0 2 * * *", p_zone=zone)


def schedule(org: Organization, path: str, **spec: Any) -> str:
    made = org.owner.call(
        "create_schedule", p_org=org.id, p_spec={"path": path, "type": "DRIFT", "cron": "0 2 * * *", **spec}
    )
    return str(made["id"])


def make_due(world: World, org: Organization, ago: str = "1 hour") -> None:
    world.owner.connection.execute(
        "update public.schedules set next_at = now() - %s::interval where org_id = %s", [ago, org.id]
    )


def jobs(org: Organization) -> list[Any]:
    return org.owner.rows(
        "select module_path, type::text, created_by_label, priority from public.provision_jobs order by module_path, id"
    )


def test_missed_times_start_one_job_per_module_that_names_its_schedule(world: World, org: Organization) -> None:
    org.module("a/one"), org.module("a/two"), org.module("b/three")
    schedule(org, "a", cron="*/5 * * * *")
    schedule(org, "b/three", type="PLAN", cron="0 2 * * *", zone=LISBON)
    make_due(world, org)
    for _ in range(3):
        world.sweep()
    assert jobs(org) == [
        ("a/one", "DRIFT", "schedule (Every 5 minutes)", 200),
        ("a/two", "DRIFT", "schedule (Every 5 minutes)", 200),
        ("b/three", "PLAN", "schedule (Every day at 02:00)", 200),
    ]
    assert org.owner.rows("select next_at > now() from public.schedules") == [True, True]
    actors = org.owner.rows("select distinct actor_kind::text, reason from public.job_events where event = 'enqueued'")
    assert actors == [("system", "By schedule")]


def test_a_run_leaves_out_modules_whose_last_one_is_not_finished(world: World, org: Organization) -> None:
    org.module("a/one"), org.module("a/two")
    runner = org.runner("r", is_assigned_to_all_modules=True)
    made = schedule(org, "a")
    make_due(world, org)
    world.sweep()
    runner.finish(runner.claim_one())
    make_due(world, org)
    world.sweep()
    assert sorted(path for path, *_ in jobs(org)) in (["a/one", "a/one", "a/two"], ["a/one", "a/two", "a/two"])
    make_due(world, org)
    world.sweep()
    row = org.owner.one("select last_note from public.schedules where id = %s", made)
    assert len(jobs(org)) == 3
    assert row == "Skipped: the run before it is not finished."


def test_a_schedule_without_modules_reports_it(world: World, org: Organization) -> None:
    org.group("empty")
    schedule(org, "empty")
    make_due(world, org)
    world.sweep()
    assert org.owner.one("select last_note from public.schedules") == "There is no module at this path."


def test_clocks_that_jump_run_nothing_twice_and_lose_nothing(world: World, org: Organization) -> None:
    org.module("a/one")
    schedule(org, "a/one")
    # The clock was years ahead when it ran, and is right again: the schedule would wait for that year.
    world.owner.connection.execute(
        "update public.schedules set last_run_at = now() + interval '5 years', next_at = now() + interval '5 years' where org_id = %s",
        [org.id],
    )
    # Periodic work ran in that future, too.
    world.owner.connection.execute("update private.clocks set ran_at = now() + interval '5 years'")
    assert world.owner.one("select private.is_due('sweep', interval '5 seconds')") is True
    world.sweep()
    assert org.owner.one("select next_at < now() + interval '25 hours' from public.schedules") is True
    assert jobs(org) == []
    # It was set back by an hour after a run: a schedule that ran is not due again.
    make_due(world, org, "1 second")
    world.sweep()
    world.owner.connection.execute(
        "update public.schedules set last_run_at = now() + interval '1 hour' where org_id = %s", [org.id]
    )
    world.sweep()
    assert len(jobs(org)) == 1


@pytest.mark.parametrize(("ahead", "is_counted_again"), [("6 hours", True), ("1 minute", False)])
def test_a_schedule_is_not_silent_after_the_clock_was_set_back(
    world: World, org: Organization, ahead: str, is_counted_again: bool
) -> None:
    org.module("a/one")
    schedule(org, "a/one", cron="*/10 * * * *")
    world.owner.connection.execute(
        "update public.schedules set last_run_at = now() + %s::interval, next_at = now() + %s::interval + interval '1 hour'"
        " where org_id = %s",
        [ahead, ahead, org.id],
    )
    world.sweep()
    assert org.owner.one("select next_at <= now() + interval '10 minutes' from public.schedules") is is_counted_again
    assert jobs(org) == []


def test_a_thousand_due_at_once_come_after_a_persons_plan(fresh_world: World) -> None:
    world = fresh_world
    org = world.organization()
    world.owner.connection.execute(
        """with g as (insert into public.groups (org_id, path) values (%(org)s, 'storm') returning id),
          m as (insert into public.modules (org_id, group_id, group_path, name, path)
            select %(org)s, g.id, 'storm', 'm' || n, 'storm/m' || n from g, generate_series(1, 1000) as n returning path)
          insert into public.schedules (org_id, path, type, cron, zone, next_at, created_by_label)
          select %(org)s, path, 'DRIFT', '0 2 * * *', 'UTC', now() - interval '1 minute', 'x' from m""",
        {"org": org.id},
    )
    placed = [org.owner.one("select count(*) from public.provision_jobs")]
    for _ in range(30):
        world.sweep()
        placed.append(org.owner.one("select count(*) from public.provision_jobs"))
        if placed[-1] == 1000:
            break
    # Spread over sweeps, which are ten seconds apart: minutes, and never more than fifty at a time.
    assert placed[-1] == 1000
    assert max(after - before for before, after in pairwise(placed)) == 50
    mine = org.enqueue("people/plan")
    runner = org.runner("r", is_assigned_to_all_modules=True, capacity=2)
    assert runner.claim_one()["id"] == mine
    assert org.owner.one("select count(*) from public.job_sets") == 1000


def test_the_author_of_a_schedule_cannot_approve_its_apply(world: World, org: Organization) -> None:
    org.module("a/one", approvals_required=1)
    operator = org.member("operator")
    spec = {"path": "a/one", "type": "APPLY", "cron": "0 2 * * *"}
    operator.call("create_schedule", p_org=org.id, p_spec=spec)
    make_due(world, org)
    world.sweep()
    job = org.owner.one("select id from public.provision_jobs where status = 'AWAITING_APPROVAL'")
    with refused("RY403", "You requested this job"):
        operator.call("approve_job", p_job=job, p_decision="approve")
    org.owner.call("approve_job", p_job=job, p_decision="approve")


LOST = {
    "left": ("operator", "APPLY", "job.apply"),
    "role reduced": ("operator", "APPLY", "job.apply"),
    "may not destroy": ("admin", "DESTROY", "schedule.destroy"),
    "may not plan": ("operator", "DRIFT", "job.plan"),
    "binding removed": ("viewer", "PLAN", "job.apply"),
    "taken out of a team": ("viewer", "APPLY", "job.apply"),
    "own role changed": ("viewer", "APPLY", "job.apply"),
}


@pytest.mark.parametrize("way", LOST)
def test_a_schedule_whose_author_lost_the_right_is_paused(world: World, org: Organization, way: str) -> None:
    role, operation, verb = LOST[way]
    org.module("a/one")
    author, team = org.member(role), org.owner.call("create_team", p_org=org.id, p_name="Net")["id"]
    member = {"p_org": org.id, "p_user": author.id}
    org.owner.call("set_role", p_org=org.id, p_name="runs", p_verbs="{schedule.write,job.apply}")
    subject = {"p_kind": "member", "p_subject": author.id}
    if way == "taken out of a team":
        org.owner.call("set_team_member", p_team=team, p_user=author.id, p_is_member=True)
        subject = {"p_kind": "team", "p_subject": team}
    if role == "viewer":
        name = "runs" if way == "own role changed" else "operator"
        bound = org.owner.call("grant_role", p_org=org.id, p_path="a", p_role=name, **subject)["id"]
    spec = {"path": "a/one", "type": operation, "cron": "0 2 * * *"}
    made = author.call("create_schedule", p_org=org.id, p_spec=spec)["id"]
    make_due(world, org)
    world.sweep()
    assert len(jobs(org)) == 1, "as long as they have the right"
    {
        "left": lambda: org.owner.call("remove_member", **member),
        "role reduced": lambda: org.owner.call("set_member_role", **member, p_role="viewer"),
        "may not destroy": lambda: org.owner.call("set_member_role", **member, p_role="operator"),
        "may not plan": lambda: org.owner.call("set_member_role", **member, p_role="viewer"),
        "binding removed": lambda: org.owner.call("revoke_role", p_binding=bound),
        "taken out of a team": lambda: org.owner.call(
            "set_team_member", p_team=team, p_user=author.id, p_is_member=False
        ),
        "own role changed": lambda: org.owner.call("set_role", p_org=org.id, p_name="runs", p_verbs="{schedule.write}"),
    }[way]()
    expect_paused(
        world,
        org,
        made,
        f"Paused: {author.email} has no {verb} at a/one any more. A member who has it turns it on again.",
    )


@pytest.mark.parametrize("way", ["removed", "disabled", "role removed", "binding removed"])
def test_a_schedule_of_a_service_account_that_lost_the_right_is_paused(
    world: World, org: Organization, way: str
) -> None:
    org.module("a/one")
    account = org.account(None if way == "binding removed" else "operator")
    named = {"p_account": account["id"]}
    if way == "binding removed":
        given = {"p_path": "a", "p_role": "operator", "p_kind": "account", "p_subject": account["id"]}
        bound = org.owner.call("grant_role", p_org=org.id, **given)["id"]
    spec = {"path": "a/one", "type": "APPLY", "cron": "0 2 * * *"}
    made = org.acting(account).call("create_schedule", p_org=org.id, p_spec=spec)["id"]
    make_due(world, org)
    world.sweep()
    assert len(jobs(org)) == 1, "as long as it has the right"
    {
        "removed": lambda: org.owner.call("remove_service_account", **named),
        "disabled": lambda: org.owner.call("update_service_account", **named, p_spec={"is_disabled": True}),
        "role removed": lambda: org.owner.call("update_service_account", **named, p_spec={"role": None}),
        "binding removed": lambda: org.owner.call("revoke_role", p_binding=bound),
    }[way]()
    name = org.owner.one("select created_by_label from public.schedules")
    expect_paused(
        world, org, made, f"Paused: {name} has no job.apply at a/one any more. A member who has it turns it on again."
    )


def expect_paused(world: World, org: Organization, schedule: str, words: str) -> None:
    """The schedule is due and runs nothing; its page, the audit log and the list have the words; somebody turns it on again."""
    world.owner.connection.execute("delete from public.job_sets where org_id = %s", [org.id])
    before = len(jobs(org))
    make_due(world, org)
    world.sweep()
    assert len(jobs(org)) == before
    (row,) = org.owner.call("list_schedules", p_org=org.id)
    assert (row["is_on"], row["reason"]) == (False, words)
    assert org.owner.one(
        "select target_id, actor_kind::text, detail ->> 'reason' from public.audit_events where action = 'schedule.paused'"
    ) == (schedule, "system", words)
    org.owner.call("update_schedule", p_schedule=schedule, p_spec={"is_on": True})
    make_due(world, org)
    world.sweep()
    assert len(jobs(org)) == before + 1


def test_a_schedule_waits_while_the_provider_has_not_confirmed_its_author(world: World, org: Organization) -> None:
    """Rights by a claim end at night where nobody signs in: that pauses nothing for good."""
    org.module("a/one")
    author, team = org.member("viewer"), org.owner.call("create_team", p_org=org.id, p_name="Net")["id"]
    org.owner.call("grant_role", p_org=org.id, p_path="a", p_role="operator", p_kind="team", p_subject=team)
    for query in (
        (
            "insert into private.sign_in_providers (org_id, provider, name, issuer, client_id) "
            "values (%(org)s, 'custom:' || replace(%(org)s::uuid::text, '-', ''), 'Acme', 'https://id.example', 'x')"
        ),
        "insert into private.sign_in_confirmations values (%(org)s, %(user)s, now())",
        "insert into public.team_members (team_id, org_id, user_id, is_claimed) values (%(team)s, %(org)s, %(user)s, true)",
    ):
        world.owner.connection.execute(query, {"org": org.id, "user": author.id, "team": team})
    author.call("create_schedule", p_org=org.id, p_spec={"path": "a/one", "type": "APPLY", "cron": "0 2 * * *"})
    confirm = "update private.sign_in_confirmations set confirmed_at = {} where user_id = %s"
    for confirmed_at, is_on, count in (("now() - interval '2 days'", True, 0), ("now()", True, 1), ("null", False, 1)):
        world.owner.connection.execute(confirm.format(confirmed_at), [author.id])
        world.owner.connection.execute("delete from public.job_sets where org_id = %s", [org.id])
        make_due(world, org)
        world.sweep()
        assert (org.owner.one("select is_on from public.schedules"), len(jobs(org))) == (is_on, count)
        if (is_on, count) == (True, 0):
            skipped = f"Skipped: the provider has not confirmed {author.email} lately."
            assert org.owner.one("select last_note from public.schedules") == skipped


def test_a_schedule_that_is_off_does_not_run_and_shows_its_reason(world: World, org: Organization) -> None:
    org.module("a/one")
    made = schedule(org, "a")
    org.owner.call("update_schedule", p_schedule=made, p_spec={"is_on": False, "reason": "Until the freeze ends"})
    make_due(world, org)
    world.sweep()
    assert jobs(org) == []
    listed = org.owner.call("list_schedules", p_org=org.id, p_path="a/one")
    assert [(row["is_on"], row["reason"], row["words"]) for row in listed] == [
        (False, "Until the freeze ends", "Every day at 02:00")
    ]
    run = org.owner.call("run_schedule", p_schedule=made)
    assert (run["total"], run["waiting"]) == (1, 1)
    org.owner.call("remove_schedule", p_schedule=made)
    assert org.owner.call("list_schedules", p_org=org.id) == []


def test_invalid_schedules_are_refused(org: Organization) -> None:
    org.module("a/one")
    operator = org.member("operator")
    for spec, code, words in [
        ({"path": "nowhere"}, "RY404", 'There is no module or group "nowhere".'),
        ({"type": "DEPLOY_WORKER"}, "RY422", "A schedule checks for drift, plans, applies or destroys."),
        ({"cron": "x"}, "RY422", FIVE_FIELDS),
        ({"cron": "0,30 0 * * *" + " " * 200 + "x"}, "RY422", "A time has at most 200 characters."),
        ({"zone": "x"}, "RY422", 'There is no time zone "x".'),
        ({"type": "DESTROY"}, "RY422", "A schedule destroys one module, not a group."),
        ({"colour": "red"}, "RY422", "Unknown option: colour."),
        ({"is_on": "x"}, "RY422", '"is_on" is not true or false.'),
        ({"type": "x"}, "RY422", "A field of the schedule has the wrong type."),
        ({"is_on": None}, "RY422", "A schedule is on or off."),
        ({"is_on": False, "reason": "x" * 501}, "RY422", '"reason" is not a text of 0 to 500 characters.'),
    ]:
        with refused(code, words):
            schedule(org, **{"path": "a", **spec})
    assert org.owner.call("list_schedules", p_org=org.id) == []
    with refused("RY403"):
        operator.call("create_schedule", p_org=org.id, p_spec={"path": "a/one", "type": "DESTROY", "cron": "0 2 * * *"})


@pytest.mark.parametrize(
    ("function", "arguments"),
    [("update_schedule", {"p_spec": {"is_on": False}}), ("remove_schedule", {}), ("run_schedule", {})],
)
def test_a_schedule_of_another_organisation_is_not_found(
    world: World, org: Organization, function: str, arguments: dict[str, Any]
) -> None:
    other = world.organization()
    other.module("a/one")
    made = schedule(other, "a")
    for unknown in (made, str(uuid.uuid4())):
        with refused("RY404", "There is no such schedule."):
            org.owner.call(function, p_schedule=unknown, **arguments)
    assert [row["is_on"] for row in other.owner.call("list_schedules", p_org=other.id)] == [True]


def test_running_it_again_before_it_is_finished_is_refused(org: Organization) -> None:
    org.module("a/one")
    made = schedule(org, "a")
    org.owner.call("run_schedule", p_schedule=made)
    with refused("RY409", "There is nothing to run: there is no module, or the run before is not finished."):
        org.owner.call("run_schedule", p_schedule=made)
    assert len(jobs(org)) == 1


def test_the_number_of_schedules_of_an_organisation_is_limited(world: World, org: Organization) -> None:
    org.module("a/one")
    world.owner.connection.execute(
        "insert into public.schedules (org_id, path, type, cron, zone, next_at, created_by_label)"
        " select %s, 'a', 'DRIFT', '0 2 * * *', 'UTC', now() + interval '1 day', 'x' from generate_series(1, 4999)",
        [org.id],
    )
    schedule(org, "a")
    with refused("RY413", "An organisation has at most 5,000 schedules."):
        schedule(org, "a")
