"""Runners that come, go, change and are changed while they work: nobody waits in a circle, and no session is revived."""

import itertools
import os
import random
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg

from tests.db.storm import Storm
from tests.db.test_mixed_traffic import run
from tests.db.test_self_updates import ARTIFACT, FILE
from tests.db.world import TOKEN_HASH, Caller, Organization, User, World
from tests.support.extent import soak_seconds

SECONDS = float(os.environ.get("STORM_SECONDS", soak_seconds(15)))
SEED = int(os.environ.get("STORM_SEED", "0"))
MODULES = [f"g/m{number}" for number in range(10)]
Acts = list[Callable[[random.Random], Any]]

REVIVED = """
  select h.session_id, s.ended_at, w.removed_at
  from private.heartbeats as h left join private.sessions as s on s.id = h.session_id
  left join public.workers as w on w.id = h.worker_id
  where s.id is null or s.ended_at is not null or w.removed_at is not null
"""
FINISHED = "select count(*) from public.provision_jobs where finished_at is not null"
CROWDED = """
  select q.instance_id, count(*) from private.live_jobs as q where q.stage = 'RUNNING' group by 1 having count(*) > 4
"""


@contextmanager
def suppress_refusal(code: str) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        if error.sqlstate != code:
            raise


@dataclass
class Seat:
    """A runner's instance and whichever session has it now."""

    world: World
    org: Organization
    worker_id: str
    instance: str
    session_id: str = ""
    boot_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def open(self, service: Caller) -> None:
        tokens = service.call("worker_token_hashes", p_worker=self.worker_id)
        facts = {"version": "1.0.0", "self_update": FILE, "capacity": 4}
        names = {"p_worker": self.worker_id, "p_instance": self.instance, "p_boot_id": self.boot_id, "p_facts": facts}
        # The token may have been revoked since it was listed, and the runner removed.
        with suppress_refusal("RY403"):
            if tokens:
                opened = service.call("open_worker_session", p_token=tokens[0]["token_id"], **names)
                self.session_id = opened["session_id"]


Call = Callable[..., Any]
Held = dict[tuple[int, int], dict[str, Any]]


def line(seat: Seat) -> Call:
    """A connection that speaks for whichever session has the seat."""
    caller = Caller(seat.world.database.connect("worker", {"sid": seat.session_id}))

    def call(function: str, **more: Any) -> Any:
        seat.world.act_as(caller, "worker", sub=seat.worker_id, sid=seat.session_id)
        return caller.call(function, **more)

    return call


def heartbeats(call: Call, held: Held) -> Acts:
    def heartbeat(dice: random.Random) -> None:
        running = [{"job": job, "attempt": attempt} for job, attempt in list(held)]
        for gone in call("worker_heartbeat", p_status="ONLINE", p_version="1.0.0", p_running=running)["lost"]:
            held.pop((gone["job"], gone["attempt"]), None)

    def news(dice: random.Random) -> None:
        facts = {"disk": dice.randrange(100), "capacity": dice.choice([3, 4])}
        call("worker_heartbeat", p_status="ONLINE", p_version=dice.choice(["1.0.0", "1.0.1"]), p_facts=facts)

    def drain(dice: random.Random) -> None:
        call("worker_heartbeat", p_status="DRAINING", p_version="1.0.0")

    return [heartbeat, heartbeat, heartbeat, news, news, drain]


def labour(call: Call, held: Held) -> Acts:
    def step(dice: random.Random) -> None:
        mine = [key for key in dice.sample(sorted(held), min(len(held), dice.randrange(4))) if held.pop(key, None)]
        for job, number in mine:
            call("worker_finish", p_job=job, p_attempt=number, p_status=dice.choice(["SUCCEEDED", "FAILED"]))
        answer = call("worker_claim", p_request_id=str(uuid.uuid4()), p_slots=dice.randrange(1, 5))
        held.update({(job["id"], job["attempt"]): job for job in answer["jobs"]})

    def work(dice: random.Random) -> None:
        for job, attempt in list(held):
            call("worker_report", p_job=job, p_attempt=attempt, p_phase="PLAN")

    def give_back(dice: random.Random) -> None:
        for job, attempt in list(held)[:1]:
            held.pop((job, attempt), None)
            call("worker_return_job", p_job=job, p_attempt=attempt)

    def close(dice: random.Random) -> None:
        if dice.random() < 0.1:
            call("worker_close_session", p_reason="storm")

    return [step, step, step, work, give_back, close]


def settings(org: Organization, person: User, seats: list[Seat]) -> Acts:
    def worker(dice: random.Random) -> str:
        return dice.choice(seats).worker_id

    def rename(dice: random.Random) -> None:
        name = f"n{uuid.uuid4().hex[:8]}"
        person.call(
            "update_worker", p_worker=worker(dice), p_options={"name": name, "capacity": dice.choice([2, 3, 4])}
        )

    def flags(dice: random.Random) -> None:
        person.call(dice.choice(["drain_worker", "resume_worker", "resume_worker"]), p_worker=worker(dice))

    def disable(dice: random.Random) -> None:
        person.call("set_worker_disabled", p_worker=worker(dice), p_disabled=dice.random() < 0.3)

    def rotate(dice: random.Random) -> None:
        person.call("rotate_worker_token", p_worker=worker(dice), p_token_hash=TOKEN_HASH, p_token_hint="abcd")

    def revoke(dice: random.Random) -> None:
        tokens = person.call("list_worker_tokens", p_worker=worker(dice))
        live = [token for token in tokens if token["is_live"]]
        if len(live) > 1:
            person.call("revoke_worker_token", p_token=live[-1]["id"])

    return [rename, flags, disable, rotate, revoke]


