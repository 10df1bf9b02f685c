"""64 connections, 600 jobs (2,000 in `make test-all`), random rules: granted claims are checked against a model of the rules.

`RUNYARD_CLAIM_SEED` tries another world than the usual one.
"""

import os
import random
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import pytest

from tests.db.claim_model import ModelJob, Rules, may_claim
from tests.db.claim_worlds import GROUPS, RandomRunner, random_job, random_runner
from tests.db.world import Caller, Organization, Runner, World
from tests.support.extent import is_all

CONNECTIONS = 64
JOBS = 2000 if is_all() else 600
MODULES = JOBS // 6
SEED = int(os.environ.get("RUNYARD_CLAIM_SEED", "7"))


@dataclass
class Seat:
    """One connection of one process of a runner."""

    worker: RandomRunner
    runner: Runner
    caller: Caller
    dice: random.Random
    is_resting: bool = False


@dataclass(frozen=True)
class Claim:
    seat: Seat
    job: int
    attempt: int
    is_first_act: bool

    @property
    def key(self) -> tuple[int, int]:
        return self.job, self.attempt


@dataclass
class Yard:
    """The whole scene: organisations, runners, jobs, and who claimed what."""

    world: World
    dice: random.Random
    orgs: dict[str, Organization] = field(default_factory=dict)
    workers: list[RandomRunner] = field(default_factory=list)
    seats: list[Seat] = field(default_factory=list)
    jobs: dict[int, ModelJob] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)
    rules: Rules = field(default_factory=Rules)

    @property
    def resting(self) -> list[RandomRunner]:
        return [worker for worker in self.workers if any(s.is_resting for s in self.seats if s.worker is worker)]

    def takers(self, job: ModelJob) -> list[RandomRunner]:
        """The nearest of those that can claim the job when all are idle."""
        return [worker for worker in self.workers if may_claim(worker, job, self.workers, self.rules)]

    def leftovers(self) -> list[ModelJob]:
        """The next job of each module that has any left: only that one could be claimed."""
        rows = self.world.owner.rows("select id from public.provision_jobs where status = 'QUEUED'")
        next_in_state: dict[str, ModelJob] = {}
        for job in sorted((self.jobs[number] for number in rows), key=lambda job: (job.priority, job.id)):
            next_in_state.setdefault(f"{job.org}:{job.module}", job)
        return list(next_in_state.values())


def add_organization(yard: Yard) -> None:
    org = yard.world.organization()
    yard.orgs[org.id] = org
    paths = [f"{yard.dice.choice(GROUPS)}/m{number}" for number in range(MODULES)]
    made = org.owner.rows(
        "select (m ->> 'path', m ->> 'id')::text from (select public.create_module(%s, p[1], p[2], '{}') as m"
        " from (select regexp_match(unnest(%s::text[]), '(.*)/(.*)') as p) as p) as m",
        org.id,
        paths,
    )
    org.modules = dict(row.strip("()").split(",") for row in made)


def add_workers(yard: Yard) -> None:
    for number in range(36):
        org = yard.dice.choice([*yard.orgs, *yard.orgs, None])
        worker = random_runner(yard.dice, number, org)
        options = {
            "labels": sorted(worker.labels),
            "capacity": worker.capacity,
            "accepted_job_types": sorted(worker.types),
            "allow_multiple_instances": True,
        }
        if org is None:
            worker.id = yard.world.shared_worker(worker.name, **options)
        else:
            options |= {"assignments": sorted(worker.paths), "is_assigned_to_all_modules": worker.is_everywhere}
            worker.id = yard.orgs[org].worker(worker.name, **options)
        yard.workers.append(worker)


def seat_everybody(yard: Yard) -> None:
    """A connection for each process, then second ones until there are 64; troubled runners have seats, too."""
    for worker in yard.workers:
        for instance in sorted(worker.instances):
            runner = yard.world.connect_runner(worker.id, instance)
            yard.seats.append(Seat(worker, runner, runner, random.Random(yard.dice.random())))
    for seat in list(yard.seats)[: CONNECTIONS - len(yard.seats)]:
        twin = yard.world.caller("worker", sub=seat.worker.id, sid=seat.runner.session_id)
        yard.seats.append(Seat(seat.worker, seat.runner, twin, random.Random(yard.dice.random())))
    for worker in yard.dice.sample([worker for worker in yard.workers if worker.is_well], 6):
        for seat in yard.seats:
            seat.is_resting = seat.is_resting or seat.worker is worker


def make_trouble(yard: Yard) -> None:
    """Heartbeats are set far into the future, so that the test's length decides nothing; the offline ones into the past."""
    yard.world.owner.connection.execute("update private.heartbeats set last_seen_at = now() + interval '1 day'")
    for worker in yard.workers:
        if worker.trouble == "offline":
            yard.world.owner.connection.execute(
                "update private.heartbeats set last_seen_at = now() - interval '1 hour' where worker_id = %s",
                [worker.id],
            )
        elif worker.trouble:
            column = {"draining": "is_draining", "disabled": "is_disabled"}[worker.trouble]
            yard.world.owner.connection.execute(
                f"update public.workers set {column} = true where id = %s".encode(), [worker.id]
            )


