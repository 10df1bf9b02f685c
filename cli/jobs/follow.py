"""Following a job: its log on stdout, what happens to it on stderr, until it has ended."""

import re
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from cli.client.api import Api
from cli.client.organization import Row
from cli.errors import ExitCode, NoAnswer
from cli.jobs.plan import plan_counts
from cli.output import is_coloured, say

ENDS: dict[str, ExitCode] = {
    "SUCCEEDED": ExitCode.DONE,
    "FAILED": ExitCode.JOB_FAILED,
    "CANCELLED": ExitCode.JOB_CANCELLED,
    "NEEDS_ATTENTION": ExitCode.JOB_NEEDS_ATTENTION,
}
Answer = TypeVar("Answer")
SOON, LATE, SLOWER = 0.3, 2.0, 1.3
PATIENCE_SECONDS = 300.0
WHY_SECONDS = 10.0
PAGE = 500
SGR = re.compile(r"\x1b\[[0-9;:]*m")
# CSI and OSC sequences, other strings up to their end, and lone escapes.
ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\\\)?|\x1b[ -/]*[0-~]?|\x9b[0-?]*[ -/]*[@-~]"
)
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x0c\x0e-\x1a\x1c-\x1f\x7f\x80-\x9f]")
SEEN = (
    "id,number,type,status,phase,module_path,worker_name,attempt,error,plan_summary,result,approvals_required,"
    "approvals_received,created_at,log_day"
)


@dataclass
class Follower:
    """One job's log from where it was read to, and its status as last told."""

    api: Api
    job: int
    attempt: int = 0
    seq: int = 0
    last_words: str = ""
    # A program reads stdout: the log goes where remarks go.
    is_for_program: bool = False
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    _asked_at: float | None = field(default=None, repr=False)
    _because: str = field(default="", repr=False)

    def until_end(self) -> Row:
        """Follow until the job has ended; its row then."""
        pause = SOON
        while True:
            row, has_changed = patiently(self._poll, self.sleep, self.clock)
            if row["status"] in ENDS:
                say(f"job {row['number']}: {describe(row)}")
                return row
            pause = SOON if has_changed else min(pause * SLOWER, LATE)
            self.sleep(pause)

    def _poll(self) -> tuple[Row, bool]:
        """The job's row after everything that it wrote so far was printed."""
        (row,) = self.api.rows("provision_jobs", id=f"eq.{self.job}", select=SEEN)
        before = self.seq
        has_changed = self._tell(row)
        self.print_log(row, row["attempt"])
        return row, has_changed or self.seq != before

    def print_log(self, row: Row, attempt: int) -> None:
        """Print what the log of one of the job's attempts has beyond what was printed."""
        if attempt != self.attempt:
            self.attempt, self.seq = attempt, 0
        out = sys.stderr if self.is_for_program else sys.stdout
        for chunk in log_chunks(self.api, row, self.attempt, self.seq):
            self.seq = chunk["seq"]
            out.write(shown(chunk["body"], is_coloured(out)))
        out.flush()

    def _tell(self, row: Row) -> bool:
        words = f"{describe(row)}{self._why() if row['status'] == 'QUEUED' else ''}"
        if words == self.last_words:
            return False
        self.last_words = words
        if row["status"] not in ENDS:
            say(f"job {row['number']}: {words}", is_dim=True)
        return True

    def _why(self) -> str:
        """Return the reason why the job waits; reads it only now and then, as it costs the database more than the job's row."""
        if self._asked_at is None or self.clock() - self._asked_at > WHY_SECONDS:
            self._asked_at = self.clock()
            self._because = f". {self.api.call('explain_queue', job=self.job).get('summary') or ''}"
        return self._because


def patiently(
    ask: Callable[[], Answer], sleep: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.monotonic
) -> Answer:
    """Run a call that can be repeated; wait for a project that is away, but not for ever."""
    pause, silent_since = SOON, None
    while True:
        try:
            return ask()
        except NoAnswer as error:
            if silent_since is None:
                silent_since = clock()
                say(f"{error.message}; trying again", is_dim=True)
            elif clock() - silent_since > PATIENCE_SECONDS:
                raise
        sleep(pause)
        pause = min(pause * SLOWER, LATE)


def log_chunks(api: Api, row: Row, attempt: int, after: int = 0) -> Iterator[dict[str, Any]]:
    """The chunks of one attempt's log beyond a place, a page at a time."""
    while row["log_day"]:
        page = api.rows(
            "job_log_chunks", **{"job_id": f"eq.{row['id']}", "attempt": f"eq.{attempt}", "and": log_days(row, attempt)},
            seq=f"gt.{after}", select="seq,step,body", order="seq", limit=str(PAGE),
        )  # fmt: skip
        yield from page
        if len(page) < PAGE:
            return
        after = page[-1]["seq"]


def log_days(row: Row, attempt: int) -> str:
    """The days of an attempt's log: without them the database locks and reads the partition of every day."""
    first = row["log_day"] if attempt == row["attempt"] else row["created_at"][:10]
    return f"(log_day.gte.{first},log_day.lte.{row['log_day']})"


def shown(text: str, has_colours: bool) -> str:
    """A log for this terminal: colours where they are wanted, and nothing else that could command it."""
    text = ESCAPES.sub(lambda found: found[0] if has_colours and SGR.fullmatch(found[0]) else "", text)
    return CONTROLS.sub("", text)


def describe(row: Row) -> str:
    """Describe a job's status, in a few words."""
    match row["status"]:
        case "AWAITING_APPROVAL":
            if not row["approvals_required"]:
                return "waits for somebody to confirm its plan"
            return f"waits for approval ({row['approvals_received']} of {row['approvals_required']})"
        case "QUEUED":
            return "queued"
        case "CLAIMED" | "PROCESSING":
            return f"running on {row['worker_name']}"
        case "SUCCEEDED":
            return f"succeeded{_counts(row)}"
        case "FAILED":
            return f"failed{_reason(row)}"
        case "CANCELLED":
            return f"cancelled{_reason(row)}"
        case _:
            return f"needs attention{_reason(row)}"


def _counts(row: Row) -> str:
    summary = row.get("plan_summary")
    return f": {plan_counts(summary)}" if summary else ""


def _reason(row: Row) -> str:
    error = row.get("error") or {}
    parts = [error.get("message"), error.get("hint")]
    return "".join(f"\n  {part}" for part in parts if part)


def call_keyed(api: Api, name: str, options: dict[str, Any], key: str | None, **arguments: Any) -> Any:
    """Call a function under a key, one of our own if none is given: after a lost answer the call is repeated, and starts nothing new."""
    keyed = {**options, "idempotency_key": key or f"cli-{uuid.uuid4()}"}
    return patiently(lambda: api.call(name, options=keyed, **arguments))
