"""A machine that does whatever people, runners and time may do, in any order, over the real SQL; and what must always hold."""

import os
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule, run_state_machine_as_test

from tests.db.world import Organization, Runner, World, refused, replay

FINAL = {"SUCCEEDED", "FAILED", "CANCELLED"}
MODULES = ["a/one", "a/two", "b/three"]
PHASES = ["INIT", "PLAN", "APPLY"]
STEPS = int(os.environ.get("RUNYARD_MACHINE_STEPS", "40"))
EXAMPLES = int(os.environ.get("RUNYARD_MACHINE_EXAMPLES", "6"))


class JobMachine(RuleBasedStateMachine):
    """Three runners, three modules, any number of jobs."""

    attempts = Bundle("attempts")
    jobs = Bundle("jobs")

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.org: Organization = world.organization()
        world.up_for_long()
        for module in MODULES:
            self.org.module(module, approvals_required=1 if module == "b/three" else 0)
        self.runners: list[Runner] = [
            self.org.runner(f"r{n}", is_assigned_to_all_modules=True, capacity=2) for n in range(3)
        ]
        self.final: dict[int, dict[str, Any]] = {}
        self.enqueued: list[int] = []
        self.touched: set[tuple[int, int]] = set()

    # ------------------------------------------------------------------ people

    @rule(target=jobs, module=st.sampled_from(MODULES), kind=st.sampled_from(["PLAN", "APPLY"]), urgent=st.booleans())
    def enqueue(self, module: str, kind: str, urgent: bool) -> int:
        job = self.org.enqueue(module, kind, priority=10 if urgent else 100, max_attempts=2)
        self.enqueued.append(job)
        return job

    @rule(job=jobs, decision=st.sampled_from(["approve", "approve", "reject"]))
    def approve(self, job: int, decision: str) -> None:
        if self.world.status(job) == "AWAITING_APPROVAL":
            self.org.owner.call("approve_job", p_job=job, p_decision=decision)
        else:
            with refused("RY409"):
                self.org.owner.call("approve_job", p_job=job, p_decision=decision)

    @rule(job=jobs, kind=st.sampled_from(["AFTER_STEP", "GRACEFUL", "KILL"]))
    def cancel(self, job: int, kind: str) -> None:
        before = self.world.status(job)
        if before in FINAL | {"NEEDS_ATTENTION"}:
            with refused("RY409"):
                self.org.owner.call("cancel_job", p_job=job, p_kind=kind)
        else:
            self.org.owner.call("cancel_job", p_job=job, p_kind=kind)

    @rule(target=jobs, job=jobs)
    def retry(self, job: int) -> Any:
        if self.world.status(job) not in {"FAILED", "CANCELLED"}:
            with refused("RY409"):
                self.org.owner.call("retry_job", p_job=job)
            return multiple()
        again = int(self.org.owner.call("retry_job", p_job=job)["id"])
        self.enqueued.append(again)
        return again

    @rule(job=jobs, action=st.sampled_from(["retry", "mark_failed"]))
    def resolve(self, job: int, action: str) -> None:
        if self.world.status(job) == "NEEDS_ATTENTION":
            self.org.owner.call("resolve_attention", p_job=job, p_action=action)

    @rule(number=st.integers(0, 2), act=st.sampled_from(["drain_worker", "resume_worker"]))
    def change_runner(self, number: int, act: str) -> None:
        self.org.owner.call(act, p_worker=self.runners[number].worker_id)

    # ------------------------------------------------------------------ runners

    @rule(target=attempts, number=st.integers(0, 2), slots=st.integers(1, 2))
    def claim(self, number: int, slots: int) -> Any:
        claimed = self.runners[number].claim(slots)
        return multiple(*[(number, job["id"], job["attempt"]) for job in claimed])

    @rule(number=st.integers(0, 2))
    def beat(self, number: int) -> None:
        running = self.world.owner.rows(
            "select job_id, attempt from private.live_jobs where instance_id = %s and stage = 'RUNNING'",
            self.runners[number].instance_id,
        )
        answer = self.runners[number].beat(running=[{"job": job, "attempt": attempt} for job, attempt in running])
        lost = {(item["job"], item["attempt"]) for item in answer["lost"]}
        assert lost == set() or self.holder(lost.pop()[0]) != self.runners[number].session_id

    @rule(attempt=attempts, phase=st.sampled_from(PHASES))
    def report(self, attempt: tuple[int, int, int], phase: str) -> None:
        if self.does(attempt, "worker_report", p_phase=phase) and phase == "APPLY":
            self.touched.add(attempt[1:])

    @rule(attempt=attempts, seq=st.integers(1, 3))
    def log(self, attempt: tuple[int, int, int], seq: int) -> None:
        self.does(attempt, "worker_append_logs", p_chunks=[{"seq": seq, "body": f"{attempt} {seq}\n"}])

    @rule(attempt=attempts)
    def lock(self, attempt: tuple[int, int, int]) -> None:
        self.does(attempt, "worker_state_lock", p_lock={"ID": f"{attempt[1]}-{attempt[2]}"}, might={"RY423"})

    @rule(attempt=attempts, status=st.sampled_from(["SUCCEEDED", "FAILED", "CANCELLED"]))
    def finish(self, attempt: tuple[int, int, int], status: str) -> None:
        number, job, nth = attempt
        before, is_held = self.world.job(job), self.is_held(attempt)
        answer = self.runners[number].finish({"id": job, "attempt": nth}, status)
        after = self.world.job(job)
        if is_held:
            assert (answer["status"], answer["is_late"], after["status"]) == (status, False, status)
        else:
            assert after["status"] == before["status"], "an old attempt changed the job"
            assert answer["status"] == before["status"]

    @rule(attempt=attempts)
    def give_back(self, attempt: tuple[int, int, int]) -> None:
        self.does(attempt, "worker_return_job", might={"RY409"})

    @rule(number=st.integers(0, 2))
    def restart(self, number: int) -> None:
        """The process died and another one, with the same name, takes over after a minute."""
        old = self.runners[number]
        self.world.silence(old)
        self.runners[number] = self.world.connect_runner(old.worker_id, "one")
        with refused("RY401"):
            old.beat()
        old.connection.close()

    # ------------------------------------------------------------------ time

    @rule(number=st.integers(0, 2))
    def lose(self, number: int) -> None:
        self.world.silence(self.runners[number])
        self.world.sweep()

    @rule()
    def sweep(self) -> None:
        self.world.owner.connection.execute(
            "update private.live_jobs set not_before_at = now() where stage = 'BACKOFF'"
        )
        self.world.sweep()
        self.world.sweep()

    # ------------------------------------------------------------------ what must always hold

    @invariant()
    def one_running_attempt_per_job_and_state(self) -> None:
        crowded = self.world.owner.rows(
            "select module_id from public.provision_jobs where org_id = %s and status in ('CLAIMED', 'PROCESSING', 'NEEDS_ATTENTION') "
            "group by module_id having count(*) > 1",
            self.org.id,
        )
        assert crowded == []

    @invariant()
    def the_queue_and_the_record_agree(self) -> None:
        stages = {
            "WAITING": {"QUEUED"},
            "BACKOFF": {"QUEUED"},
            "READY": {"QUEUED"},
            "RUNNING": {"CLAIMED", "PROCESSING"},
            "HELD": {"NEEDS_ATTENTION"},
        }
        rows = self.world.owner.rows(
            "select j.id, j.status::text, j.attempt, q.stage::text, q.attempt from public.provision_jobs as j "
            "left join private.live_jobs as q on q.job_id = j.id where j.org_id = %s",
            self.org.id,
        )
        for job, status, attempt, stage, live_attempt in rows:
            if stage is None:
                assert status in FINAL | {"AWAITING_APPROVAL"}, (job, status)
            else:
                assert (status in stages[stage], attempt) == (True, live_attempt), (job, status, stage)
        assert len(rows) == len(self.enqueued), "counts add up"

    @invariant()
    def somebody_is_next_wherever_somebody_waits(self) -> None:
        stuck = self.world.owner.rows(
            "select q.state_key from private.live_jobs as q where q.org_id = %s group by q.state_key "
            "having bool_and(q.stage = 'WAITING') and not private.is_state_locked(q.state_key)",
            self.org.id,
        )
        assert stuck == []

    @invariant()
    def final_never_changes(self) -> None:
        rows = self.world.owner.rows(
            "select to_jsonb(j) - 'late_report' - 'updated_at' from public.provision_jobs as j "
            "where org_id = %s and finished_at is not null",
            self.org.id,
        )
        for row in rows:
            assert row["status"] in FINAL
            assert self.final.setdefault(row["id"], row) == row

    @invariant()
    def apply_is_never_requeued_by_itself(self) -> None:
        requeued = self.world.owner.rows(
            "select job_id, attempt from public.job_events where org_id = %s and event in ('lost', 'returned')",
            self.org.id,
        )
        assert self.touched.isdisjoint(set(requeued))

    @invariant()
    def slots_are_kept(self) -> None:
        crowded = self.world.owner.rows("select name from private.instance_liveness where used > capacity")
        assert crowded == []

    def teardown(self) -> None:
        for job in self.enqueued:
            steps = self.world.owner.rows(
                "select from_status, to_status from public.job_events where job_id = %s order by id", job
            )
            assert replay(steps) == self.world.status(job)
        for caller in [self.org.owner, *self.runners]:
            caller.connection.close()

    # ------------------------------------------------------------------ helpers

    def holder(self, job: int) -> str | None:
        found = self.world.owner.rows(
            "select session_id::text from private.live_jobs where job_id = %s and stage = 'RUNNING'", job
        )
        return found[0] if found else None

    def is_held(self, attempt: tuple[int, int, int]) -> bool:
        number, job, nth = attempt
        held = "select session_id::text from private.live_jobs where job_id = %s and attempt = %s and stage = 'RUNNING'"
        return self.world.owner.rows(held, job, nth) == [self.runners[number].session_id]

    def does(
        self, attempt: tuple[int, int, int], function: str, might: frozenset[str] | set[str] = frozenset(), **more: Any
    ) -> bool:
        """Call for an attempt; it must work when the runner has it, and be fenced when not."""
        number, job, nth = attempt
        is_held = self.is_held(attempt)
        try:
            self.runners[number].call(function, p_job=job, p_attempt=nth, **more)
        except psycopg.Error as error:
            if error.sqlstate not in (might if is_held else {"RY410"}):
                raise
            return False
        assert is_held, f"{function} was let through for an attempt that is not the runner's"
        return True


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_whatever_happens_the_invariants_hold(world: World) -> None:
    run_state_machine_as_test(
        lambda: JobMachine(world),  # type: ignore[arg-type]
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize="RUNYARD_MACHINE_EXAMPLES" not in os.environ,
            suppress_health_check=list(HealthCheck),
        ),
    )
