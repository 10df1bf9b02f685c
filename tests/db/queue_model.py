"""A model of a job's owner, status and attempts, written without SQL: the database must agree with it after every step."""

from dataclasses import dataclass, field

LIVE = {"QUEUED", "CLAIMED", "PROCESSING", "NEEDS_ATTENTION"}
RUNNING = {"CLAIMED", "PROCESSING"}
FINAL = {"SUCCEEDED", "FAILED", "CANCELLED"}


@dataclass
class ModelJob:
    """One job as the model sees it."""

    id: int
    module: str
    status: str
    kind: str = "APPLY"
    attempt: int = 0
    returned: int = 0
    max_attempts: int = 3
    owner: str = ""
    worker: str = ""
    instance: str = ""
    holder: str = ""
    is_resumed: bool = False
    has_touched: bool = False
    is_cancelling: bool = False
    lost_by: set[str] = field(default_factory=set)

    def claim(self, attempt: int, session: str, worker: str, instance: str) -> None:
        """A runner gets it: only a queued job, always as the next attempt."""
        assert self.status == "QUEUED", f"job {self.id} was claimed while {self.status}"
        assert attempt == self.attempt + 1, f"job {self.id}: attempt {attempt} after {self.attempt}"
        self.status, self.attempt, self.owner, self.worker = "CLAIMED", attempt, session, worker
        self.instance = instance
        self.has_touched = self.is_cancelling = self.is_resumed = False

    def report(self, phase: str) -> None:
        self.status = "PROCESSING"
        self.has_touched = self.has_touched or phase in ("APPLY", "DESTROY")

    def end(self, status: str) -> None:
        self.status, self.owner, self.holder = status, "", ""

    def give_back(self) -> None:
        """Back to the queue, and the try does not count; but a job with a requested cancellation ends."""
        self.returned += 1
        self.end("CANCELLED" if self.is_cancelling else "QUEUED")

    def lose(self) -> None:
        """Its runner is lost: a person decides if infrastructure was touched; else it is tried again, but not for ever."""
        if self.has_touched:
            self.end("NEEDS_ATTENTION")
            self.holder = self.instance
        elif self.is_cancelling:
            self.end("CANCELLED")
        elif (self.lost_by and self.worker not in self.lost_by) or self.attempt - self.returned >= self.max_attempts:
            self.end("FAILED")
        else:
            self.lost_by.add(self.worker)
            self.end("QUEUED")

    def cancel(self) -> None:
        if self.status in RUNNING:
            self.is_cancelling = True
        else:
            self.end("CANCELLED")

    def retry_after_attention(self) -> None:
        self.max_attempts = min(20, max(self.max_attempts, self.attempt + 1))
        self.end("QUEUED")

    def is_held_by(self, instance: str, attempt: int) -> bool:
        """Whether this is the attempt that may still return: nobody has released the job."""
        return bool(self.holder) and (self.holder, self.attempt) == (instance, attempt)

    def resume(self, session: str) -> None:
        self.status, self.owner, self.holder, self.is_resumed = "PROCESSING", session, "", True

    def is_owned(self, session: str, attempt: int) -> bool:
        return self.status in RUNNING and (self.owner, self.attempt) == (session, attempt)


@dataclass(frozen=True)
class Attempt:
    """A claim as a process remembers it, for as long as it likes."""

    job: int
    attempt: int
    seat: int
    session: str
