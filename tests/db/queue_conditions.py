"""Changes around a queue: engines, health, maintenance, and the organisation's decision about shared runners."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, multiple, rule

from tests.db.queue_model import RUNNING, Attempt
from tests.db.queue_promises import Promises
from tests.db.world import World

OWN = 3
CAPACITY = 2
ENGINES = {True: {"tofu": "1.10.0"}, False: {"terraform": "1.9.0"}}
DEGRADED = {"code": "disk", "reason": "The disk is full.", "since": "2026-01-01T00:00:00Z"}
ATTEMPTS: Bundle[Any] = Bundle("attempts")


class QueueConditions(Promises):
    """Three own runners and, behind them, a shared one; the model predicts the jobs that each may claim now."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        slug = world.owner.one("select slug from public.organizations where id = %s", self.org.id)
        # Of this organisation alone: the examples of a run share their database.
        self.shared_id = world.shared_worker(f"shared-{slug}", capacity=CAPACITY, organizations=[slug])
        self.seats.append(world.connect_runner(self.shared_id, engines=ENGINES[True]))
        self.without_engine: set[int] = set()
        self.degraded: set[int] = set()
        self.is_maintained = False
        self.shared_use = "NONE_AVAILABLE"
        for seat in range(OWN):
            self.tell(seat)
        self.keep_fresh()

    def tell(self, seat: int) -> None:
        """A runner reports its engines and its health."""
        facts = {
            "engines": ENGINES[seat not in self.without_engine],
            "degraded": DEGRADED if seat in self.degraded else None,
        }
        self.seats[seat].heartbeat(running=self.listed(seat), p_facts=facts)
        self.keep_fresh()

    def listed(self, seat: int) -> list[dict[str, int]]:
        mine = self.seats[seat].session_id
        running = [job for job in self.model.values() if job.owner == mine and job.status in RUNNING]
        return [{"job": job.id, "attempt": job.attempt} for job in running]

    @rule(seat=st.integers(0, OWN - 1), what=st.sampled_from(["without_engine", "degraded"]))
    def equip(self, seat: int, what: str) -> None:
        """An engine is removed or returns; so does health."""
        lacking: set[int] = getattr(self, what)
        lacking ^= {seat}
        self.tell(seat)

    @rule()
    def maintain(self) -> None:
        until = None if self.is_maintained else self.world.owner.one("select now() + interval '1 day'")
        self.org.owner.call("set_maintenance", p_org=self.org.id, p_until=until, p_reason="The network moves.")
        self.is_maintained = not self.is_maintained

    @rule(use=st.sampled_from(["NEVER", "NONE_FITS", "NONE_AVAILABLE"]))
    def use_shared_runners(self, use: str) -> None:
        self.org.owner.call("set_shared_runners", p_org=self.org.id, p_use=use)
        self.shared_use = use

    @rule(target=ATTEMPTS, slots=st.integers(1, CAPACITY))
    def claim_as_shared(self, slots: int) -> Any:
        """The shared runner comes last: never where it is refused, nor before an own runner that could."""
        claimed = self.seats[OWN].claim(slots)
        assert not (claimed and self.shared_use == "NEVER"), "a shared runner that is refused was given a job"
        assert not (claimed and any(self.comes_first(seat) for seat in range(OWN))), "an own runner comes first"
        return self.took(OWN, claimed)

    def comes_first(self, seat: int) -> bool:
        """Whether an own runner keeps the shared one waiting: being set up is enough, or it must be free now."""
        if self.shared_use == "NONE_FITS":
            return seat not in self.without_engine
        return self.may_take(seat) and len(self.listed(seat)) < CAPACITY

    def may_take(self, seat: int) -> bool:
        return not (self.is_maintained or seat in self.draining | self.without_engine | self.degraded)

    def took(self, seat: int, claimed: list[dict[str, Any]]) -> Any:
        """Record the result of a claim in the model."""
        runner, made = self.seats[seat], []
        assert not (claimed and not self.may_take(seat)), "a runner that may not take any was given a job"
        for job in claimed:
            self.model[job["id"]].claim(job["attempt"], runner.session_id, runner.worker_id, runner.instance_id)
            made.append(Attempt(job["id"], job["attempt"], seat, runner.session_id))
        return multiple(*made)

    def settle(self) -> None:
        """All is well again, so that everything can end."""
        if self.is_maintained:
            self.maintain()
        self.without_engine, self.degraded = set(), set()
        for seat in range(OWN):
            self.tell(seat)
