"""The ledger: zeros after ordinary work and after losses, and each of its counts detects its own fault."""

from typing import Any

import pytest

from tests.db.world import Organization, Runner, World, sha256
from tests.faults.ledger import LEDGER

PROMISES = {
    "lost", "double_applied", "zombie_accepted", "log_gaps", "state_lost", "kept_aside", "called_failed", "eaten",
    "stuck", "unreplayable",
}  # fmt: skip


def ledger(world: World, org: Organization, since: str = "-infinity") -> dict[str, int]:
    found = world.owner.connection.execute(LEDGER, {"org": org.id, "since": since}).fetchone()
    assert found is not None
    return dict(found[0])


def broken(world: World, org: Organization) -> dict[str, int]:
    return {name: count for name, count in ledger(world, org).items() if name in PROMISES and count}


def applied(org: Organization, runner: Runner) -> dict[str, Any]:
    """An apply as runners do it: a phase, a state, a log, an end."""
    org.enqueue("a/b", "APPLY")
    job = runner.claim_one()
    about = {"p_job": job["id"], "p_attempt": job["attempt"]}
    runner.report(job, "APPLY")
    runner.call("worker_state_lock", **about, p_lock={"ID": "l"})
    body = '{"version":4,"serial":1,"lineage":"x"}'
    runner.call("worker_state_put", **about, p_lock_id="l", p_body=body)
    said = "Apply complete! Resources: 1 added\n"
    runner.append(job, (1, said))
    runner.finish(job, p_log={"last_seq": 1, "bytes": len(said), "sha256": sha256(said)})
    return job


@pytest.fixture
def runner(org: Organization) -> Runner:
    return org.runner("r1", is_assigned_to_all_modules=True)


def test_ordinary_work_and_a_lost_plan_leave_zeros(world: World, org: Organization, runner: Runner) -> None:
    applied(org, runner)
    plan = org.enqueue("a/c")
    runner.claim_one()
    world.lose(runner)
    runner.heartbeat()
    world.end_backoff(plan)
    runner.finish(runner.claim_one())
    counted = ledger(world, org)
    assert (counted["jobs"], counted["applies"]) == (2, 1)
    assert counted.keys() >= PROMISES
    assert broken(world, org) == {}


def test_the_ledger_counts_only_jobs_since_the_given_time(world: World, org: Organization, runner: Runner) -> None:
    applied(org, runner)
    assert ledger(world, org, "infinity")["jobs"] == 0


@pytest.mark.parametrize(
    ("promise", "tampering"),
    [
        ("lost", "delete from public.provision_jobs where id = %(job)s"),
        ("log_gaps", "delete from public.job_log_chunks where job_id = %(job)s"),
        ("state_lost", "delete from private.states where module_id = %(module)s"),
        (
            "called_failed",
            """update public.provision_jobs set status = 'FAILED' where id = %(job)s;
              update public.job_events set to_status = 'FAILED' where job_id = %(job)s and to_status = 'SUCCEEDED'""",
        ),
        ("unreplayable", "update public.provision_jobs set status = 'QUEUED' where id = %(job)s"),
        (
            "double_applied",
            """insert into public.job_events (org_id, job_id, attempt, actor_kind, actor_label, event, detail)
              select org_id, job_id, 2, actor_kind, actor_label, event, detail from public.job_events
              where job_id = %(job)s and event = 'phase'""",
        ),
        (
            "zombie_accepted",
            """insert into public.job_events (org_id, job_id, attempt, at, actor_kind, actor_label, event)
              values (%(org)s, %(job)s, 2, now() - interval '1 hour', 'system', 'system', 'claimed')""",
        ),
        (
            "eaten",
            """update public.provision_jobs set status = 'FAILED', error = '{"code": "disk"}' where id = %(job)s;
              update public.job_events set to_status = 'FAILED' where job_id = %(job)s and to_status = 'SUCCEEDED'""",
        ),
    ],
)
def test_a_broken_promise_is_counted(
    world: World, org: Organization, runner: Runner, promise: str, tampering: str
) -> None:
    job = applied(org, runner)
    module = org.modules["a/b"]
    # The database itself refuses most of this.
    for statement in ("alter table public.provision_jobs disable trigger guard", *tampering.split(";")):
        world.owner.connection.execute(statement, {"job": job["id"], "module": module, "org": org.id})
    assert broken(world, org).get(promise, 0) > 0


def test_a_running_job_whose_lease_has_expired_is_stuck(world: World, org: Organization, runner: Runner) -> None:
    org.enqueue("a/b")
    runner.claim_one()
    assert broken(world, org) == {}
    world.silence(runner, 600)
    world.owner.connection.execute("update private.live_jobs set lease_until = now() - interval '10 minutes'")
    assert broken(world, org) == {"stuck": 1}
