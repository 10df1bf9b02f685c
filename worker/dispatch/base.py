"""Starting an executor elsewhere, and the order that it receives: one job, one attempt, one credential for nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from worker.api.replies import JobRef
from worker.settings.base import is_own, is_passed
from worker.settings.dispatcher import IsolationMode
from worker.settings.model import Settings

# The executor no longer exists and its exit code is unknown.
LOST = -1

COMMAND = ("runyard-worker", "run", "--single")
LABEL = "runyard.dev/job"
# The label in which an image lists its engines and their versions, as `tofu=1.12.6,…`.
ENGINES_LABEL = "runyard.dev/engines"


def executor_name(ref: JobRef, worker_id: str) -> str:
    """Name of whatever is started for an attempt; the same attempt has the same name, and another project's has another."""
    return f"runyard-job-{ref.job}-{ref.attempt}-{worker_id[:8].lower()}"


@dataclass(frozen=True)
class Order:
    """One attempt of one job, to be executed elsewhere."""

    job_id: int
    attempt: int
    worker_id: str
    url: str
    publishable_key: str
    token: str = field(repr=False)
    approved_hooks: tuple[str, ...] = ()
    passed: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables of the runner's own environment that its settings hand on."""

    @property
    def name(self) -> str:
        """Name of whatever is started for it."""
        return executor_name(JobRef(job=self.job_id, attempt=self.attempt), self.worker_id)

    @property
    def labels(self) -> dict[str, str]:
        """Marks by which a person finds it."""
        return {LABEL: str(self.job_id), "runyard.dev/attempt": str(self.attempt)}


def passed_variables(settings: Settings, environ: Mapping[str, str]) -> dict[str, str]:
    """Pick the part of the runner's environment that executors get: only variables that the dispatcher's settings name."""
    wanted = settings.dispatcher.data.pass_environment
    return {name: value for name, value in environ.items() if is_passed(name, wanted)}


def plain_environment(order: Order, settings: Settings) -> dict[str, str]:
    """Return the executor's plain variables; the runner's own token is never among them."""
    variables = {
        "WORKER_ID": order.worker_id,
        "WORKER_INSTANCE": settings.runner.instance,
        "SUPABASE_URL": settings.dispatcher.data.api_url or order.url,
        "SUPABASE_PUBLISHABLE_KEY": order.publishable_key,
        "RUNYARD_JOB_ID": str(order.job_id),
        "RUNYARD_JOB_ATTEMPT": str(order.attempt),
        "RUNYARD_SERVICE_DISCOVERY_HOST": settings.server.service_discovery_host or "",
        "RUNYARD__EXECUTOR__APPROVEDHOOKS": ",".join(order.approved_hooks),
        **_engine(settings),
        **_behaviour(settings),
    }
    # Empty variables stay unset, so that the image's own may count.
    return {**settings.dispatcher.data.environment, **{name: value for name, value in variables.items() if value}}


def _engine(settings: Settings) -> dict[str, str]:
    """Return the variables for finding, stopping and isolating engines; the paths are those of the image."""
    engine, isolation = settings.engine, settings.engine.isolation
    # The container itself meets `required`: the executor isolates its job once more where it can.
    mode = IsolationMode.AUTO if isolation.mode is IsolationMode.REQUIRED else isolation.mode
    return {
        "RUNYARD__ENGINE__ADDITIONALBINARYPATHS": ",".join(map(str, engine.additional_binary_paths)),
        "RUNYARD__ENGINE__STOPGRACESECONDS": str(engine.stop_grace_seconds),
        "RUNYARD__ENGINE__PASSENVIRONMENT": ",".join(_names_for_jobs(settings)),
        "RUNYARD__ENGINE__ISOLATION__MODE": mode.value,
        "RUNYARD__ENGINE__ISOLATION__WAYS": ",".join(way.value for way in isolation.ways),
        "RUNYARD__ENGINE__ISOLATION__READONLYPATHS": ",".join(map(str, isolation.read_only_paths)),
        "RUNYARD__ENGINE__ISOLATION__WRITABLEPATHS": ",".join(map(str, isolation.writable_paths)),
    }


def _names_for_jobs(settings: Settings) -> list[str]:
    """List the variables for jobs: those that a setting gives to the executor are meant for the job in it."""
    data = settings.dispatcher.data
    given = [name for name in data.environment if not is_own(name)]
    return list(dict.fromkeys([*settings.engine.pass_environment, *data.pass_environment, *given]))


def _behaviour(settings: Settings) -> dict[str, str]:
    """Return the variables for logs, hooks and keys, as on the runner itself; the files of keys are those of the image or of a mount."""
    stream = settings.job_log_stream
    levels = settings.logging.log_level.items()
    return {
        "RUNYARD__JOBLOGSTREAM__BATCHSIZELIMIT": str(stream.batch_size_limit),
        "RUNYARD__JOBLOGSTREAM__PERIODSECONDS": str(stream.period_seconds),
        "RUNYARD__JOBLOGSTREAM__EAGERLYEMITFIRSTEVENT": str(stream.eagerly_emit_first_event).lower(),
        "RUNYARD__LOGGING__FORMAT": settings.logging.format,
        **{f"RUNYARD__LOGGING__LOGLEVEL__{category}": level.value for category, level in levels},
        "RUNYARD__HOOKS__TIMEOUTSECONDS": str(settings.hooks.timeout_seconds),
        "RUNYARD__HOOKSPREAPPROVAL__ENABLED": str(settings.hooks_preapproval.enabled).lower(),
        "RUNYARD__SEALING__KEYFILES": ",".join(map(str, settings.sealing.key_files)),
        "RUNYARD__SEALING__ALLOWEDSOURCES": ",".join(settings.sealing.allowed_sources),
        "RUNYARD__SERVER__TIMEOUTSECONDS": str(settings.server.timeout_seconds),
    }


def secret_environment(order: Order) -> dict[str, str]:
    """Return the variables that may be secrets, for as long as the job runs."""
    return {**order.passed, "RUNYARD_JOB_TOKEN": order.token}


def whole_environment(order: Order, settings: Settings) -> dict[str, str]:
    """Return everything, for dispatchers that have one list of variables."""
    return {**plain_environment(order, settings), **secret_environment(order)}


class Execution(Protocol):
    """One executor that was started, and runs one attempt of one job."""

    why: str
    """The reason for its end, in the words of the place where it ran."""

    async def wait(self) -> int:
        """Return the executor's exit code once it has ended, or LOST."""

    async def stop(self) -> None:
        """Ask it to stop: its engine gets one interrupt and time to write its state."""

    async def kill(self) -> None:
        """End it now."""

    async def restart(self) -> bool:
        """Start it once more beside the files that it left, so that it delivers them; False where they go with it."""
        return False

    async def remove(self) -> None:
        """Leave nothing of it behind."""


class Dispatcher(Protocol):
    """Starts executors in one place."""

    async def start(self, order: Order) -> Execution:
        """Start an executor; the same order twice gives the same execution."""

    async def find(self, name: str) -> Execution | None:
        """Find an executor that an earlier process started, by its order's name; none where there is none any more."""

    async def probe(self) -> None:
        """Raise while no executor could be started: the place does not answer, refuses, or lacks the image."""

    async def engines(self) -> dict[str, str] | None:
        """List the engines of the executors' image; where nobody tells, the settings name them."""
        return None

    async def close(self) -> None:
        """Close the connections."""
