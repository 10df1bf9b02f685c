"""The claim against an independent model of its rules, one call after the other: exactly who, how many, and in which order."""

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.db.claim_model import ModelJob, ModelRunner, Rules, may_claim
from tests.db.world import Organization, Runner, World
from tests.support.extent import sampled

GROUPS = ["a", "a/b", "a/b/c", "x", "x/y"]
LABELS = ["gpu", "big"]
TYPES = ["PLAN", "APPLY", "DRIFT"]
ENGINES = ["terraform", "tofu"]
ALL_TYPES = frozenset([*TYPES, "DESTROY", "OUTPUT", "DEPLOY_WORKER", "UPDATE_WORKER", "REMOVE_WORKER"])


def random_engines(dice: random.Random) -> tuple[list[str] | None, dict[str, Any]]:
    """The engines that jobs find with a runner, and how it reports them; a third of the runners dispatch to an image."""
    engines = dice.choice([None, ["tofu"], ["terraform"], ["tofu", "terraform"]])
    told = None if engines is None else dict.fromkeys(engines, "1.10.0")
    if dice.random() < 0.67:
        return engines, {"engines": told}
    host = dict.fromkeys(dice.choice([[], ["tofu"], ["terraform"]]), "1.10.0")
    image = {} if told is None else {"dispatcher_engines": told}
    return engines, {"dispatcher": "docker", "engines": host, "engine_note": "no engine was found", **image}


@dataclass
class Twin:
    """The same fleet and queue twice: in the database and in the model."""

    world: World
    orgs: list[Organization]
    dice: random.Random
    runners: dict[str, Runner] = field(default_factory=dict)
    fleet: dict[str, ModelRunner] = field(default_factory=dict)
    jobs: dict[int, ModelJob] = field(default_factory=dict)
    rules: Rules = field(default_factory=Rules)

    def add_runner(self, number: int) -> None:
        dice, name, instance = self.dice, f"r{number}", self.dice.choice(["east", "west"])
        is_shared = dice.random() < 0.15
        org = dice.choice(self.orgs)
        options: dict[str, Any] = {
            "labels": dice.sample(LABELS, dice.randint(0, 2)),
            "capacity": dice.choice([1, 2, 5]),
        }
        types = dice.choice([None, None, None, ["PLAN", "DRIFT"]])
        if types:
            options["accepted_job_types"] = types
        paths = [] if is_shared else dice.sample([*GROUPS, ""], dice.randint(0, 2))
        is_everywhere = not is_shared and dice.random() < 0.3
        if is_shared:
            worker = self.world.shared_worker(name, **options)
        else:
            worker = org.worker(name, assignments=paths, is_assigned_to_all_modules=is_everywhere, **options)
        engines, facts = random_engines(dice)
        self.runners[name] = self.world.connect_runner(worker, instance, **facts)
        self.fleet[name] = ModelRunner(
            name,
            None if is_shared else org.id,
            frozenset(paths),
            is_everywhere,
            frozenset(options["labels"]),
            frozenset(types) if types else ALL_TYPES,
            frozenset([instance]),
            options["capacity"],
            None if engines is None else frozenset(engines),
        )

    def add_job(self, modules_per_group: int) -> None:
        dice, org = self.dice, self.dice.choice(self.orgs)
        number = dice.randint(1, modules_per_group)
        module = f"{dice.choice(GROUPS)}/m{number}"
        labels, priority, kind = (
            dice.sample(LABELS, dice.choice([0, 0, 0, 1])),
            dice.choice([10, 100, 100]),
            dice.choice(TYPES),
        )
        own = [name for name, runner in self.fleet.items() if runner.org in (None, org.id)]
        pin = dice.choice(own) if own and dice.random() < 0.1 else None
        instance = dice.choice(["east", "west"]) if dice.random() < 0.1 else None
        options: dict[str, Any] = {"labels": labels, "priority": priority}
        if pin:
            options["pinned_worker_id"] = self.runners[pin].worker_id
        if instance:
            options["pinned_instance_name"] = instance
        job = org.enqueue(module, kind, **options)
        self.jobs[job] = ModelJob(
            job, org.id, module, kind, frozenset(labels), priority, pin, instance, ENGINES[number % 2]
        )


