"""States that could not be stored: a runner hands them over, and a person decides what becomes of each."""

import json

import pytest

from tests.db.test_state import body, runner, which
from tests.db.world import Organization, Runner, World, refused

__all__ = ["runner"]


def keep(runner: Runner, job: dict[str, object], text: str, number: int = 1) -> dict[str, bool]:
    return runner.call(
        "worker_state_keep",
        **which(job),
        p_number=number,
        p_body=text,
        p_written_at="2026-01-01T00:00:00Z",
        p_reason="released",
    )


@pytest.fixture
def released(world: World, org: Organization, runner: Runner) -> dict[str, object]:
    """A job that was released by a person while its runner continued to write."""
    job_id = org.enqueue("a/b", "APPLY")
    job = runner.claim_one()
    runner.report(job, "APPLY")
    runner.call("worker_state_put", **which(job), p_body=body(1))
    world.lose(runner)
    org.owner.call("resolve_attention", p_job=job_id, p_action="mark_failed")
    with refused("RY410"):
        runner.call("worker_state_put", **which(job), p_body=body(2))
    return job


def test_a_state_that_may_not_be_stored_is_kept_once_and_listed_without_its_text(
    org: Organization, runner: Runner, released: dict[str, object]
) -> None:
    for _ in range(2):
        assert keep(runner, released, body(2, secret="s")) == {"is_stored": False}
    assert keep(runner, released, body(1), 2) == {"is_stored": True}
    (listed,) = org.member("viewer").call("kept_states", p_job=released["id"])
    assert (listed["serial"], listed["number"], listed["reason"], listed["stored_at"]) == (2, 1, "released", None)
    assert "body" not in listed
    assert listed["size"] == len(body(2, secret="s"))


def test_a_runner_learns_whether_an_attempt_may_have_written_a_state_without_showing_it(
    world: World, org: Organization, runner: Runner, released: dict[str, object]
) -> None:
    def is_known(at: str) -> bool:
        when = world.owner.one(f"select {at}")
        return bool(
            runner.call("worker_state_keep", **which(released), p_number=1, p_body=None, p_written_at=when)["is_known"]
        )

    assert is_known("now()")
    assert not is_known("now() - interval '1 day'")
    assert not is_known("now() + interval '1 day'")
    assert not is_known("null::timestamptz")
    assert org.owner.call("kept_states", p_job=released["id"]) == []
    with refused("RY404"):
        org.runner("other").call("worker_state_keep", **which(released), p_number=1, p_body=None)


def test_a_person_stores_a_kept_state_on_purpose_and_the_next_job_begins_from_it(
    org: Organization, runner: Runner, released: dict[str, object]
) -> None:
    keep(runner, released, body(2, a=1))
    (listed,) = org.owner.call("kept_states", p_job=released["id"])
    assert org.owner.call("kept_state", p_id=listed["id"])["body"] == body(2, a=1)
    assert org.owner.call("store_kept_state", p_id=listed["id"]) == {"serial": 2}
    with refused("RY409", "Somebody has decided about this state already."):
        org.owner.call("store_kept_state", p_id=listed["id"])
    assert org.owner.one("select count(*) from public.audit_events where action in ('state.read', 'state.stored')") == 2
    org.enqueue("a/b")
    runner.heartbeat()
    assert runner.call("worker_state_get", **which(runner.claim_one()))["body"] == body(2, a=1)


def test_an_older_kept_state_becomes_the_newest_when_it_is_stored(
    org: Organization, runner: Runner, released: dict[str, object]
) -> None:
    keep(runner, released, body(1, a=1))
    (listed,) = org.owner.call("kept_states", p_job=released["id"])
    assert org.owner.call("store_kept_state", p_id=listed["id"]) == {"serial": 2}
    stored = org.owner.call("state_version", p_module=org.modules["a/b"], p_serial=2)
    assert json.loads(stored["body"]) == {"serial": 2, "lineage": "l", "a": 1}


