"""Everything that can happen to a queue, in any order, over the real functions; SECURITY's invariants after each step."""

from typing import Any, cast

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from tests.db.queue_model import FINAL, LIVE, RUNNING, Attempt, ModelJob
from tests.db.world import TOKEN_HASH, Runner, World, refused, replay

MODULES = ("m/a", "m/b", "m/c")
SEATS = st.integers(0, 2)
PHASES = ("INIT", "PLAN", "APPLY", "DESTROY", "OUTPUT")
FROZEN = (
    "id, status, attempt, finished_at, result, error, plan_summary, worker_id, instance_id, max_attempts, steps, phase"
)


class QueueMachine(RuleBasedStateMachine):
    """Three runners, three modules, one person who decides."""

    jobs = Bundle("jobs")
    attempts = Bundle("attempts")

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.org = world.organization()
        for path in MODULES:
            self.org.module(path)
        self.seats: list[Runner] = [
            self.org.runner(f"r{number}", is_assigned_to_all_modules=True, capacity=2) for number in range(3)
        ]
        self.ended: dict[str, Runner] = {}
        self.model: dict[int, ModelJob] = {}
        self.frozen: dict[int, Any] = {}
        self.keep_fresh()

    def keep_fresh(self) -> None:
        """Beats far in the future: only the rules below let time pass, not a slow machine."""
        self.world.owner.connection.execute(
            "update private.heartbeats as h set last_seen_at = now() + interval '1 day' from public.workers as w"
            " where w.id = h.worker_id and w.org_id = %s",
            [self.org.id],
        )

    def process(self, attempt: Attempt, is_ghost: bool) -> Runner:
        """Who speaks for an attempt: the process that claimed it, or the one that sits there now."""
        return self.ended.get(attempt.session, self.seats[attempt.seat]) if is_ghost else self.seats[attempt.seat]

    def fence(self, runner: Runner, attempt: Attempt) -> str:
        """The refusal that this call must meet, if any."""
        if runner.session_id in self.ended:
            return "RY401"
        return "" if self.model[attempt.job].is_owned(runner.session_id, attempt.attempt) else "RY410"

    def attempt_call(self, runner: Runner, attempt: Attempt, function: str, **arguments: Any) -> Any:
        """Call as that process; a call that the model fences must be refused and change nothing."""
        code = self.fence(runner, attempt)
        call = {"p_job": attempt.job, "p_attempt": attempt.attempt, **arguments}
        if not code:
            return runner.call(function, **call)
        before = self.everything(attempt.job)
        with refused(code):
            runner.call(function, **call)
        assert self.everything(attempt.job) == before
        return None

    def everything(self, job: int) -> Any:
        """All that is stored about a job."""
        return self.world.owner.one(
            "select (select to_jsonb(j) from public.provision_jobs as j where j.id = %s)::text || coalesce("
            "(select to_jsonb(q) from private.live_jobs as q where q.job_id = %s)::text, '') || coalesce("
            "(select jsonb_agg(c order by c.attempt, c.seq) from public.job_log_chunks as c where c.job_id = %s)::text, '')"
            " || (select count(*) from public.job_events as e where e.job_id = %s)",
            *[job] * 4,
        )

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
        self.model[job] = ModelJob(job, module, "AWAITING_APPROVAL" if approvals else "QUEUED")
        return job

    @rule(job=jobs, decision=st.sampled_from(["approve", "reject"]))
    def approve(self, job: int, decision: str) -> None:
        model = self.model[job]
        if model.status != "AWAITING_APPROVAL":
            with refused("RY409"):
                self.org.owner.call("approve_job", p_job=job, p_decision=decision)
            return
        self.org.owner.call("approve_job", p_job=job, p_decision=decision)
        model.end("QUEUED" if decision == "approve" else "CANCELLED")

    @rule(job=jobs, kind=st.sampled_from(["AFTER_STEP", "GRACEFUL", "KILL"]))
    def cancel(self, job: int, kind: str) -> None:
        if self.model[job].status in FINAL | {"NEEDS_ATTENTION"}:
            with refused("RY409"):
                self.org.owner.call("cancel_job", p_job=job, p_kind=kind)
            return
        self.org.owner.call("cancel_job", p_job=job, p_kind=kind)
        self.model[job].cancel()

    @rule(target=jobs, job=jobs)
    def retry(self, job: int) -> Any:
        old = self.model[job]
        if old.status not in ("FAILED", "CANCELLED"):
            with refused("RY409"):
                self.org.owner.call("retry_job", p_job=job)
            return multiple()
        made = self.org.owner.call("retry_job", p_job=job)
        self.model[made["id"]] = ModelJob(made["id"], old.module, made["status"], max_attempts=made["max_attempts"])
        assert made["status"] in ("QUEUED", "AWAITING_APPROVAL")
        return made["id"]

    @rule(job=jobs, action=st.sampled_from(["retry", "mark_failed"]))
    def resolve(self, job: int, action: str) -> None:
        model = self.model[job]
        if model.status != "NEEDS_ATTENTION":
            with refused("RY409"):
                self.org.owner.call("resolve_attention", p_job=job, p_action=action)
            return
        self.org.owner.call("resolve_attention", p_job=job, p_action=action)
        if action == "retry":
            model.retry_after_attention()
        else:
            model.end("FAILED")

    # ---------------------------------------------------------------- runners

    @rule(target=attempts, seat=SEATS, slots=st.integers(1, 3))
    def claim(self, seat: int, slots: int) -> Any:
        runner = self.seats[seat]
        made = []
        for job in runner.claim(slots):
            self.model[job["id"]].claim(job["attempt"], runner.session_id, runner.worker_id)
            made.append(Attempt(job["id"], job["attempt"], seat, runner.session_id))
        return multiple(*made)

    @rule(seat=SEATS)
    def beat(self, seat: int) -> None:
        """An honest beat is answered with what was cancelled, and with what this process has lost."""
        runner = self.seats[seat]
        mine = {job.id: job for job in self.model.values() if job.owner == runner.session_id and job.status in RUNNING}
        strangers = [job for job in self.model.values() if job.attempt and job.id not in mine]
        listed = [{"job": job.id, "attempt": job.attempt} for job in [*mine.values(), *strangers]]
        answer = runner.beat(running=listed)
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
        if code:
            assert answer["status"] == model.status, "an old attempt's word was taken"
        elif has_crashed:
            model.lose()
        else:
            model.end(status)
            assert runner.call("worker_finish", **arguments) == answer

    # ---------------------------------------------------------------- time and trouble

    @rule(seat=SEATS)
    def expire(self, seat: int) -> None:
        """A runner falls silent for longer than its leases; the sweep comes, twice."""
        runner = self.seats[seat]
        self.world.silence(runner)
        self.world.sweep()
        self.world.sweep()
        for job in self.running_on(runner):
            job.lose()
        self.keep_fresh()

    @rule(seat=SEATS)
    def forget(self, seat: int) -> None:
        """A runner beats for half a minute without a word about what it should be running."""
        runner, owner = self.seats[seat], self.world.owner.connection
        owner.execute(
            "update private.live_jobs set claimed_at = claimed_at - interval '1 minute' where session_id = %s",
            [runner.session_id],
        )
        runner.beat(running=[])
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

    @rule(seat=SEATS)
    def come_back(self, seat: int) -> None:
        """The same process opens a new session: it keeps what it runs."""
        old = self.seats[seat]
        new = self.seat_again(seat, old.boot_id)
        for job in self.model.values():
            if job.owner == old.session_id:
                job.owner = new.session_id

    @rule(seat=SEATS)
    def take_over(self, seat: int) -> None:
        """Another process takes the name: refused while the first is fresh, and it inherits nothing."""
        old = self.seats[seat]
        with refused("RY409"):
            self.world.connect_runner(old.worker_id, old.instance)
        self.world.owner.connection.execute(
            "update private.heartbeats set last_seen_at = now() - interval '2 minutes' where instance_id = %s",
            [old.instance_id],
        )
        self.seat_again(seat)

    @rule(seat=SEATS)
    def revoke(self, seat: int) -> None:
        """The token is revoked in the middle of it all; a new one starts a new process."""
        old = self.seats[seat]
        self.org.owner.call("rotate_worker_token", p_worker=old.worker_id, p_token_hash=TOKEN_HASH, p_token_hint="efgh")
        self.org.owner.call("revoke_worker_token", p_token=old.token_id)
        with refused("RY401"):
            old.beat()
        self.seat_again(seat)

    def seat_again(self, seat: int, boot_id: str | None = None) -> Runner:
        old = self.seats[seat]
        self.ended[old.session_id] = old
        self.seats[seat] = self.world.connect_runner(old.worker_id, old.instance, boot_id)
        self.keep_fresh()
        return self.seats[seat]

    def running_on(self, runner: Runner) -> list[ModelJob]:
        return [job for job in self.model.values() if job.worker == runner.worker_id and job.status in RUNNING]

    # ---------------------------------------------------------------- what must always hold

    @invariant()
    def database_agrees_with_the_model(self) -> None:
        rows = self.world.owner.rows(
            f"select id, status::text, attempt, to_jsonb(f) from (select {FROZEN} from public.provision_jobs where org_id = %s) as f",
            self.org.id,
        )
        assert {row[0]: row[1:3] for row in rows} == {j.id: (j.status, j.attempt) for j in self.model.values()}
        for number, status, _, row in rows:
            if status in FINAL:
                assert self.frozen.setdefault(number, row) == row, "a finished job has changed"

    @invariant()
    def queue_has_what_is_alive_and_nothing_else(self) -> None:
        """Counts add up; one running attempt per job and per state; nobody has more than their slots."""
        rows = self.world.owner.rows(
            "select job_id, stage::text, state_key::text, session_id::text from private.live_jobs where org_id = %s",
            self.org.id,
        )
        stages = {row[0]: row[1] for row in rows}
        assert set(stages) == {job.id for job in self.model.values() if job.status in LIVE}
        assert {n for n, s in stages.items() if s == "RUNNING"} == {j.id for j in self.model.values() if j.status in RUNNING}
        assert {n for n, s in stages.items() if s == "HELD"} == {
            j.id for j in self.model.values() if j.status == "NEEDS_ATTENTION"
        }
        busy = [row[2] for row in rows if row[1] in ("RUNNING", "HELD")]
        assert len(busy) == len(set(busy)), "two jobs act on one state"
        for runner in self.seats:
            assert len(self.running_on(runner)) <= 2

    @invariant()
    def events_tell_the_same_story(self) -> None:
        """They replay to the status, and nothing that touched infrastructure was queued again without a person."""
        rows = self.world.owner.rows(
            "select job_id, attempt, event, from_status, to_status, actor_kind::text, detail ->> 'phase'"
            " from public.job_events where org_id = %s order by id",
            self.org.id,
        )
        touched: set[tuple[int, int]] = set()
        for job, attempt, event, _, to_status, actor, phase in rows:
            if event == "phase" and phase in ("APPLY", "DESTROY"):
                touched.add((job, attempt))
            if to_status == "QUEUED" and (job, attempt) in touched:
                assert actor == "user", f"job {job} was queued again by itself after it had touched infrastructure"
        for number, job in self.model.items():
            assert replay([row[3:5] for row in rows if row[0] == number]) == job.status

    def teardown(self) -> None:
        """Whatever happened, everything can be brought to an end: nothing is lost and nothing is stuck."""
        try:
            self.drain()
        finally:
            self.world.owner.connection.execute("delete from private.live_jobs where org_id = %s", [self.org.id])
            self.world.database.close()

    def drain(self) -> None:
        for seat in range(3):
            self.expire(seat)
        for job in self.model.values():
            if job.status == "NEEDS_ATTENTION":
                self.resolve(job.id, "mark_failed")
            elif job.status == "AWAITING_APPROVAL":
                self.approve(job.id, "reject")
        for _ in range(len(self.model) + 1):
            self.end_pauses()
            for attempt in cast("list[Attempt]", getattr(self.claim(0, 2), "values", ())):
                self.finish(attempt, False, "SUCCEEDED", False)
        assert {job.status for job in self.model.values()} <= FINAL
        self.database_agrees_with_the_model()