def build(world: World, seed: int, runners: int) -> Twin:
    twin = Twin(world, [world.organization(), world.organization()], random.Random(seed))
    for org in twin.orgs:
        for group in GROUPS:
            for number in range(1, 4):
                org.module(f"{group}/m{number}", engine=ENGINES[number % 2])
    for number in range(runners):
        twin.add_runner(number)
    return twin


# ---------------------------------------------------------------------- one after the other


def next_in_state(twin: Twin, queued: set[int]) -> list[ModelJob]:
    """The jobs that are next in their module: the most urgent, then the oldest, where none is running."""
    busy = {(twin.jobs[job].org, twin.jobs[job].module) for runner in twin.fleet.values() for job in runner.jobs}
    first: dict[tuple[str, str], ModelJob] = {}
    for job in sorted((twin.jobs[job] for job in queued), key=lambda job: (job.priority, job.id)):
        first.setdefault((job.org, job.module), job)
    return [job for module, job in first.items() if module not in busy]


def check_claim(twin: Twin, name: str, queued: set[int]) -> None:
    runner, slots = twin.fleet[name], twin.dice.randint(1, 4)
    allowed = [
        job for job in next_in_state(twin, queued) if may_claim(runner, job, list(twin.fleet.values()), twin.rules)
    ]
    claimed = [job["id"] for job in twin.runners[name].claim(slots)]
    assert set(claimed) <= {job.id for job in allowed}, f"{name} claimed against the rules"
    assert len(claimed) == min(slots, runner.capacity - len(runner.jobs), len(allowed)), f"{name} left work it may take"
    most_urgent = sorted(job.priority for job in allowed)[: len(claimed)]
    assert sorted(twin.jobs[job].priority for job in claimed) == most_urgent
    runner.jobs |= set(claimed)
    queued -= set(claimed)


def change_health(twin: Twin, name: str) -> None:
    runner, model = twin.runners[name], twin.fleet[name]
    model.is_well = not model.is_well
    if model.is_well:
        runner.heartbeat()
    elif twin.dice.random() < 0.5:
        twin.world.owner.connection.execute(
            "update private.heartbeats set last_seen_at = now() - interval '61 s' where instance_id = %s",
            [runner.instance_id],
        )
    else:
        runner.heartbeat("DRAINING")


def degrade(twin: Twin, name: str) -> None:
    model = twin.fleet[name]
    model.is_degraded = not model.is_degraded
    if model.is_well:
        reason = {"code": "disk", "reason": "The disk is full.", "since": "2026-01-01T00:00:00Z"}
        twin.runners[name].heartbeat(p_facts={"degraded": reason if model.is_degraded else None})
    else:
        model.is_degraded = not model.is_degraded


def change_rules(twin: Twin) -> None:
    """An organisation begins or ends maintenance, or changes its decision about shared runners."""
    org = twin.dice.choice(twin.orgs)
    if org.id in twin.rules.maintenance:
        twin.rules.maintenance.discard(org.id)
        org.owner.call("set_maintenance", p_org=org.id)
    elif twin.dice.random() < 0.3:
        twin.rules.maintenance.add(org.id)
        until = twin.world.owner.one("select now() + interval '1 hour'")
        org.owner.call("set_maintenance", p_org=org.id, p_until=until, p_reason="move")
    else:
        use = twin.dice.choice(["NEVER", "NONE_FITS", "NONE_AVAILABLE"])
        twin.rules.shared_use[org.id] = use
        org.use_shared(use)


@pytest.mark.parametrize("seed", sampled(range(6), 2))
def test_every_claim_follows_the_rules(fresh_world: World, seed: int) -> None:
    twin = build(fresh_world, seed, 10)
    queued: set[int] = set()
    for _ in range(120):
        name = twin.dice.choice(list(twin.fleet))
        act = twin.dice.choice(
            ["enqueue", "enqueue", "claim", "claim", "claim", "finish", "health", "degrade", "rules"]
        )
        if act == "enqueue":
            twin.add_job(3)
            queued.add(max(twin.jobs))
        elif act == "claim":
            check_claim(twin, name, queued)
        elif act == "finish" and twin.fleet[name].jobs:
            job = twin.fleet[name].jobs.pop()
            twin.runners[name].finish({"id": job, "attempt": 1}, twin.dice.choice(["SUCCEEDED", "FAILED"]))
        elif act == "health":
            change_health(twin, name)
        elif act == "degrade":
            degrade(twin, name)
        elif act == "rules":
            change_rules(twin)
