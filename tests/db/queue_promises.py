"""The queue's promises, checked after every step of a machine, and the model that they are checked against."""

from typing import Any

from hypothesis.stateful import RuleBasedStateMachine, invariant

from tests.db.queue_model import FINAL, LIVE, RUNNING, Attempt, ModelJob
from tests.db.world import Runner, World, refused, replay

MODULES = ("m/a", "m/b", "m/c")
FROZEN = (
    "id, status, attempt, finished_at, result, error, plan_summary, worker_id, instance_id, max_attempts, steps, phase"
)


class Promises(RuleBasedStateMachine):
    """An organisation with three runners, its model, and what must hold of both."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.org = world.organization()
        # The requester of a job does not approve it.
        self.approver = self.org.member("operator")
        for path in MODULES:
            self.org.module(path)
        self.seats: list[Runner] = [
            self.org.runner(f"r{number}", is_assigned_to_all_modules=True, capacity=2) for number in range(3)
        ]
        self.ended: dict[str, Runner] = {}
        self.draining: set[int] = set()
        self.model: dict[int, ModelJob] = {}
        self.frozen: dict[int, Any] = {}
        self.serial = 0
        self.shared_id: str | None = None
        self.keep_fresh()

    def keep_fresh(self) -> None:
        """Heartbeats far in the future: only the rules below let time pass, not a slow machine."""
        self.world.owner.connection.execute(
            "update private.heartbeats as h set last_seen_at = now() + interval '1 day' from public.workers as w"
            " where w.id = h.worker_id and (w.org_id = %s or w.id = %s)",
            [self.org.id, self.shared_id],
        )

    def process(self, attempt: Attempt, is_ghost: bool) -> Runner:
        """Return the process that acts for an attempt: the one that claimed it, or the one that has its seat now."""
        return self.ended.get(attempt.session, self.seats[attempt.seat]) if is_ghost else self.seats[attempt.seat]

    def fence(self, runner: Runner, attempt: Attempt) -> str:
        """The refusal that this call must meet, if any."""
        if runner.session_id in self.ended:
            return "RY401"
        job = self.model[attempt.job]
        is_let_in = job.is_owned(runner.session_id, attempt.attempt) or job.is_held_by(
            runner.instance_id, attempt.attempt
        )
        return "" if is_let_in else "RY410"

    def speak(self, runner: Runner, job: ModelJob) -> None:
        """The attempt that holds a job resumes with its first call."""
        if job.is_held_by(runner.instance_id, job.attempt):
            job.resume(runner.session_id)

    def attempt_call(self, runner: Runner, attempt: Attempt, function: str, **arguments: Any) -> Any:
        """Call as that process; a call that the model fences must be refused and change nothing."""
        code = self.fence(runner, attempt)
        if not code and function == "worker_state_put" and self.model[attempt.job].kind == "PLAN":
            code = "RY409"
        call = {"p_job": attempt.job, "p_attempt": attempt.attempt, **arguments}
        if not code:
            answer = runner.call(function, **call)
            if function != "worker_append_logs":
                self.speak(runner, self.model[attempt.job])
            return answer
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
            " || (select count(*) from public.job_events as e where e.job_id = %s) || coalesce("
            "(select s.body from private.states as s join public.provision_jobs as j using (module_id) where j.id = %s), '')",
            *[job] * 5,
        )

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
        assert {n for n, s in stages.items() if s == "RUNNING"} == {
            j.id for j in self.model.values() if j.status in RUNNING
        }
        assert {n for n, s in stages.items() if s == "HELD"} == {
            j.id for j in self.model.values() if j.status == "NEEDS_ATTENTION"
        }
        busy = [row[2] for row in rows if row[1] in ("RUNNING", "HELD")]
        assert len(busy) == len(set(busy)), "two jobs act on one state"
        for runner in self.seats:
            assert len([job for job in self.running_on(runner) if not job.is_resumed]) <= 2

    @invariant()
    def somebody_is_next_wherever_somebody_waits(self) -> None:
        stuck = self.world.owner.rows(
            "select q.state_key from private.live_jobs as q where q.org_id = %s group by q.state_key"
            " having bool_and(q.stage = 'WAITING') and q.state_key not in (table private.locked_states)",
            self.org.id,
        )
        assert stuck == []

    @invariant()
    def nobody_begins_where_a_lock_was_left(self) -> None:
        begun = self.world.owner.rows(
            "select q.job_id from private.live_jobs as q where q.org_id = %s and q.stage in ('READY', 'RUNNING')"
            " and q.state_key in (table private.locked_states)",
            self.org.id,
        )
        assert begun == []

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
                assert actor == "user", f"job {job} was queued again automatically after it had touched infrastructure"
        for number, job in self.model.items():
            assert replay([row[3:5] for row in rows if row[0] == number]) == job.status
