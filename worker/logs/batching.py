"""The time at which a batch of log lines is due; times are the runner's monotonic seconds."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class BatchRules:
    """The settings of `JobLogStream`."""

    period_seconds: float = 5.0
    most_events: int = 50
    is_first_at_once: bool = True


@dataclass
class Batch:
    """The lines that were written since the last batch left."""

    rules: BatchRules
    last_sent_at: float = float("-inf")
    events: int = 0
    first_event_at: float = field(default=float("inf"))

    def add(self, events: int, now: float) -> None:
        """Count lines that were written just now."""
        if events and not self.events:
            self.first_event_at = now
        self.events += events

    def due_at(self) -> float:
        """Return when the batch has to leave: now or earlier, later, or never while it is empty."""
        if not self.events:
            return float("inf")
        if self.events >= self.rules.most_events:
            return float("-inf")
        is_fresh = self.first_event_at - self.last_sent_at >= self.rules.period_seconds
        if self.rules.is_first_at_once and is_fresh:
            return self.first_event_at
        return self.first_event_at + self.rules.period_seconds

    def sent(self, now: float) -> None:
        """Begin a new batch."""
        self.last_sent_at, self.events = now, 0
        self.first_event_at = float("inf")
