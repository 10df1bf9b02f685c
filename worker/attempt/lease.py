"""The time for which this process may still treat an attempt as its own."""

from dataclasses import dataclass

# The engine needs time between the interrupt and the end of the lease to stop in order.
_MARGIN = 0.25


@dataclass
class Lease:
    """Counted on the runner's monotonic clock from the moment the request was *sent*.

    The server began to count when it received the request, which is later; so this lease always ends first.
    """

    sent_at: float
    seconds: float

    @property
    def stop_at(self) -> float:
        """When to interrupt the work, so that it has stopped before the lease can have run out."""
        return self.sent_at + self.seconds * (1 - _MARGIN)

    @property
    def ends_at(self) -> float:
        """When the lease can have run out."""
        return self.sent_at + self.seconds

    def renew(self, sent_at: float, seconds: float) -> None:
        """Take over an answer; answers may arrive out of order, so an older one changes nothing."""
        if sent_at > self.sent_at:
            self.sent_at, self.seconds = sent_at, seconds
