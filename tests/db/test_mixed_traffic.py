"""Everything at once: people, runners, changes of the fleet and the sweep. Nobody waits for each other in a circle."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg

from tests.db.storm import Storm
from tests.db.world import Caller, Organization, Runner, World
from tests.support.extent import soak_seconds

MODULES = [f"{group}/m{number}" for group in ("a", "a/b", "x") for number in range(4)]
# Refusals that callers may rightly get while others change the same things.
FAIR = {"RY404", "RY409", "RY410", "RY401", "RY423", "RY422"}


def people(org: Organization, person: Caller, jobs: list[int]) -> list[Callable[[random.Random], Any]]:
    def enqueue(dice: random.Random) -> None:
        module = org.modules[dice.choice(MODULES)]
        options = {"priority": dice.choice([10, 100])}
        made = person.call(
            "enqueue_job", p_org=org.id, p_type=dice.choice(["PLAN", "APPLY"]), p_module=module, p_options=options
        )
        jobs.append(made["id"])

    def enqueue_many(dice: random.Random) -> None:
        modules = ",".join(org.modules[path] for path in dice.sample(MODULES, 4))
        made = person.call("enqueue_jobs", p_org=org.id, p_type="PLAN", p_modules=f"{{{modules}}}")
        jobs.extend(job["id"] for job in made)

    def cancel(dice: random.Random) -> None:
        person.call("cancel_job", p_job=dice.choice(jobs), p_kind="GRACEFUL")

    def retry(dice: random.Random) -> None:
        jobs.append(person.call("retry_job", p_job=dice.choice(jobs))["id"])

    def explain(dice: random.Random) -> None:
        person.call("explain_queue", p_job=dice.choice(jobs))

    return [enqueue, enqueue, enqueue_many, cancel, retry, explain]


def admins(org: Organization, admin: Caller, workers: list[str]) -> list[Callable[[random.Random], Any]]:
    def assign(dice: random.Random) -> None:
        admin.call("assign_worker", p_worker=dice.choice(workers), p_path=dice.choice(["a", "a/b", "x", ""]))

    def unassign(dice: random.Random) -> None:
        admin.call("unassign_worker", p_worker=dice.choice(workers), p_path=dice.choice(["a", "a/b", "x"]))

    def flags(dice: random.Random) -> None:
        admin.call(dice.choice(["drain_worker", "resume_worker", "resume_worker"]), p_worker=dice.choice(workers))

    def settings(dice: random.Random) -> None:
        admin.call(
            "update_worker",
            p_worker=dice.choice(workers),
            p_options={"accepted_job_types": dice.choice([None, ["PLAN"]])},
        )

    def resolve(dice: random.Random) -> None:
        held = admin.rows("select id from public.provision_jobs where status = 'NEEDS_ATTENTION'")
        for job in held:
            admin.call("resolve_attention", p_job=job, p_action=dice.choice(["retry", "mark_failed"]))

    return [assign, unassign, flags, settings, resolve]


def machinery(world: World, service: Caller, runners: list[Runner]) -> list[Callable[[random.Random], Any]]:
    def sweep(dice: random.Random) -> None:
        service.call("sweep")

    def silence(dice: random.Random) -> None:
        instance = dice.choice(runners).instance_id
        with psycopg.connect(world.database.url, autocommit=True) as owner:
            owner.execute(
                "update private.heartbeats set last_seen_at = now() - interval '61 s' where instance_id = %s",
                [instance],
            )
            owner.execute(
                "update private.live_jobs set lease_until = now() - interval '1 s' where instance_id = %s", [instance]
            )
            owner.execute("update private.live_jobs set not_before_at = now() where stage = 'BACKOFF'")

    return [sweep, silence]


def labour(runner: Runner) -> list[Callable[[random.Random], Any]]:
    held: list[dict[str, Any]] = []

    def claim(dice: random.Random) -> None:
        held.extend(runner.claim(2))

    def work(dice: random.Random) -> None:
        for job in held:
            runner.report(job, dice.choice(["PLAN", "APPLY"]))
            runner.append(job, (1, "x\n"))

    def finish(dice: random.Random) -> None:
        while held:
            runner.finish(held.pop(), dice.choice(["SUCCEEDED", "FAILED"]))

    def heartbeat(dice: random.Random) -> None:
        answer = runner.heartbeat(running=[{"job": job["id"], "attempt": job["attempt"]} for job in held])
        for gone in answer["lost"]:
            held[:] = [job for job in held if job["id"] != gone["job"]]

    return [claim, claim, work, finish, heartbeat]


def run(acts: list[Callable[[random.Random], Any]], seed: int, storm: Storm, troubles: list[str]) -> None:
    dice = random.Random(seed)
    while not storm.is_over():
        try:
            dice.choice(acts)(dice)
        except psycopg.Error as error:
            if error.sqlstate not in FAIR:
                troubles.append(f"{error.sqlstate}: {error}")
        except IndexError:
            continue


def test_nobody_deadlocks_and_everything_adds_up(fresh_world: World) -> None:
    world = fresh_world
    org = world.organization()
    world.up_for_long()
    for module in MODULES:
        org.module(module)
    runners = [org.runner(f"r{n}", is_assigned_to_all_modules=n % 2 == 0, capacity=3) for n in range(6)]
    jobs: list[int] = []
    parties = [people(org, org.member("operator"), jobs) for _ in range(3)]
    parties += [admins(org, org.member("admin"), [runner.worker_id for runner in runners]) for _ in range(2)]
    parties += [machinery(world, Caller(world.database.connect("service_role")), runners) for _ in range(2)]
    parties += [labour(runner) for runner in runners]
    troubles: list[str] = []
    storm = Storm(soak_seconds(20), lambda: len(jobs) > 20)
    with ThreadPoolExecutor(len(parties)) as pool:
        list(pool.map(lambda pair: run(pair[1], pair[0], storm, troubles), enumerate(parties)))
    assert troubles == []
    assert storm.has_enough()
    for job in jobs:
        assert world.replayed(job) == world.status(job)
    crowded = world.owner.rows(
        "select state_key from private.live_jobs where stage <> 'WAITING' group by 1 having count(*) > 1"
    )
    stuck = world.owner.rows(
        "select state_key from private.live_jobs group by 1"
        " having bool_and(stage = 'WAITING') and state_key not in (table private.locked_states)"
    )
    assert (crowded, stuck) == ([], [])
