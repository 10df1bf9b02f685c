"""The log to which steps write: decodes, redacts, limits and spools a job's output."""

from collections import deque
from collections.abc import Callable, Iterable
from threading import RLock

from worker.logs.redactor import Redactor
from worker.logs.spool import Spool
from worker.logs.texts import OutputDecoder

MOST_BYTES = 32 * 1024 * 1024
# The end of a long output names the error; it is kept whatever was left out before it.
_TAIL_BYTES = 64 * 1024
# The text before the tail may be the second half of a secret: this much is read for the redactor and not shown.
_OVERLAP_BYTES = 16 * 1024


class JobLog:
    """One job's log; `write` runs in threads, so that neither disk nor regex delays a heartbeat."""

    def __init__(
        self, spool: Spool, redactor: Redactor, on_text: Callable[[int], None], *, most_bytes: int = MOST_BYTES
    ) -> None:
        """`on_text` receives the number of added lines."""
        self.spool = spool
        self.redactor = redactor
        self.step = "prepare"
        self._on_text = on_text
        self._decoder = OutputDecoder()
        self._lock = RLock()
        self._left = most_bytes
        self._most_bytes = most_bytes
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._left_out = 0

    def write(self, data: bytes) -> None:
        """Add a piece of a child's output."""
        with self._lock:
            if self._left_out:
                # Nothing of it but the end will be seen, so it is not read any further: a flood costs next to nothing.
                self._leave_out(data)
            else:
                self._add(self.redactor.feed(self._decoder.feed(data)))

    def end_output(self) -> None:
        """Release what was held back: the child has ended, or the step ends."""
        with self._lock:
            rest = self.redactor.feed(self._decoder.feed(b"", is_last=True)) + self.redactor.flush()
            self._decoder = OutputDecoder()
            if rest:
                self._add(rest if rest.endswith("\n") else rest + "\n")
            self._end_leaving_out()

    def hide(self, secrets: Iterable[str], expired: Iterable[str] = ()) -> None:
        """Mask these as well from now on, while the engine may be writing, and forget those that have expired."""
        with self._lock:
            self.redactor.add(*secrets, expired=expired)

    def say(self, text: str) -> None:
        """Add the runner's own words, as whole lines, limit or not."""
        with self._lock:
            self.end_output()
            self._spool(self.redactor.redact(text.rstrip("\n")) + "\n")

    def begin_step(self, step: str) -> None:
        """Open the log section of the next step."""
        with self._lock:
            self.end_output()
            self.spool.cut()
            self.step = step

    def _add(self, text: str) -> None:
        size = len(text.encode())
        if not size:
            return
        if size <= self._left and not self._left_out:
            self._left -= size
            self._spool(text)
            return
        self._leave_out((text + self.redactor.flush()).encode())

    def _leave_out(self, data: bytes) -> None:
        self._left_out += len(data)
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size - len(self._tail[0]) > _TAIL_BYTES + _OVERLAP_BYTES:
            self._tail_size -= len(self._tail.popleft())

    def _end_leaving_out(self) -> None:
        if not self._left_out:
            return
        tail = self.redactor.redact(OutputDecoder().feed(b"".join(self._tail), is_last=True))
        if self._left_out > self._tail_size:
            tail = tail[max(_OVERLAP_BYTES, len(tail) - _TAIL_BYTES) :]
            tail = tail[tail.find("\n", 0, -1) + 1 :]
            dropped = max(0, self._left_out - len(tail.encode()))
            notice = (
                f"[runyard] truncated: {dropped:,} bytes of output are left out here, because a job's log is limited"
            )
            tail = f"\n{notice} to {self._most_bytes:,} bytes. The end of the output follows.\n{tail}"
        self._spool(tail if tail.endswith("\n") else tail + "\n")
        self._tail.clear()
        self._tail_size = self._left_out = 0
        self._left = 0

    def _spool(self, text: str) -> None:
        if not text:
            return
        was_full = self.spool.is_disk_full
        self.spool.append(self.step, text)
        if self.spool.is_disk_full and not was_full:
            self.spool.append(
                self.step, "[runyard] truncated: the runner's disk is full; some of this log may be lost.\n"
            )
        self._on_text(text.count("\n") or 1)
