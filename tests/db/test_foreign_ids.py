"""Things of another organisation are answered like things that do not exist: same code, same words, same detail."""

import uuid
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.db.world import Organization, Runner, World, refused

NO_JOB = 999_999_999


def refusal(call: Callable[[], Any]) -> tuple[str | None, ...]:
    """Return the parts of a refusal that its caller sees."""
    with pytest.raises(psycopg.Error) as caught:
        call()
    said = caught.value.diag
    return caught.value.sqlstate, said.message_primary, said.message_detail, said.message_hint


def running_job(org: Organization) -> dict[str, Any]:
    runner = org.runner("holder", is_assigned_to_all_modules=True)
    org.enqueue("a/b", "APPLY")
    job = runner.claim_one()
    runner.report(job, "APPLY")
    return job


@pytest.fixture
def spy(other_org: Organization) -> Runner:
    return other_org.runner("spy")


def test_recovering_reveals_nothing_about_foreign_jobs(org: Organization, spy: Runner) -> None:
    foreign = running_job(org)
    named = [{"job": job, "attempt": 1} for job in (foreign["id"], NO_JOB)]
    answers = spy.call("worker_recover", p_running=named)["jobs"]
    assert [{key: row[key] for key in row if key != "job"} for row in answers] == [
        {"attempt": "1", "status": None, "action": "drop", "has_touched": None}
    ] * 2


