"""Nobody is left to send heartbeats: the stack itself lets time pass, as pg_cron does on hosted Supabase."""

import signal

from tests.integration.worker_bench import Bench, bench
from tests.support.waiting import wait_until

__all__ = ["bench"]
# The sweep calls nobody dead in the first minute after the database's start.
PATIENCE_SECONDS = 150


def test_a_job_returns_to_the_queue_when_the_only_runner_dies(bench: Bench) -> None:
    worker = bench.register()
    process = bench.start_worker(worker)
    job = bench.enqueue("PLAN", bench.module(hooks={"before_plan": "echo here; exec sleep 600"}))
    bench.wait_step(job, "before-plan")
    process.signal(signal.SIGKILL)
    process.wait()
    with bench.database() as connection:
        # As if its last heartbeat were a while ago; nobody sends one from here on.
        connection.execute(
            "update private.heartbeats set last_seen_at = now() - interval '2 minutes' where worker_id = %s",
            [worker[0]],
        )
        connection.execute(
            "update private.live_jobs set lease_until = now() - interval '1 minute' where job_id = %s", [job]
        )
    bench.wait_job(job, "QUEUED", seconds=PATIENCE_SECONDS)
    assert [event["event"] for event in bench.events_of(job)][-1] == "lost"
    wait_until(lambda: bench.rows("workers", id=worker[0])[0]["status"] == "OFFLINE")
