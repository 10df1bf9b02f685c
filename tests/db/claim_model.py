"""The claim's rules, written a second time and without SQL, to hold the database to them."""

import random
from dataclasses import dataclass, field

ALL_MODULES = 1000
SHARED = 2000
LABELS = ("gpu", "zone=eu", "arm")
TYPES = ("PLAN", "APPLY", "DESTROY", "OUTPUT", "DRIFT")
EVERY_TYPE = (*TYPES, "DEPLOY_WORKER", "UPDATE_WORKER", "REMOVE_WORKER", "VERIFY_IDENTITY")
GROUPS = tuple(f"{a}/{b}/{c}" for a in ("net", "app", "data") for b in ("eu", "us") for c in ("prod", "test"))


@dataclass
class ModelWorker:
    """A runner as a person describes it."""

    name: str
    org: str | None
    assignments: list[str]
    is_everywhere: bool
    labels: set[str]
    types: set[str]
    capacity: int
    instances: list[str]
    trouble: str
    id: str = ""

    @property
    def can_work(self) -> bool:
        return not self.trouble


@dataclass(frozen=True)
class ModelJob:
    """A job as a person asks for it."""

    id: int
    org: str
    module: str
    type: str
    priority: int
    labels: frozenset[str]
    pinned_worker: str | None
    pinned_instance: str | None


def distance(worker: ModelWorker, job: ModelJob) -> int | None:
    """How near a runner is to a job: levels up to its assignment, then all modules, then shared."""
    if worker.org is None:
        return SHARED
    if worker.org != job.org:
        return None
    above = [path for path in worker.assignments if job.module == path or job.module.startswith(path + "/")]
    if above:
        return min(job.module.count("/") - path.count("/") for path in above)
    return ALL_MODULES if worker.is_everywhere else None


def fits(worker: ModelWorker, instance: str, job: ModelJob) -> bool:
    """Whether this instance may run this job at all."""
    return (
        distance(worker, job) is not None
        and job.type in worker.types
        and job.labels <= worker.labels
        and job.pinned_worker in (None, worker.id)
        and job.pinned_instance in (None, instance)
    )


def nearer(job: ModelJob, than: int, workers: list[ModelWorker]) -> list[ModelWorker]:
    """Those who could take the job and are nearer."""
    return [worker for worker in workers if takers(job, [worker]) and (distance(worker, job) or 0) < than]


def takers(job: ModelJob, workers: list[ModelWorker]) -> list[ModelWorker]:
    """The nearest of those who can take the job when all are idle."""
    able = [w for w in workers if w.can_work and any(fits(w, instance, job) for instance in w.instances)]
    best = min((distance(worker, job) or 0 for worker in able), default=0)
    return [worker for worker in able if (distance(worker, job) or 0) == best]


def random_worker(dice: random.Random, number: int, org: str | None) -> ModelWorker:
    """A runner with random rules; one in four cannot work just now."""
    paths = [group.rsplit("/", dice.randrange(3))[0] for group in dice.sample(GROUPS, dice.randrange(4))]
    instances = ["one", "two"][: 1 + (number % 3 == 0)]
    return ModelWorker(
        name=f"runner-{number}",
        org=org,
        assignments=sorted(set(paths)) if org else [],
        is_everywhere=org is not None and (not paths or dice.random() < 0.2),
        labels=set(dice.sample(LABELS, dice.randrange(len(LABELS) + 1))),
        types=set(EVERY_TYPE if dice.random() < 0.8 else dice.sample(TYPES, 3)),
        capacity=dice.randint(1, 4),
        instances=instances,
        trouble=dice.choice(["draining", "disabled", "offline"]) if dice.random() < 0.25 else "",
    )


@dataclass
class JobWish:
    """What is asked of the database; the job's number comes from there."""

    org: str
    module: str
    type: str
    options: dict[str, object] = field(default_factory=dict)

    def job(self, number: int) -> ModelJob:
        labels = self.options.get("labels", [])
        assert isinstance(labels, list)
        worker, instance = self.options.get("pinned_worker_id"), self.options.get("pinned_instance_name")
        priority = int(str(self.options.get("priority", 100)))
        return ModelJob(
            number,
            self.org,
            self.module,
            self.type,
            priority,
            frozenset(labels),
            str(worker) if worker else None,
            str(instance) if instance else None,
        )


def random_wish(dice: random.Random, org: str, modules: list[str], workers: list[ModelWorker]) -> JobWish:
    """A job with random needs; most need little, as in life."""
    options: dict[str, object] = {}
    if dice.random() < 0.3:
        options["labels"] = dice.sample(LABELS, dice.randint(1, 2))
    if dice.random() < 0.3:
        options["priority"] = dice.choice([10, 50, 200])
    if dice.random() < 0.1:
        options["pinned_worker_id"] = dice.choice([worker.id for worker in workers if worker.org in (None, org)])
    if dice.random() < 0.1:
        options["pinned_instance_name"] = dice.choice(["one", "two", "three"])
    return JobWish(org, dice.choice(modules), dice.choice(TYPES), options)
