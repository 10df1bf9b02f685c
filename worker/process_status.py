"""The status of the process as a whole, which the loops share."""

from dataclasses import dataclass, field

from worker.clock import Skew
from worker.enums import WorkerStatus
from worker.program import Handover


@dataclass
class ProcessStatus:
    """Whether the runner wants work, how much, and whether it receives messages from the server."""

    capacity: int = 1
    is_leaving: bool = False
    is_drained_by_server: bool = False
    is_updating: bool = False
    is_single: bool = False
    is_connected: bool = False
    has_claimed: bool = False
    last_error: str | None = None
    jobs_failed: int = field(default=0)
    handover: Handover | None = None
    degraded: dict[str, str] | None = None
    # How far the machine's clock is from the server's.
    skew: Skew = field(default_factory=Skew)
    # In which clouds it has proven that it can act; none while nobody knows.
    clouds: list[str] | None = None
    # Engines of the executors' image; none while nobody knows.
    image_engines: dict[str, str] | None = None

    @property
    def status(self) -> WorkerStatus:
        """The status that the heartbeat sends and the runners page shows."""
        return WorkerStatus.DRAINING if self.is_draining else WorkerStatus.ONLINE

    @property
    def is_draining(self) -> bool:
        """Whether the runner finishes its running jobs and accepts no new ones."""
        return self.is_leaving or self.is_drained_by_server or self.is_updating

    def free_slots(self, running: int) -> int:
        """Count the jobs that the runner may claim now."""
        if self.is_draining or self.degraded or (self.is_single and self.has_claimed):
            return 0
        return max(0, (1 if self.is_single else self.capacity) - running)
