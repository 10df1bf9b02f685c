"""An ordered set while several runners, the sweep and people's own jobs are at its modules: in order, once, and none forgotten."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from threading import Event
from typing import Any

import pytest

from tests.db.order_model import random_dag
from tests.db.test_set_order import connect, progress, start
from tests.db.world import Organization, Runner, World
from tests.support.extent import sampled
from tests.support.waiting import wait_until

LEDGER = """select o.path, e.event, e.id from private.set_members as m join public.modules as o on o.id = m.module_id
  join public.job_events as e on e.job_id = m.job_id and e.event in ('enqueued', 'succeeded') where m.set_id = %s"""
PLACED = "select count(*) from public.provision_jobs where org_id = %s and type = 'APPLY' and retry_of is null"


def again(act: Callable[[], Any], is_over: Event) -> None:
    """Do it until the set is done."""
    while not is_over.is_set():
        act()


def work(runner: Runner, chance: Random) -> None:
    """Take some jobs and end them, a few of them badly."""
    for job in runner.claim(2):
        is_bad = job["type"] == "APPLY" and chance.random() < 0.1
        runner.finish(job, "FAILED" if is_bad else "SUCCEEDED")


@pytest.mark.parametrize("seed", sampled(range(12), 3))
def test_nothing_runs_before_its_dependency_under_concurrent_runners_sweeps_and_requests(
    world: World, org: Organization, seed: int
) -> None:
    chance = Random(seed)
    modules, edges = random_dag(chance, most=24)
    for path in modules:
        org.module(path)
    connect(org, edges)
    runners = [org.runner(f"r{number}", is_assigned_to_all_modules=True, capacity=8) for number in range(3)]
    made, is_over = start(org, "APPLY", "dag"), Event()
    people = org.member("operator")
    asked = {"p_type": "PLAN", "p_modules": f"{{{','.join(list(org.modules.values())[::3])}}}"}

    def plan_some() -> None:
        for _ in range(30):
            people.call("enqueue_jobs", p_org=org.id, **asked)

    def retry() -> bool:
        if progress(org, made)["failed"]:
            org.owner.call("retry_set", p_set=made)
        return bool(progress(org, made)["status"] == "SUCCEEDED")

    acts: list[Callable[[], Any]] = [lambda one=one: work(one, chance) for one in runners]  # type: ignore[misc]
    with ThreadPoolExecutor(len(acts) + 2) as pool:
        running = [pool.submit(again, act, is_over) for act in (*acts, world.sweep)]
        running.append(pool.submit(plan_some))
        try:
            wait_until(retry, timeout_seconds=300, every_seconds=0.05)
        finally:
            is_over.set()
        for each in running:
            each.result()
    events = {(path, event): number for path, event, number in world.owner.rows(LEDGER, made)}
    late = [(before, after) for before, after in edges if events[before, "succeeded"] > events[after, "enqueued"]]
    assert (late, world.owner.one(PLACED, org.id)) == ([], len(modules))