def enqueue(yard: Yard, org: Organization, count: int) -> None:
    wishes = [random_job(yard.dice, org.id, list(org.modules), yard.workers) for _ in range(count)]
    for job, options in wishes:
        number = org.enqueue(job.module, job.type, **options)
        yard.jobs[number] = replace(job, id=number)


def work(yard: Yard, seat: Seat, is_first_act: bool) -> int:
    """Claim and finish until there is nothing to claim; now and then a job is given back."""
    total = 0
    while True:
        request = str(seat.dice.getrandbits(128).to_bytes(16).hex())
        jobs = seat.caller.call("worker_claim", p_request_id=request, p_slots=seat.dice.randint(1, 4))["jobs"]
        yard.claims += [Claim(seat, job["id"], job["attempt"], is_first_act) for job in jobs]
        total += len(jobs)
        if not jobs:
            return total
        if seat.dice.random() < 0.05:
            seat.caller.call("worker_return_job", p_job=jobs[0]["id"], p_attempt=jobs[0]["attempt"])
            jobs = jobs[1:]
        status = seat.dice.choice(["SUCCEEDED", "FAILED"])
        for job in jobs:
            seat.caller.call("worker_finish", p_job=job["id"], p_attempt=job["attempt"], p_status=status)


def work_off(yard: Yard, *, is_first_act: bool) -> None:
    """Everybody works until a whole round brought nothing; in the first act some rest, and jobs still come in."""
    seats = [seat for seat in yard.seats if not (is_first_act and seat.is_resting)]
    with ThreadPoolExecutor(CONNECTIONS + len(yard.orgs)) as pool:
        producers = [
            pool.submit(enqueue, yard, org, JOBS // 2 // len(yard.orgs)) for org in yard.orgs.values() if is_first_act
        ]
        while True:
            are_all_in = all(producer.done() for producer in producers)
            claimed = sum(pool.map(lambda seat: work(yard, seat, is_first_act), seats))
            if are_all_in and not claimed:
                break
        for producer in producers:
            producer.result()


@pytest.fixture
def yard(fresh_world: World) -> Yard:
    yard = Yard(fresh_world, random.Random(SEED))
    for _ in range(2):
        add_organization(yard)
    add_workers(yard)
    seat_everybody(yard)
    make_trouble(yard)
    for org in yard.orgs.values():
        enqueue(yard, org, JOBS // 2 // len(yard.orgs))
    return yard


def check_rules(yard: Yard) -> None:
    """No claim was against a rule, and none passed over somebody nearer who sat there with free slots."""
    resting = yard.resting
    for claim in yard.claims:
        job, worker = yard.jobs[claim.job], claim.seat.worker
        idle = resting if claim.is_first_act else []
        assert may_claim(worker, job, idle, yard.rules), f"{worker} took {job}"
        assert job.pinned_instance in (None, claim.seat.runner.instance)


def check_exclusion(yard: Yard) -> None:
    """From the events: one job of a module at a time, and never more jobs on an instance than it has slots."""
    capacity = {(seat.worker.id, f"Instance {seat.runner.instance}"): seat.worker.capacity for seat in yard.seats}
    running: dict[str, int] = {}
    used: Counter[tuple[str, str]] = Counter()
    seat_of: dict[int, tuple[str, str]] = {}
    events = yard.world.owner.rows(
        "select e.job_id, j.module_id::text, e.event, e.actor_id::text, e.reason from public.job_events as e"
        " join public.provision_jobs as j on j.id = e.job_id where e.event <> 'enqueued' order by e.id"
    )
    for job, module, event, actor, reason in events:
        if event == "claimed":
            assert module not in running, f"job {job} began while job {running[module]} of its module ran"
            running[module], seat_of[job] = job, (actor, reason)
            used[actor, reason] += 1
            assert used[actor, reason] <= capacity[actor, reason]
        else:
            assert running.pop(module) == job
            used[seat_of.pop(job)] -= 1


def test_many_claimers_claim_every_job_once_and_by_the_rules(yard: Yard) -> None:
    work_off(yard, is_first_act=True)
    resting = yard.resting
    stuck = [job for job in yard.leftovers() if any(w not in resting for w in yard.takers(job))]
    assert stuck == [], "somebody could have taken these"

    work_off(yard, is_first_act=False)
    assert [job for job in yard.leftovers() if yard.takers(job)] == [], "somebody could have taken these"

    assert len(yard.jobs) == JOBS
    assert [key for key, times in Counter(claim.key for claim in yard.claims).items() if times > 1] == []
    check_rules(yard)
    check_exclusion(yard)
    by_act = Counter(claim.is_first_act for claim in yard.claims)
    assert min(by_act.values()) > JOBS // 20, "both acts must have had work, or this test shows nothing"
    spread: dict[str, int] = defaultdict(int)
    for claim in yard.claims:
        spread[claim.seat.worker.name] += 1
    assert len(spread) > 15, "many must have worked, or this test shows nothing"