def replacement(org: Organization, person: User, seats: list[Seat]) -> Acts:
    def replace(dice: random.Random) -> None:
        if dice.random() < 0.2:
            gone = dice.choice(seats).worker_id
            made = person.call(
                "register_worker",
                p_org=org.id,
                p_name=f"n{uuid.uuid4().hex[:8]}",
                p_token_hash=TOKEN_HASH,
                p_token_hint="abcd",
                p_options={"is_assigned_to_all_modules": True, "capacity": 4, "allow_multiple_instances": True},
            )
            person.call("remove_worker", p_worker=gone)
            for seat in seats:
                if seat.worker_id == gone:
                    seat.worker_id = made["id"]

    return [replace]


def requests(org: Organization, person: User, seats: list[Seat], jobs: list[int]) -> Acts:
    def enqueue(dice: random.Random) -> None:
        modules = ",".join(org.modules[path] for path in dice.sample(MODULES, 4))
        made = person.call("enqueue_jobs", p_org=org.id, p_type="PLAN", p_modules=f"{{{modules}}}")
        jobs.extend(job["id"] for job in made)

    def update(dice: random.Random) -> None:
        jobs.append(person.call("update_one_worker", p_worker=dice.choice(seats).worker_id)["id"])

    def cancel(dice: random.Random) -> None:
        person.call("cancel_job", p_job=dice.choice(jobs), p_kind="GRACEFUL")

    return [enqueue, enqueue, enqueue, update, cancel]


def machinery(world: World, seats: list[Seat], numbers: "itertools.count[int]") -> Acts:
    service = Caller(world.database.connect("service_role"))
    owner = Caller(world.database.connect("postgres"))

    def sweep(dice: random.Random) -> None:
        service.call("sweep")

    def due(dice: random.Random) -> None:
        owner.connection.execute("update private.clocks set ran_at = ran_at - interval '10 minutes'")

    def quarter(dice: random.Random) -> None:
        owner.connection.execute(
            "update private.heartbeats as h set tick_at = tick_at - interval '15 minutes' where h.instance_id = ("
            "select instance_id from private.heartbeats order by random() limit 1)"
        )

    def silence(dice: random.Random) -> None:
        found = owner.rows("select instance_id from private.heartbeats order by random() limit 1")
        owner.connection.execute(
            "update private.heartbeats set last_seen_at = now() - interval '61 s' where instance_id = any (%s)", [found]
        )
        owner.connection.execute(
            "update private.live_jobs set lease_until = now() - interval '1 s', not_before_at = now() where job_id in ("
            "select job_id from private.live_jobs where instance_id = any (%s) or stage = 'BACKOFF' for update skip locked)",
            [found],
        )

    def publish(dice: random.Random) -> None:
        service.call("publish_release", p_spec={"version": f"1.1.{next(numbers)}", "artifacts": [ARTIFACT]})

    def come_back(dice: random.Random) -> None:
        dice.choice(seats).open(service)

    def take_over(dice: random.Random) -> None:
        seat = dice.choice(seats)
        seat.boot_id = str(uuid.uuid4())
        seat.open(service)

    return [sweep, due, quarter, silence, publish, come_back, come_back, come_back, take_over]


def watch(world: World, storm: Storm, troubles: list[str]) -> None:
    owner = Caller(world.database.connect("postgres"))
    while not storm.is_over():
        troubles.extend(f"stale: {row}" for row in owner.rows(REVIVED))
        troubles.extend(f"crowded: {row}" for row in owner.rows(CROWDED))


def test_no_copy_is_stale_and_nobody_waits_in_a_circle(fresh_world: World) -> None:
    world = fresh_world
    org = world.organization()
    world.up_for_long()
    for module in MODULES:
        org.module(module)
    seats = []
    for number in range(3):
        worker = org.worker(
            f"r{number}", is_assigned_to_all_modules=True, capacity=4, allow_multiple_instances=number == 0
        )
        seats += [Seat(world, org, worker, name) for name in (("a", "b") if number == 0 else ("a",))]
    for seat in seats:
        seat.open(world.service)
    jobs: list[int] = []
    numbers = itertools.count(1)
    parties: list[Acts] = []
    for _ in range(2):
        admin = org.member("admin")
        parties.append(settings(org, admin, seats) + replacement(org, admin, seats) + requests(org, admin, seats, jobs))
    parties += [machinery(world, seats, numbers) for _ in range(2)]
    for seat in seats:
        held: Held = {}
        parties += [heartbeats(call, held) + labour(call, held) for call in (line(seat), line(seat))]
    troubles: list[str] = []
    counter = Caller(world.database.connect("postgres"))
    storm = Storm(SECONDS, lambda: counter.one(FINISHED) > 10)
    with ThreadPoolExecutor(len(parties) + 1) as pool:
        pool.submit(watch, world, storm, troubles)
        list(pool.map(lambda pair: run(pair[1], SEED * 1000 + pair[0], storm, troubles), enumerate(parties)))
    assert troubles == []
    assert storm.has_enough()
    for job in jobs:
        assert world.replayed(job) == world.status(job)
