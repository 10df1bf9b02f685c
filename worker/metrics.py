"""Prometheus metrics on loopback, off unless a port is set."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from worker.enums import JobStatus, JobType
from worker.version import __version__


class Metrics:
    """Counts what an operator wants to see; a registry of its own, nothing global."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        info = Gauge("runyard_runner_info", "Version of the runner.", ["version"], registry=self.registry)
        info.labels(__version__).set(1)
        self._jobs = Counter(
            "runyard_runner_jobs_total", "Jobs that ended.", ["type", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "runyard_runner_job_seconds", "How long jobs took.", ["type"], registry=self.registry,
            buckets=(1, 5, 15, 60, 300, 900, 3600),
        )  # fmt: skip
        self._running = Gauge("runyard_runner_running_jobs", "Jobs that run now.", registry=self.registry)
        self._capacity = Gauge("runyard_runner_capacity", "Jobs that may run at a time.", registry=self.registry)
        self._connected = Gauge(
            "runyard_runner_connected", "Whether the last heartbeat was answered.", registry=self.registry
        )

    def watch(self, running: Callable[[], int], capacity: Callable[[], int], is_connected: Callable[[], bool]) -> None:
        """Read these whenever someone scrapes."""
        self._running.set_function(running)
        self._capacity.set_function(capacity)
        self._connected.set_function(is_connected)

    def note(self, kind: JobType, status: JobStatus, seconds: float) -> None:
        """Count a job that ended."""
        self._jobs.labels(kind.value, status.value).inc()
        self._seconds.labels(kind.value).observe(seconds)

    def serve(self, host: str, port: int) -> None:
        """Listen for those who scrape."""
        start_http_server(port, host, self.registry)
