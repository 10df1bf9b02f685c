"""Everything that can happen to a queue, in any order, over the real functions."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, consumes, initialize, multiple, rule

from tests.db.queue_conditions import ATTEMPTS, QueueConditions
from tests.db.queue_model import FINAL, RUNNING, Attempt, ModelJob
from tests.db.queue_promises import MODULES
from tests.db.world import TOKEN_HASH, Runner, refused

SEATS = st.integers(0, 2)
PHASES = ("INIT", "PLAN", "APPLY", "DESTROY", "OUTPUT")


class QueueMachine(QueueConditions):
    """Three runners and a shared one, three modules, one person who decides."""

    jobs = Bundle("jobs")
    attempts = ATTEMPTS

    # ---------------------------------------------------------------- people

    @rule(
        target=jobs,
        module=st.sampled_from(MODULES),
        kind=st.sampled_from(["PLAN", "APPLY", "DESTROY"]),
        priority=st.sampled_from([50, 100]),
        approvals=st.sampled_from([0, 0, 0, 1]),
    )
    def enqueue(self, module: str, kind: str, priority: int, approvals: int) -> int:
        approvals = approvals if kind != "PLAN" else 0
        job = self.org.enqueue(module, kind, priority=priority, approvals_required=approvals)
        self.model[job] = ModelJob(job, module, "AWAITING_APPROVAL" if approvals else "QUEUED", kind)
        return job

    @initialize(target=jobs, kinds=st.lists(st.sampled_from(["PLAN", "APPLY"]), min_size=6, max_size=6))
    def begin(self, kinds: list[str]) -> Any:
        return multiple(*(self.enqueue(MODULES[number % 3], kind, 100, 0) for number, kind in enumerate(kinds)))

    @rule(job=jobs, kind=st.sampled_from(["AFTER_STEP", "GRACEFUL", "KILL"]))
    def cancel(self, job: int, kind: str) -> None:
        if self.model[job].status in FINAL | {"NEEDS_ATTENTION"}:
            with refused("RY409"):
                self.org.owner.call("cancel_job", p_job=job, p_kind=kind)
            return
        self.org.owner.call("cancel_job", p_job=job, p_kind=kind)
        self.model[job].cancel()

    @rule(target=jobs, job=jobs, is_yes=st.booleans())
    def decide(self, job: int, is_yes: bool) -> Any:
        """Approve, retry or resolve: the one that the status allows is done, the others are refused."""
        status = self.model[job].status
        if status != "AWAITING_APPROVAL":
            with refused("RY409"):
                self.org.owner.call("approve_job", p_job=job, p_decision="approve")
        if status not in ("FAILED", "CANCELLED"):
            with refused("RY409"):
                self.org.owner.call("retry_job", p_job=job)
        if status != "NEEDS_ATTENTION":
            with refused("RY409"):
                self.org.owner.call("resolve_attention", p_job=job, p_action="retry")
        if status == "AWAITING_APPROVAL":
            self.approve(job, is_yes)
        elif status == "NEEDS_ATTENTION":
            self.resolve(job, is_yes)
        elif status in ("FAILED", "CANCELLED"):
            return self.retry(job)
        return multiple()

    def approve(self, job: int, is_yes: bool) -> None:
        self.approver.call("approve_job", p_job=job, p_decision="approve" if is_yes else "reject")
        self.model[job].end("QUEUED" if is_yes else "CANCELLED")

    def resolve(self, job: int, is_yes: bool) -> None:
        self.org.owner.call("resolve_attention", p_job=job, p_action="retry" if is_yes else "mark_failed")
        if is_yes:
            self.model[job].retry_after_attention()
        else:
            self.model[job].end("FAILED")

    def retry(self, job: int) -> int:
        made = self.org.owner.call("retry_job", p_job=job)
        assert made["status"] in ("QUEUED", "AWAITING_APPROVAL")
        old, number = self.model[job], int(made["id"])
        self.model[number] = ModelJob(number, old.module, made["status"], old.kind, max_attempts=made["max_attempts"])
        return number

    @rule(seat=SEATS)
    def drain_or_resume(self, seat: int) -> None:
        act = "resume_worker" if seat in self.draining else "drain_worker"
        self.org.owner.call(act, p_worker=self.seats[seat].worker_id)
        self.draining ^= {seat}

    # ---------------------------------------------------------------- runners

    @rule(target=attempts, seat=SEATS, slots=st.integers(1, 3))
    def claim(self, seat: int, slots: int) -> Any:
        return self.took(seat, self.seats[seat].claim(slots))

    @rule(target=attempts, seat=SEATS, phase=st.sampled_from(PHASES))
    def start(self, seat: int, phase: str) -> Any:
        """Do the most frequent thing: claim a job, and report its phase."""
        made = self.claim(seat, 1)
        for attempt in made.values:
            self.report(attempt, False, phase)
        return made

    @rule(seat=SEATS)
    def heartbeat(self, seat: int) -> None:
        """An honest heartbeat is answered with the jobs that were cancelled, and with those that this process has lost."""
        runner = self.seats[seat]
        for job in self.model.values():
            self.speak(runner, job)
        mine = {job.id: job for job in self.model.values() if job.owner == runner.session_id and job.status in RUNNING}
        strangers = [job for job in self.model.values() if job.attempt and job.id not in mine]
        listed = [{"job": job.id, "attempt": job.attempt} for job in [*mine.values(), *strangers]]
        answer = runner.heartbeat(running=listed)
        assert {item["job"] for item in answer["lost"]} == {job.id for job in strangers}
        assert {item["job"] for item in answer["cancel"]} == {job.id for job in mine.values() if job.is_cancelling}
        self.keep_fresh()

    @rule(attempt=attempts, is_ghost=st.booleans(), phase=st.sampled_from(PHASES))
    def report(self, attempt: Attempt, is_ghost: bool, phase: str) -> None:
        answer = self.attempt_call(self.process(attempt, is_ghost), attempt, "worker_report", p_phase=phase)
        if answer is not None:
            self.model[attempt.job].report(phase)
            assert bool(answer["cancel_kind"]) == self.model[attempt.job].is_cancelling

    @rule(attempt=attempts, is_ghost=st.booleans(), seq=st.integers(1, 3))
    def log(self, attempt: Attempt, is_ghost: bool, seq: int) -> None:
        chunks = [{"seq": seq, "step": "plan", "body": f"{attempt.job}\n"}]
        self.attempt_call(self.process(attempt, is_ghost), attempt, "worker_append_logs", p_chunks=chunks)

    @rule(attempt=attempts, is_ghost=st.booleans())
    def write(self, attempt: Attempt, is_ghost: bool) -> None:
        """The runner that has the job can lock its state and write it, and nobody else: a job begins only where no lock was left."""
        process, lock = self.process(attempt, is_ghost), f"{attempt.job}-{attempt.attempt}"
        self.attempt_call(process, attempt, "worker_state_lock", p_lock={"ID": lock})
        self.serial += 1
        body = f'{{"serial": {self.serial}}}'
        self.attempt_call(process, attempt, "worker_state_put", p_body=body, p_lock_id=lock)

    @rule(module=st.sampled_from(MODULES))
    def unlock(self, module: str) -> None:
        """A person releases the lock of a job that is over or held; there must be one, and its job must not be running."""
        lock = self.org.owner.call("state_info", p_module=self.org.modules[module])["lock"]
        known = {"p_module": self.org.modules[module], "p_lock_id": lock["id"] if lock else "?"}
        if not lock or self.model[lock["job_id"]].status in RUNNING:
            with refused("RY409" if lock else "RY404"):
                self.org.owner.call("force_unlock_state", **known)
            return
        self.org.owner.call("force_unlock_state", **known)
        self.model[lock["job_id"]].holder = ""

    @rule(attempt=attempts, is_ghost=st.booleans())
    def give_back(self, attempt: Attempt, is_ghost: bool) -> None:
        model, runner = self.model[attempt.job], self.process(attempt, is_ghost)
        if not self.fence(runner, attempt) and model.has_touched:
            with refused("RY409"):
                runner.call("worker_return_job", p_job=attempt.job, p_attempt=attempt.attempt)
            return
        if self.attempt_call(runner, attempt, "worker_return_job") is not None:
            model.give_back()

    @rule(
        attempt=consumes(attempts) | attempts,
        is_ghost=st.booleans(),
        status=st.sampled_from(["SUCCEEDED", "FAILED", "CANCELLED"]),
        has_crashed=st.sampled_from([False, False, True]),
    )
    def finish(self, attempt: Attempt, is_ghost: bool, status: str, has_crashed: bool) -> None:
        runner, model = self.process(attempt, is_ghost), self.model[attempt.job]
        error = {"code": "runner_crashed", "message": "It died."} if has_crashed else None
        code = self.fence(runner, attempt)
        if code == "RY401":
            self.attempt_call(runner, attempt, "worker_finish", p_status=status)
            return
        arguments = {"p_job": attempt.job, "p_attempt": attempt.attempt, "p_status": status, "p_error": error}
        answer = runner.call("worker_finish", **arguments)
        if not code:
            self.speak(runner, model)
        if code:
            assert answer["status"] == model.status, "an old attempt's word was taken"
        elif has_crashed:
            model.lose()
        else:
            model.end(status)
            assert runner.call("worker_finish", **arguments) == answer

    # ---------------------------------------------------------------- time and trouble

    @rule(seat=SEATS, kind=st.sampled_from(["expire", "forget", "come_back", "take_over", "revoke"]))
    def trouble(self, seat: int, kind: str) -> None:
        {
            "expire": self.expire,
            "forget": self.forget,
            "come_back": self.come_back,
            "take_over": self.take_over,
            "revoke": self.revoke,
        }[kind](seat)

    def expire(self, seat: int) -> None:
        """A runner falls silent for longer than its leases; the sweep comes, twice."""
        runner = self.seats[seat]
        self.world.silence(runner)
        self.world.sweep()
        self.world.sweep()
        for job in self.running_on(runner):
            job.lose()
        self.keep_fresh()

    def forget(self, seat: int) -> None:
        """A runner sends heartbeats for half a minute that do not list the jobs that it should be running."""
        runner, owner = self.seats[seat], self.world.owner.connection
        owner.execute(
            "update private.live_jobs set claimed_at = claimed_at - interval '1 minute' where session_id = %s",
            [runner.session_id],
        )
        runner.heartbeat(running=[])
        self.keep_fresh()
        owner.execute(
            "update private.live_jobs set unlisted_at = unlisted_at - interval '31 seconds' where session_id = %s",
            [runner.session_id],
        )
        self.world.sweep()
        for job in self.model.values():
            if job.owner == runner.session_id and job.status in RUNNING:
                job.lose()

    @rule()
    def end_pauses(self) -> None:
        self.world.owner.connection.execute(
            "update private.live_jobs set not_before_at = now() where stage in ('BACKOFF', 'WAITING') and org_id = %s",
            [self.org.id],
        )
        self.world.sweep()

    def come_back(self, seat: int) -> None:
        """The same process opens a new session: it keeps its running jobs."""
        old = self.seats[seat]
        new = self.seat_again(seat, old.boot_id)
        for job in self.model.values():
            if job.owner == old.session_id:
                job.owner = new.session_id

    def take_over(self, seat: int) -> None:
        """Another process claims the name: refused while the first is fresh, and it inherits nothing."""
        old = self.seats[seat]
        with refused("RY409"):
            self.world.connect_runner(old.worker_id, old.instance)
        self.world.owner.connection.execute(
            "update private.heartbeats set last_seen_at = now() - interval '2 minutes' where instance_id = %s",
            [old.instance_id],
        )
        self.seat_again(seat)

    def revoke(self, seat: int) -> None:
        """The token is revoked in the middle of it all; a new one starts a new process."""
        old = self.seats[seat]
        self.org.owner.call("rotate_worker_token", p_worker=old.worker_id, p_token_hash=TOKEN_HASH, p_token_hint="efgh")
        self.org.owner.call("revoke_worker_token", p_token=old.token_id)
        with refused("RY401"):
            old.heartbeat()
        self.seat_again(seat)

    def seat_again(self, seat: int, boot_id: str | None = None) -> Runner:
        old = self.seats[seat]
        self.ended[old.session_id] = old
        self.seats[seat] = self.world.connect_runner(old.worker_id, old.instance, boot_id)
        self.tell(seat)
        return self.seats[seat]

    def teardown(self) -> None:
        """Whatever happened, everything can be brought to an end: nothing is lost and nothing is stuck."""
        try:
            self.drain()
        finally:
            self.world.owner.connection.execute("delete from private.live_jobs where org_id = %s", [self.org.id])
            self.world.database.close()

    def drain(self) -> None:
        for seat in sorted(self.draining):
            self.drain_or_resume(seat)
        self.settle()
        for seat in range(len(self.seats)):
            self.expire(seat)
        for job in self.model.values():
            if job.status == "NEEDS_ATTENTION":
                self.resolve(job.id, False)
            elif job.status == "AWAITING_APPROVAL":
                self.approve(job.id, False)
        for module in MODULES:
            self.unlock(module)
        for _ in range(len(self.model) + 1):
            self.end_pauses()
            for attempt in self.claim(0, 2).values:
                self.finish(attempt, False, "SUCCEEDED", False)
        assert {job.status for job in self.model.values()} <= FINAL
        self.database_agrees_with_the_model()
