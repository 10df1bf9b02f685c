"""What an executor is told: one job, one attempt, one credential that is good for nothing else."""

from dataclasses import dataclass, field

from worker.settings import Settings

COMMAND = ("runyard-worker", "run", "--single")
LABEL = "runyard.dev/job"


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

    @property
    def name(self) -> str:
        """Name of whatever is started for it; the same attempt has the same name."""
        return f"runyard-job-{self.job_id}-{self.attempt}"

    @property
    def labels(self) -> dict[str, str]:
        """Marks by which a person finds it."""
        return {LABEL: str(self.job_id), "runyard.dev/attempt": str(self.attempt)}


def plain_environment(order: Order, settings: Settings) -> dict[str, str]:
    """Return the executor's variables that are no secret; the runner's own token is never among them."""
    stream = settings.job_log_stream
    environment = {
        "WORKER_ID": order.worker_id,
        "WORKER_INSTANCE": settings.runner.instance,
        "SUPABASE_URL": settings.dispatcher.data.api_url or order.url,
        "SUPABASE_PUBLISHABLE_KEY": order.publishable_key,
        "RUNYARD_JOB_ID": str(order.job_id),
        "RUNYARD_JOB_ATTEMPT": str(order.attempt),
        "RUNYARD__JOBLOGSTREAM__BATCHSIZELIMIT": str(stream.batch_size_limit),
        "RUNYARD__JOBLOGSTREAM__PERIODSECONDS": str(stream.period_seconds),
        "RUNYARD__JOBLOGSTREAM__EAGERLYEMITFIRSTEVENT": str(stream.eagerly_emit_first_event).lower(),
        "RUNYARD__ENGINE__STOPGRACESECONDS": str(settings.engine.stop_grace_seconds),
        "RUNYARD__HOOKS__TIMEOUTSECONDS": str(settings.hooks.timeout_seconds),
        "RUNYARD__HOOKSPREAPPROVAL__ENABLED": str(settings.hooks_preapproval.enabled).lower(),
        "RUNYARD__EXECUTOR__APPROVEDHOOKS": ",".join(order.approved_hooks),
    }
    if host := settings.server.service_discovery_host:
        environment["RUNYARD_SERVICE_DISCOVERY_HOST"] = host
    return environment


def secret_environment(order: Order) -> dict[str, str]:
    """Return the variable that is a secret, for as long as the job runs."""
    return {"RUNYARD_JOB_TOKEN": order.token}


def whole_environment(order: Order, settings: Settings) -> dict[str, str]:
    """Return everything, for dispatchers that have one list of variables."""
    return {**plain_environment(order, settings), **secret_environment(order)}
