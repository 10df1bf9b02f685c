"""Sets: many jobs as one thing, its progress, and the drift that a job found in a module."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from tests.db.world import Caller, Organization, Runner, World, refused
from tests.support.waiting import wait_until


def filled(org: Organization, count: int = 4) -> Runner:
    for number in range(count):
        org.module(f"pay/m{number}")
    org.module("other/one")
    return org.runner("r", is_assigned_to_all_modules=True, capacity=50)


def start(org: Organization, job_type: str = "PLAN", path: str = "pay", **options: Any) -> dict[str, Any]:
    made: dict[str, Any] = org.owner.call("start_set", p_org=org.id, p_type=job_type, p_path=path, p_options=options)
    return made


def counts(org: Organization, made: dict[str, Any]) -> tuple[Any, ...]:
    now = org.owner.call("set_progress", p_set=made["id"])
    return tuple(now[name] for name in ("total", "done", "failed", "running", "waiting", "status"))


def test_plan_all_below_a_group_is_one_thing_with_its_progress(world: World, org: Organization) -> None:
    runner = filled(org)
    made = start(org)
    assert counts(org, made) == (4, 0, 0, 0, 4, "RUNNING")
    first, second, *_ = runner.claim(3)
    assert counts(org, made) == (4, 0, 0, 3, 1, "RUNNING")
    runner.finish(first, p_plan_summary={"update": 1, "has_changes": True})
    runner.finish(second, "FAILED", p_error={"code": "x", "message": "the provider could not sign in"})
    now = org.owner.call("set_progress", p_set=made["id"])
    assert (now["done"], now["failed"], now["with_changes"], now["seconds_left"] is not None) == (2, 1, 1, True)
    number = org.world.job(second["id"])["number"]
    failure = {
        "job_id": second["id"],
        "job_number": number,
        "module_path": second["payload"]["module"]["path"],
        "status": "FAILED",
    }
    assert now["failures"] == [{**failure, "message": "the provider could not sign in"}]
    with refused("RY409", "Such a set is running here."):
        start(org)
    assert start(org, "DRIFT")["total"] == 4


def test_a_persons_own_job_comes_before_those_of_a_set(org: Organization) -> None:
    runner = filled(org)
    start(org)
    mine = org.enqueue("other/one")
    assert runner.claim_one()["id"] == mine


def test_the_rest_of_a_set_can_be_cancelled_and_running_jobs_finish(world: World, org: Organization) -> None:
    runner = filled(org)
    made = start(org)
    running = runner.claim_one()
    org.owner.call("cancel_set", p_set=made["id"])
    assert counts(org, made) == (4, 3, 0, 1, 0, "RUNNING")
    runner.finish(running)
    world.sweep()
    assert counts(org, made) == (4, 4, 0, 0, 0, "CANCELLED")
    with refused("RY409", "Nothing of this set waits or runs."):
        org.owner.call("cancel_set", p_set=made["id"])
    assert start(org)["total"] == 4


def test_a_retry_of_many_jobs_needs_one_lock_for_all_their_states(world: World, org: Organization) -> None:
    runner = filled(org, 110)
    made = start(org)
    for _ in range(3):
        world.sweep()
        for job in runner.claim(50):
            runner.finish(job, "FAILED")
    world.sweep()
    connection = org.owner.connection
    with connection.transaction():
        org.owner.call("retry_set", p_set=made["id"])
        held = "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"
        assert org.owner.one(held) < 20
    assert counts(org, made)[4] == 110


def test_retries_replace_the_failed_jobs_of_a_set(world: World, org: Organization) -> None:
    runner = filled(org)
    made = start(org)
    for number, job in enumerate(runner.claim(4)):
        runner.finish(job, "FAILED" if number < 2 else "SUCCEEDED")
    world.sweep()
    assert counts(org, made) == (4, 4, 2, 0, 0, "FAILED")
    org.owner.call("retry_set", p_set=made["id"])
    assert counts(org, made) == (4, 2, 0, 0, 2, "RUNNING")
    for job in runner.claim(4):
        runner.finish(job)
    assert counts(org, made) == (4, 4, 0, 0, 0, "SUCCEEDED")
    with refused("RY409", "No job of this set failed"):
        org.owner.call("retry_set", p_set=made["id"])


def test_a_retry_on_the_jobs_own_page_counts_in_its_set(org: Organization) -> None:
    runner = filled(org, 1)
    made = start(org)
    failed = runner.claim_one()
    runner.finish(failed, "FAILED")
    org.owner.call("retry_job", p_job=failed["id"])
    assert counts(org, made) == (1, 0, 0, 0, 1, "RUNNING")


def test_a_retry_since_the_set_was_cancelled_stays_until_it_is_cancelled_again(world: World, org: Organization) -> None:
    filled(org, 2)
    made = start(org)
    org.owner.call("cancel_set", p_set=made["id"])
    world.sweep()
    cancelled = world.owner.rows("select job_id from private.set_members where set_id = %s", made["id"])[0]
    again = org.owner.call("retry_job", p_job=cancelled)["id"]
    world.sweep()
    assert world.status(again) == "QUEUED"
    org.owner.call("cancel_set", p_set=made["id"])
    assert world.status(again) == "CANCELLED"


def failed(org: Organization, runner: Runner, count: int) -> Any:
    """A set of so many jobs that all failed."""
    made = start(org)
    for job in runner.claim(count):
        runner.finish(job, "FAILED")
    return made["id"]


def test_two_simultaneous_retries_of_a_set_retry_each_job_once(world: World, org: Organization) -> None:
    made = failed(org, filled(org, 2), 2)
    retries = "select count(*) from public.provision_jobs where org_id = %s and retry_of is not null"

    def retry(caller: Caller) -> str | None:
        try:
            caller.call("retry_set", p_set=made)
        except psycopg.Error as error:
            return error.sqlstate
        return None

    claims = {"sub": org.owner.id, "email": org.owner.email}
    callers = [world.caller("authenticated", **claims) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool, psycopg.connect(world.database.url) as busy:
        busy.execute("select private.lock_state(%s, %s)", [org.id, org.modules["pay/m0"]])
        answers = pool.map(retry, callers)
        waiting = "select count(*) from pg_locks as l join pg_stat_activity as a using (pid) where not l.granted and a.datname"
        wait_until(lambda: world.owner.one(f"{waiting} = current_database()") == 2)
        busy.rollback()
        assert set(answers) == {None, "RY409"}
    assert world.owner.one(retries, org.id) == 2


def test_a_retry_of_a_set_waits_for_a_state_without_locking_the_set(world: World, org: Organization) -> None:
    """A person who retries one of its jobs has locked that state, and wants the set next."""
    made = failed(org, filled(org, 1), 1)
    job = world.owner.one("select job_id from private.set_members where set_id = %s", made)
    with ThreadPoolExecutor(1) as pool, psycopg.connect(world.database.url) as one:
        one.execute("select private.lock_state(%s, %s)", [org.id, org.modules["pay/m0"]])
        retried = pool.submit(org.owner.call, "retry_set", p_set=made)
        wait_until(world.is_anybody_waiting)
        one.execute("select from public.job_sets where id = %s for update nowait", [made])
        one.rollback()
        assert retried.result()["waiting"] == 1
    assert world.status(job) == "FAILED"


def test_a_job_that_cannot_be_retried_costs_the_rest_of_its_set_nothing(world: World, org: Organization) -> None:
    runner = filled(org, 2)
    made = failed(org, runner, 2)
    gone = org.worker("gone")
    org.owner.call("remove_worker", p_worker=gone)
    jobs = "update public.provision_jobs set pinned_worker_id = %s where org_id = %s and module_path = 'pay/m0'"
    world.owner.connection.execute(jobs, [gone, org.id])
    now = org.owner.call("retry_set", p_set=made)
    assert (now["failed"], now["waiting"]) == (1, 1)
    runner.finish(runner.claim_one())
    with refused("RY409", "No job of this set can be retried: The runner that it is pinned to"):
        org.owner.call("retry_set", p_set=made)


def test_the_same_key_is_the_same_set(org: Organization) -> None:
    filled(org)
    assert start(org, idempotency_key="k")["id"] == start(org, idempotency_key="k")["id"]


def test_a_module_that_can_have_no_job_is_a_failure_of_its_own(world: World, org: Organization) -> None:
    filled(org)
    gone = org.worker("gone")
    org.owner.call("update_module", p_module=org.modules["pay/m1"], p_spec={"pinned_worker_id": gone})
    org.owner.call("remove_worker", p_worker=gone)
    world.owner.connection.execute(
        "update public.modules set pinned_worker_id = %s where id = %s", [gone, org.modules["pay/m1"]]
    )
    now = org.owner.call("set_progress", p_set=start(org)["id"])
    assert (now["total"], now["failed"], now["waiting"]) == (4, 1, 3)
    assert [(one["module_path"], one["job_id"]) for one in now["failures"]] == [("pay/m1", None)]
    assert "was removed" in now["failures"][0]["message"]


def test_a_set_that_is_larger_than_a_call_is_placed_by_the_sweep(fresh_world: World) -> None:
    org = fresh_world.organization()
    fresh_world.owner.connection.execute(
        """with g as (insert into public.groups (org_id, path) values (%(org)s, 'big') returning id)
          insert into public.modules (org_id, group_id, group_path, name, path)
          select %(org)s, g.id, 'big', 'm' || n, 'big/m' || n from g, generate_series(1, 2020) as n""",
        {"org": org.id},
    )
    made = start(org, "DRIFT", "big")
    count = "select count(*) from public.provision_jobs"
    assert (made["total"], org.owner.one(count)) == (2020, 2000)
    fresh_world.sweep()
    assert org.owner.one(count) == 2020


def many_modules(world: World, org: Organization, count: int) -> None:
    """So many modules, and a set of all of them that has no job yet."""
    world.owner.connection.execute(
        """with g as (insert into public.groups (org_id, path) values (%(org)s, 'big') returning id),
          m as (insert into public.modules (org_id, group_id, group_path, name, path)
            select %(org)s, g.id, 'big', 'm' || n, 'big/m' || n from g, generate_series(1, %(count)s) as n returning id),
          s as (insert into public.job_sets (org_id, type, path, options, created_by_label)
            values (%(org)s, 'PLAN', 'big', '{"priority": 150}', 'x') returning id)
          insert into private.set_members (set_id, module_id, org_id) select s.id, m.id, %(org)s from s, m""",
        {"org": org.id, "count": count},
    )


def test_each_organisation_has_its_turn(fresh_world: World) -> None:
    """Two hundred jobs a sweep are those of four of them; the fifth does not wait until these have all of theirs."""
    for _ in range(5):
        many_modules(fresh_world, fresh_world.organization(), 600)
    served = "select count(distinct org_id) from public.provision_jobs"
    sweeps = 0
    while fresh_world.owner.one(served) < 5:
        sweeps += 1
        assert sweeps < 12
        assert fresh_world.sweep()["placed"] == 200


def test_a_sweep_cancels_five_hundred_jobs_of_all_sets(fresh_world: World) -> None:
    orgs = [fresh_world.organization() for _ in range(4)]
    for org in orgs:
        many_modules(fresh_world, org, 180)
    while fresh_world.sweep()["placed"]:
        pass
    fresh_world.owner.connection.execute("update public.job_sets set cancelled_at = now(), cancelled_by_label = 'x'")
    left = []
    for _ in range(2):
        fresh_world.sweep()
        left.append(fresh_world.owner.one("select count(*) from public.provision_jobs where status = 'QUEUED'"))
    assert left == [220, 0]
    assert fresh_world.owner.one("select bool_and(finished_at is not null) from public.job_sets")


def test_no_open_set_is_forgotten_behind_others(fresh_world: World) -> None:
    """A sweep looks at a thousand of them; here all but the newest wait for something."""
    org = fresh_world.organization()
    module = org.module("a/b")
    job = org.enqueue("a/b")
    fresh_world.owner.connection.execute(
        """with s as (insert into public.job_sets (org_id, type, path, created_by_label, created_at)
            select %(org)s, 'PLAN', '', 'x', now() - n * interval '1 minute' from generate_series(0, 1000) as n
            returning id, created_at)
          insert into private.set_members (set_id, module_id, org_id, job_id)
          select s.id, %(module)s, %(org)s, %(job)s from s where s.created_at < now()""",
        {"org": org.id, "module": module, "job": job},
    )
    closed = "select count(*) from public.job_sets where finished_at is not null"
    sweeps = 0
    while fresh_world.owner.one(closed) < 1:
        sweeps += 1
        assert sweeps < 6
        fresh_world.sweep()


def test_a_list_of_failures_has_their_first_words(org: Organization) -> None:
    runner = filled(org, 1)
    made = start(org)
    runner.finish(runner.claim_one(), "FAILED", p_error={"code": "x", "message": "word " * 1000})
    assert len(org.owner.call("set_progress", p_set=made["id"])["failures"][0]["message"]) == 500


def test_invalid_sets_are_refused(org: Organization) -> None:
    filled(org)
    org.group("empty")
    for job_type, path, options, code, words in [
        ("OUTPUT", "pay", {}, "RY422", "A set plans, applies or destroys its modules, or checks them for drift."),
        ("PLAN", "nowhere", {}, "RY404", 'There is no module or group "nowhere".'),
        ("PLAN", "empty", {}, "RY409", "There is no module below this group."),
        ("PLAN", "pay", {"plan_job_id": 1}, "RY422", "Unknown option"),
        ("PLAN", "pay", {"priority": 5000}, "RY422", '"priority" is not a whole number from 0 to 1000.'),
    ]:
        with refused(code, words):
            start(org, job_type, path, **options)
    assert org.owner.call("list_sets", p_org=org.id) == []


@pytest.mark.parametrize("function", ["set_progress", "cancel_set", "retry_set"])
def test_a_set_of_another_organisation_is_not_found(world: World, org: Organization, function: str) -> None:
    other = world.organization()
    filled(other)
    made = start(other)
    for unknown in (made["id"], str(uuid.uuid4())):
        with refused("RY404", "There is no such set."):
            org.owner.call(function, p_set=unknown)
    assert counts(other, made) == (4, 0, 0, 0, 4, "RUNNING")


@pytest.mark.parametrize("limit", [0, -1, 101, None])
def test_a_list_of_sets_has_a_length(org: Organization, limit: int | None) -> None:
    with refused("RY422", "A list has 1 to 100 sets."):
        org.owner.call("list_sets", p_org=org.id, p_limit=limit)


def drift(org: Organization, path: str) -> Any:
    return org.owner.one("select drift_since is not null, drift_resources from public.modules where path = %s", path)


def look(org: Organization, runner: Runner, job_type: str, summary: dict[str, Any] | None, **options: Any) -> None:
    org.enqueue("pay/m0", job_type, **options)
    runner.finish(runner.claim_one(), p_plan_summary=summary)


def test_a_module_has_drift_until_a_plan_finds_none(org: Organization) -> None:
    runner = filled(org, 1)
    found, none = {"update": 2, "delete": 1, "has_changes": True}, {"update": 0, "has_changes": False}
    look(org, runner, "DRIFT", found)
    assert drift(org, "pay/m0") == (True, 3)
    listed = org.owner.call("list_modules", p_org=org.id, p_filters={"drift": True})
    assert [(row["path"], row["drift_resources"]) for row in listed["rows"]] == [("pay/m0", 3)]
    since = org.owner.one("select drift_since from public.modules where path = 'pay/m0'")
    look(org, runner, "DRIFT", {"update": 1, "has_changes": True})
    assert org.owner.one("select drift_since, drift_resources from public.modules where path = 'pay/m0'") == (since, 1)
    # A plan with changes does not show drift; nor does a look at a part, or none at all.
    look(org, runner, "PLAN", found)
    look(org, runner, "DRIFT", none, targets=["a.b"])
    look(org, runner, "DRIFT", None)
    look(org, runner, "PLAN", none, destroy=True)
    assert drift(org, "pay/m0") == (True, 1)
    look(org, runner, "PLAN", none)
    assert drift(org, "pay/m0") == (False, None)
    look(org, runner, "PLAN", found, refresh_only=True)
    assert drift(org, "pay/m0") == (True, 3)
    # An output that no apply has written yet changes the state, and no resource.
    look(org, runner, "DRIFT", {**none, "has_changes": True, "outputs": [{"name": "id", "action": "create"}]})
    assert drift(org, "pay/m0") == (False, None)


def test_odd_summaries_are_no_drift_and_no_error(org: Organization) -> None:
    runner = filled(org, 1)
    for summary in ({}, {"has_changes": "x"}, {"has_changes": True, "update": "x", "delete": -1, "create": 10**9}):
        look(org, runner, "DRIFT", summary)
    assert drift(org, "pay/m0") == (False, None)
