"""Each organisation numbers its own runs from 1; a plan and the apply that follows it are one run."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.db.test_confirmation import apply_of, plan, runner_of
from tests.db.world import Organization, World, refused


def number(world: World, job: int) -> int:
    return int(world.job(job)["number"])


def listed(org: Organization, **more: Any) -> list[tuple[int, str, str]]:
    rows = org.owner.call("list_jobs", p_org=org.id, p_sort="newest", **more)["rows"]
    return [(row["number"], row["type"], row["status"]) for row in rows]


def test_each_organisation_counts_from_one(world: World, org: Organization, other_org: Organization) -> None:
    mine = [number(world, org.enqueue("a/b")) for _ in range(2)]
    theirs = number(world, other_org.enqueue("a/b"))
    assert (mine, theirs, number(world, org.enqueue("a/b"))) == ([1, 2], 1, 3)


def test_an_apply_has_the_number_of_the_plan_that_it_follows(world: World, org: Organization) -> None:
    planned = plan(org, runner_of(org))
    following = apply_of(world, planned)
    assert (following["number"], world.job(planned)["is_followed"]) == (1, True)
    assert number(world, org.enqueue("a/b")) == 2


def test_a_plan_that_is_applied_by_hand_and_its_apply_are_one_run(world: World, org: Organization) -> None:
    planned = plan(org, runner_of(org), confirm=False)
    assert number(world, org.enqueue("a/b", "APPLY", plan_job_id=planned)) == number(world, planned)


def test_a_retry_and_a_second_apply_of_a_plan_are_runs_of_their_own(world: World, org: Organization) -> None:
    planned = plan(org, runner_of(org))
    first = apply_of(world, planned)
    org.owner.call("cancel_job", p_job=first["id"])
    again = org.owner.call("retry_job", p_job=first["id"])
    org.owner.call("cancel_job", p_job=again["id"])
    second = org.enqueue("a/b", "APPLY", plan_job_id=planned)
    assert [number(world, each) for each in (planned, first["id"], again["id"], second)] == [1, 1, 2, 3]
    assert world.owner.rows(
        "select reason from public.job_events where job_id = %s and event = 'enqueued'", again["id"]
    ) == ["Retry of job 1."]


def test_a_list_has_a_run_once_with_its_plan(org: Organization) -> None:
    runner = runner_of(org)
    plan(org, runner)
    assert listed(org) == [(1, "APPLY", "AWAITING_APPROVAL")]
    assert listed(org, p_filters={"module_id": org.modules["a/b"]}) == listed(org, p_search="1") == listed(org)
    assert listed(org, p_filters={"worker_id": runner.worker_id}) == [(1, "PLAN", "SUCCEEDED")]
    answer = org.owner.call("list_jobs", p_org=org.id)
    shown = answer["rows"][0]["plan"]
    assert (shown["status"], shown["plan_summary"]) == ("SUCCEEDED", {"has_changes": True, "create": 1})
    assert (answer["total"], answer["counts"]) == (1, {"AWAITING_APPROVAL": 1})


def test_a_run_is_found_by_its_number(org: Organization, other_org: Organization) -> None:
    plan(org, runner_of(org))
    viewer = org.member("viewer")
    phases = viewer.call("job_by_number", p_org=org.id, p_number=1)
    assert [(each["type"], each["number"]) for each in phases] == [("PLAN", 1), ("APPLY", 1)]
    assert viewer.call("job_by_number", p_org=org.id, p_number=2) == []
    with refused("RY404"):
        other_org.owner.call("job_by_number", p_org=org.id, p_number=1)


def test_many_jobs_have_numbers_in_the_order_of_their_modules(world: World, org: Organization) -> None:
    modules = [org.module(f"many/m{place}") for place in range(30)]
    named = "{" + ",".join(modules) + "}"
    made = org.owner.call("enqueue_jobs", p_org=org.id, p_type="PLAN", p_modules=named)
    assert [(row["number"], row["module_id"]) for row in made] == list(enumerate(modules, start=1))


def test_simultaneous_requests_do_not_wait_for_each_other_and_share_no_number(world: World, org: Organization) -> None:
    org.module("slow/a")
    people = [org.member("operator") for _ in range(4)]
    modules = [org.module(f"quick/m{place}") for place in range(4)]
    with world.owner.connection.transaction():
        # Another transaction has taken a number and is not done.
        world.owner.connection.execute(
            """insert into public.provision_jobs (org_id, type, status, module_id, module_path, finished_at)
              values (%s, 'PLAN', 'SUCCEEDED', %s, 'slow/a', now())""",
            [org.id, org.modules["slow/a"]],
        )
        with ThreadPoolExecutor(4) as pool:
            asked = pool.map(
                lambda each: each[0].call("enqueue_job", p_org=org.id, p_type="PLAN", p_module=each[1]),
                zip(people, modules, strict=True),
            )
            assert {job["number"] for job in asked} == {2, 3, 4, 5}


def test_no_two_runs_share_a_number(world: World, org: Organization) -> None:
    job = world.job(org.enqueue("a/b"))
    with refused("23505"):
        world.owner.connection.execute(
            """insert into public.provision_jobs (org_id, number, type, module_id, module_path)
              values (%s, %s, 'PLAN', %s, 'a/b')""",
            [org.id, job["number"], org.modules["a/b"]],
        )


def test_a_restored_organisation_counts_on(world: World, org: Organization) -> None:
    last = number(world, org.enqueue("a/b"))
    counter = world.owner.one("select private.job_counter(%s)::text", org.id)
    world.owner.connection.execute(f"drop sequence {counter}")
    assert number(world, org.enqueue("a/b")) == last + 1


def test_a_counter_is_removed_with_its_organisation(world: World) -> None:
    org = world.organization()
    org.enqueue("a/b")
    counter = world.owner.one("select private.job_counter(%s)::text", org.id)
    world.owner.connection.execute("delete from public.organizations where id = %s", [org.id])
    assert world.owner.one("select to_regclass(%s)", counter) is None


def test_the_audit_log_has_the_number(org: Organization) -> None:
    jobs = [org.enqueue("a/b") for _ in range(2)]
    org.owner.call("cancel_job", p_job=jobs[-1])
    cancelled = "select target_id from public.audit_events where org_id = %s and action = 'job.cancelled'"
    assert org.owner.rows(cancelled, org.id) == ["2"]


def test_plans_with_changes_of_a_set_are_listed_also_when_their_applies_follow(org: Organization) -> None:
    runner = org.runner("r", is_assigned_to_all_modules=True, capacity=50)
    for path in ("set/changed", "set/followed", "set/same"):
        org.module(path, **({"auto_apply": True} if path == "set/followed" else {}))
    made = org.owner.call("start_set", p_org=org.id, p_type="PLAN", p_path="set")["id"]
    for job in runner.claim(9):
        runner.finish(job, p_plan_summary={"has_changes": job["module_path"] != "set/same"})
    org.enqueue("set/changed", "OUTPUT")
    answer = org.owner.call("list_jobs", p_org=org.id, p_filters={"changed_in": made})
    assert {(row["module_path"], row["type"]) for row in answer["rows"]} == {
        ("set/changed", "PLAN"),
        ("set/followed", "APPLY"),
    }
    assert answer["total"] == 2