def test_kept_states_are_the_admins_to_read_store_and_discard(
    world: World, org: Organization, runner: Runner, released: dict[str, object]
) -> None:
    keep(runner, released, body(2))
    (listed,) = org.owner.call("kept_states", p_job=released["id"])
    other = world.organization()
    for name in ("kept_state", "store_kept_state", "discard_kept_state"):
        with refused("RY403"):
            org.member("operator").call(name, p_id=listed["id"])
        with refused("RY404"):
            other.owner.call(name, p_id=listed["id"])
        with refused("RY404"):
            org.owner.call(name, p_id="00000000-0000-4000-8000-000000000000")
    with refused("RY404"):
        other.owner.call("kept_states", p_job=released["id"])
    assert org.owner.call("discard_kept_state", p_id=listed["id"]) == {"discarded": True}
    with refused("RY409"):
        org.owner.call("kept_state", p_id=listed["id"])


def test_only_a_runner_that_had_the_attempt_may_hand_over_its_state(
    org: Organization, runner: Runner, released: dict[str, object]
) -> None:
    with refused("RY404", "Attempt 1 of job"):
        keep(org.runner("r2", is_assigned_to_all_modules=True), released, body(2))
    with refused("RY422"):
        keep(runner, released, "no json")
    with refused("RY422", "A kept state needs the number that it had in its attempt."):
        keep(runner, released, body(2), 0)


def test_a_kept_state_is_not_stored_under_a_running_job(
    org: Organization, runner: Runner, released: dict[str, object]
) -> None:
    keep(runner, released, body(2))
    (listed,) = org.owner.call("kept_states", p_job=released["id"])
    org.enqueue("a/b")
    runner.heartbeat()
    runner.claim_one()
    with refused("RY423", "A job is using the module's state."):
        org.owner.call("store_kept_state", p_id=listed["id"])


def test_a_kept_state_is_not_stored_while_a_runner_may_still_use_the_state(
    world: World, org: Organization, runner: Runner, released: dict[str, object]
) -> None:
    keep(runner, released, body(2))
    (listed,) = org.owner.call("kept_states", p_job=released["id"])
    held = org.enqueue("a/b", "APPLY")
    runner.heartbeat()
    runner.report(runner.claim_one(), "APPLY")
    world.lose(runner)
    with refused("RY423", "A job is using the module's state."):
        org.owner.call("store_kept_state", p_id=listed["id"])
    org.owner.call("resolve_attention", p_job=held, p_action="mark_failed")
    assert org.owner.call("store_kept_state", p_id=listed["id"]) == {"serial": 2}


def test_a_kept_state_with_a_serial_out_of_reach_is_not_stored(
    org: Organization, runner: Runner, released: dict[str, object]
) -> None:
    keep(runner, released, body(2**63 - 1))
    (listed,) = org.owner.call("kept_states", p_job=released["id"])
    with refused("RY422", " is not between 0 and "):
        org.owner.call("store_kept_state", p_id=listed["id"])


@pytest.mark.parametrize("second", ["store_kept_state", "discard_kept_state"])
@pytest.mark.parametrize("first", ["store_kept_state", "discard_kept_state"])
def test_the_second_of_two_simultaneous_decisions_about_a_kept_state_is_refused(
    world: World, org: Organization, runner: Runner, released: dict[str, object], first: str, second: str
) -> None:
    keep(runner, released, body(2))
    (listed,) = org.owner.call("kept_states", p_job=released["id"])
    admin = org.member("admin")
    decided = world.during(
        org.owner, lambda: org.owner.call(first, p_id=listed["id"]), lambda: admin.call(second, p_id=listed["id"])
    )
    with refused("RY409", "Somebody has decided about this state already."):
        decided.result()


def test_a_job_has_room_for_a_thousand_states_that_wait_for_a_decision(
    world: World, org: Organization, runner: Runner, released: dict[str, object]
) -> None:
    keep(runner, released, body(2))
    world.owner.connection.execute(
        "insert into private.kept_states (org_id, module_id, job_id, attempt, number, body, sha256, worker_name, written_at)"
        " select org_id, module_id, job_id, attempt, n, '', '', worker_name, now()"
        " from private.kept_states, generate_series(2, 1000) as n where job_id = %s",
        [released["id"]],
    )
    with refused("RY429", "wait for a decision, which is the limit."):
        keep(runner, released, body(3), 1001)
    assert keep(runner, released, body(2)) == {"is_stored": False}, "it is kept already"
    (first,) = world.owner.rows("select id from private.kept_states where job_id = %s and number = 1", released["id"])
    org.owner.call("discard_kept_state", p_id=first)
    assert keep(runner, released, body(3), 1001) == {"is_stored": False}
