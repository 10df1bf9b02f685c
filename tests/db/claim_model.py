"""The claim's rules in Python, written from the design and not from the SQL: the SQL must agree with them."""

from dataclasses import dataclass, field


@dataclass
class ModelRunner:
    """A runner as the rules see it."""

    name: str
    org: str | None
    paths: frozenset[str]
    is_everywhere: bool
    labels: frozenset[str]
    types: frozenset[str]
    instances: frozenset[str]
    capacity: int
    # What its jobs find: on its machine, or, where it dispatches, in its image. None: it has not reported that.
    engines: frozenset[str] | None = None
    is_well: bool = True
    is_degraded: bool = False
    jobs: set[int] = field(default_factory=set)

    @property
    def is_available(self) -> bool:
        """Enabled, online, not draining, not degraded, with a free slot."""
        return self.is_well and not self.is_degraded and len(self.jobs) < self.capacity


@dataclass(frozen=True)
class ModelJob:
    """A job as the rules see it."""

    id: int
    org: str
    module: str
    type: str
    labels: frozenset[str]
    priority: int
    pinned_runner: str | None = None
    pinned_instance: str | None = None
    engine: str = "tofu"


@dataclass
class Rules:
    """Decisions of organisations: when shared runners may help them, and whether they start no new jobs just now."""

    shared_use: dict[str, str] = field(default_factory=dict)
    maintenance: set[str] = field(default_factory=set)


SHARED, EVERYWHERE = 10_000, 1_000


def distance(runner: ModelRunner, job: ModelJob) -> int | None:
    """Return the distance of a runner from a job's module; None when it may not serve it."""
    if runner.org is None:
        return SHARED
    if runner.org != job.org:
        return None
    depth = job.module.count("/") + 1
    steps = [
        EVERYWHERE if path == "" else depth - (path.count("/") + 1)
        for path in runner.paths
        if path in ("", job.module) or job.module.startswith(path + "/")
    ]
    if runner.is_everywhere:
        steps.append(EVERYWHERE)
    return min(steps, default=None)


def fits(runner: ModelRunner, job: ModelJob) -> bool:
    """Whether the rules that do not change by the minute allow this runner to serve this job."""
    return (
        distance(runner, job) is not None
        and job.labels <= runner.labels
        and job.type in runner.types
        and job.pinned_runner in (None, runner.name)
        and (job.pinned_instance is None or job.pinned_instance in runner.instances)
        and (runner.engines is None or job.engine in runner.engines)
    )


def may_claim(runner: ModelRunner, job: ModelJob, fleet: list[ModelRunner], rules: Rules) -> bool:
    """Whether this runner may claim this job now: it fits, is available, and nobody nearer is."""
    if job.org in rules.maintenance or not (fits(runner, job) and runner.is_available):
        return False
    mine = distance(runner, job)
    assert mine is not None
    use = rules.shared_use.get(job.org, "NONE_AVAILABLE")
    if mine == SHARED and use == "NEVER":
        return False
    nearer = [other for other in fleet if fits(other, job) and (distance(other, job) or 0) < mine]
    if mine == SHARED and use == "NONE_FITS":
        return not nearer
    return not any(other.is_available for other in nearer)
