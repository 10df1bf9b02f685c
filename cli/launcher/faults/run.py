"""The record of one fault that the page shows: the events so far, in sentences."""

import time
from dataclasses import dataclass, field
from typing import Any

# The database's reactions, by the names of its own events.
SAID = {
    "lost": "The database noticed that the runner was lost, and put the job back into its queue.",
    "returned": "The runner gave the job back, and it waits for its next attempt.",
    "attention": "The database keeps the job for a person: a change that has begun is never run again automatically.",
    "resumed": "The runner is back, and continues the same attempt.",
    "late_report": "What the runner still said about the attempt that it had lost was written down, and changed nothing.",
}


@dataclass
class Run:
    """One fault from the button to the end."""

    kind: str
    job: int = 0
    number: int = 0
    is_running: bool = True
    has_recovered: bool = False
    steps: list[dict[str, Any]] = field(default_factory=list)
    lasts_until: float = 0
    lasts_seconds: float = 0
    _heard: int = 0

    def say(self, text: str) -> None:
        """Add a sentence."""
        self.steps.append({"at": time.time(), "text": text})

    def hear(self, events: list[dict[str, Any]]) -> None:
        """Add what the database did since the last time."""
        for event in events[self._heard :]:
            if event["event"] in SAID:
                self.say(SAID[event["event"]])
        self._heard = len(events)

    def follow(self, job: int, number: int) -> None:
        """Look at another job from now on."""
        self.job, self.number, self._heard = job, number, 0

    def last(self, seconds: float) -> None:
        """Announce how long it is going to be broken."""
        self.lasts_seconds, self.lasts_until = seconds, time.time() + seconds

    def as_json(self) -> dict[str, Any]:
        """For the page."""
        left = max(0.0, self.lasts_until - time.time())
        return {
            "kind": self.kind, "job": self.number, "is_running": self.is_running, "has_recovered": self.has_recovered,
            "steps": self.steps, "left_seconds": round(left), "lasts_seconds": round(self.lasts_seconds),
        }  # fmt: skip