def test_recovering_reports_the_status_of_a_runners_own_jobs(org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    job = org.enqueue("a/b")
    runner.finish(runner.claim_one())
    (answer,) = runner.call("worker_recover", p_running=[{"job": job, "attempt": 1}])["jobs"]
    assert (answer["status"], answer["action"]) == ("SUCCEEDED", "drop")


def test_a_shared_runner_is_notified_of_its_jobs(fresh_world: World) -> None:
    runner = fresh_world.connect_runner(fresh_world.shared_worker())
    mine, foreign = fresh_world.organization(), fresh_world.organization()
    job = mine.enqueue("a/b")
    runner.finish(runner.claim_one())
    other = running_job(foreign)
    rows = runner.call("worker_recover", p_running=[{"job": number, "attempt": 1} for number in (job, other["id"])])[
        "jobs"
    ]
    assert {int(row["job"]): row["status"] for row in rows} == {job: "SUCCEEDED", other["id"]: None}


CALLS: dict[str, dict[str, Any]] = {
    "worker_report": {"p_phase": "PLAN"},
    "worker_append_logs": {"p_chunks": [{"seq": 1, "body": "x"}]},
    "worker_finish": {"p_status": "SUCCEEDED"},
    "worker_return_job": {},
    "worker_job": {},
    "worker_state_get": {},
    "worker_state_put": {"p_body": "{}"},
    "worker_get_artifact": {"p_name": "x"},
    "worker_target_status": {},
}


def test_a_foreign_account_is_an_unknown_one(org: Organization, other_org: Organization) -> None:
    other_org.group("secret")
    org.group("mine")

    def answer(account: str) -> tuple[str | None, ...]:
        return refusal(lambda: org.worker("r1", service_account_id=account, assignments=["mine"]))

    unknown = answer(str(uuid.uuid4()))
    assert unknown[0] == "RY404"
    assert answer(other_org.account(path="secret")["id"]) == unknown


@pytest.mark.parametrize("function", CALLS)
def test_a_refusal_reveals_nothing_about_foreign_jobs(org: Organization, spy: Runner, function: str) -> None:
    foreign = running_job(org)["id"]

    def told(job: int) -> tuple[str | None, ...]:
        said = refusal(lambda: spy.call(function, p_job=job, p_attempt=1, **CALLS[function]))
        return tuple(text and text.replace(f"ob {job} ", "ob N ") for text in said)

    assert told(foreign) == told(NO_JOB)


def test_a_refusal_reports_the_status_of_a_runners_own_job(world: World, org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    org.enqueue("a/b")
    job = runner.claim_one()
    runner.finish(job)
    with refused("RY410", "is not this runner's any more") as caught:
        runner.report(job, "PLAN")
    assert '"status": "SUCCEEDED"' in str(caught.value.diag.message_detail)


def test_a_runner_names_a_thousand_attempts_at_most(spy: Runner) -> None:
    with refused("RY422", "Running jobs are a list of at most 1,000 jobs with their attempts."):
        spy.call("worker_recover", p_running=[{"job": number, "attempt": 1} for number in range(1, 1002)])


@pytest.mark.parametrize(
    ("function", "argument"), [("list_worker_tokens", "p_worker"), ("revoke_worker_token", "p_token")]
)
def test_foreign_tokens_are_unknown_ones(
    org: Organization, other_org: Organization, function: str, argument: str
) -> None:
    runner = org.runner("r1")
    known = {"p_worker": runner.worker_id, "p_token": runner.token_id}[argument]
    foreign = refusal(lambda: other_org.owner.call(function, **{argument: known}))
    unknown = refusal(lambda: other_org.owner.call(function, **{argument: str(uuid.uuid4())}))
    assert foreign == unknown
    assert foreign[0] == "RY404"
    assert runner.heartbeat()


@pytest.mark.parametrize(
    ("function", "more", "code"),
    [
        ("worker_report", {"p_phase": "PLAN"}, "RY410"),
        ("worker_return_job", {}, "RY410"),
        ("worker_finish", {"p_status": "SUCCEEDED"}, "RY404"),
    ],
)
def test_a_call_with_a_guessed_job_number_waits_for_no_lock(
    world: World, org: Organization, spy: Runner, function: str, more: dict[str, Any], code: str
) -> None:
    foreign = running_job(org)
    spy.connection.execute("set lock_timeout = '5s'")
    holder = world.database.connect("postgres")
    with holder.transaction():
        holder.execute("select from private.live_jobs where job_id = %s for update", [foreign["id"]])
        holder.execute(
            "select pg_advisory_xact_lock(private.lock_key('state', state_key::text)) from private.live_jobs where job_id = %s",
            [foreign["id"]],
        )
        with refused(code):
            spy.call(function, p_job=foreign["id"], p_attempt=foreign["attempt"], **more)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("APPLY", {}),
        ("DESTROY", {}),
        ("PLAN", {"bring_state": True}),
        ("PLAN", {"variables": {"zone": 1}}),
        ("PLAN", {}),
    ],
)
def test_a_job_of_a_foreign_module_reveals_nothing_of_the_module(
    world: World, org: Organization, other_org: Organization, kind: str, options: dict[str, Any]
) -> None:
    foreign, producer = other_org.module("a/hidden"), other_org.module("a/secret")
    other_org.owner.call(
        "set_dependency", p_consumer=foreign, p_producer=producer, p_options={"bindings": {"zone": "zone"}}
    )
    other_org.owner.call("lock_module", p_module=foreign, p_reason="before the merger")
    world.owner.connection.execute(
        "insert into private.states (module_id, serial, body, sha256) values (%s, 1, '{}', '')", [foreign]
    )

    def asks(module: str) -> tuple[str | None, ...]:
        code, words, _, hint = refusal(
            lambda: org.owner.call("enqueue_job", p_org=org.id, p_type=kind, p_module=module, p_options=options)
        )
        return code, words, hint

    assert asks(foreign) == asks(str(uuid.uuid4()))


def test_a_foreign_plan_has_no_number(org: Organization, other_org: Organization) -> None:
    module = org.module("a/b")
    org.enqueue("a/b")
    foreign = other_org.enqueue("a/c")
    assert other_org.owner.one("select number from public.provision_jobs where id = %s", foreign) != foreign
    with refused("RY422", f"Job {foreign} is not a finished plan of this module."):
        org.owner.call("enqueue_job", p_org=org.id, p_type="APPLY", p_module=module, p_options={"plan_job_id": foreign})
