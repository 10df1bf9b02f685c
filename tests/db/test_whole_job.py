"""A job from the request to its end, through the functions that each side calls."""

from tests.db.world import Organization, World, sha256


def test_a_job_passes_from_queued_to_succeeded_with_logs_and_state(world: World, org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    job_id = org.enqueue("platform/network", "APPLY")

    job = runner.claim_one()
    runner.report(job, "PLAN", p_steps=[{"name": "plan", "title": "Plan", "status": "RUNNING"}])
    text = "Plan: 1 to add\n"
    runner.append(job, (1, text))
    runner.call("worker_state_lock", p_job=job_id, p_attempt=1, p_lock={"ID": "lock-1"})
    runner.call(
        "worker_state_put", p_job=job_id, p_attempt=1, p_body='{"serial": 1, "lineage": "l"}', p_lock_id="lock-1"
    )
    runner.call("worker_state_unlock", p_job=job_id, p_attempt=1, p_lock_id="lock-1")
    log = {"last_seq": 1, "bytes": len(text), "sha256": sha256(text)}
    answer = runner.finish(job, p_plan_summary={"create": 1, "has_changes": True}, p_log=log)

    assert answer == {"job": job_id, "attempt": 1, "status": "SUCCEEDED", "missing": [], "is_late": False}
    row = world.job(job_id)
    assert (row["status"], row["worker_name"], row["plan_summary"]["create"]) == ("SUCCEEDED", "r1", 1)
    assert org.owner.rows("select body from public.job_log_chunks where job_id = %s", job_id) == [text]
    assert org.owner.call("state_info", p_module=row["module_id"])["serial"] == 1
    assert world.events(job_id) == ["enqueued", "claimed", "started", "phase", "succeeded"]


def test_events_replay_to_the_status(world: World, org: Organization) -> None:
    runner = org.runner("r1", is_assigned_to_all_modules=True)
    job_id = org.enqueue("platform/network")
    runner.finish(runner.claim_one(), "FAILED", p_error={"code": "x", "message": "no"})

    assert world.replayed(job_id) == "FAILED"
