"""Whether this runner can do jobs: it reports what it lacks, takes none meanwhile, and tries again until it can."""

import asyncio
import errno
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path

from worker.clock import Clock, backoff
from worker.errors import RunnerUnfit
from worker.process_status import ProcessStatus
from worker.runtime_log import get_logger

NOTE_FILE = "degraded.json"
LEAST_DISK_BYTES = 64 * 1024 * 1024
LEAST_MEMORY_BYTES = 64 * 1024 * 1024
_FIRST_PAUSE_SECONDS = 10.0
_LONGEST_PAUSE_SECONDS = 300.0
_DISK = frozenset({errno.ENOSPC, errno.EDQUOT})
_MEMORY = frozenset({errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN})
_DIRECTORY = frozenset({errno.EROFS, errno.EIO})

Probe = Callable[[], Awaitable[None]]


def lacking(error: OSError) -> RunnerUnfit | None:
    """Build the error for what the runner lacks, from the system's error; return None when it may be the job's own fault."""
    if error.errno in _MEMORY:
        return RunnerUnfit(
            f"The runner is out of memory, processes or files: {error.strerror}.", code="memory",
            hint="Lower its capacity, or give its machine more.",
        )  # fmt: skip
    return no_directory(error) if error.errno in _DISK | _DIRECTORY else None


def no_directory(error: OSError) -> RunnerUnfit:
    """Build the error for a runner that cannot use its own folders, for whatever reason."""
    words = error.strerror or str(error)
    if error.errno in _DISK:
        return RunnerUnfit(f"The runner's disk is full: {words}.", code="disk", hint="Make room on the runner's disk.")
    return RunnerUnfit(
        f"The runner's working directory cannot be used: {words}.", code="work_directory",
        hint="See that the directory exists, is mounted read-write and belongs to the runner's user.",
    )  # fmt: skip


class Fitness:
    """One process's opinion of itself."""

    def __init__(self, process_status: ProcessStatus, clock: Clock, home: Path, on_change: Callable[[], None]) -> None:
        """`on_change` lets the heartbeat tell at once; a note in `home` lets `doctor` tell."""
        self._process_status = process_status
        self._clock = clock
        self._note = home / NOTE_FILE
        self._on_change = on_change
        self._failures = 0
        self._changed = asyncio.Event()
        self._log = get_logger("worker.fitness")
        self._note.unlink(missing_ok=True)

    def lacks(self, what: RunnerUnfit) -> None:
        """Take no more jobs until a probe succeeds or some time has passed."""
        self._failures += 1
        if self._process_status.degraded is None:
            since = self._clock.now().isoformat()
            self._process_status.degraded = {"code": what.code, "reason": what.message, "since": since}
            self._log.error("degraded: taking no jobs", id="degraded", code=what.code, why=what.message, hint=what.hint)
            with suppress(OSError):
                self._note.write_text(json.dumps(self._process_status.degraded), encoding="utf-8")
            self._on_change()
        self._changed.set()

    def works(self) -> None:
        """A job got as far as its own work: the next lack begins with a short pause again."""
        self._failures = 0

    async def run(self, probes: Mapping[str, Probe]) -> None:
        """Try again while something is lacking; where there is no probe, the next job is the probe."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            while (degraded := self._process_status.degraded) is not None:
                pause = _FIRST_PAUSE_SECONDS * 2 ** min(self._failures - 1, 8)
                await self._clock.sleep(
                    backoff(0, first=min(pause, _LONGEST_PAUSE_SECONDS), most=_LONGEST_PAUSE_SECONDS)
                )
                await self._try(probes.get(str(degraded["code"])))

    async def _try(self, probe: Probe | None) -> None:
        try:
            if probe is not None:
                await probe()
        except Exception as error:  # noqa: BLE001  (however it failed, it has not succeeded, and is tried again)
            self._failures += 1
            self._log.warning("still degraded", why=str(error) or type(error).__name__)
            return
        self._log.info("no longer degraded: taking jobs again")
        self._process_status.degraded = None
        with suppress(OSError):
            self._note.unlink(missing_ok=True)
        self._on_change()


async def probe_disk(*folders: Path) -> None:
    """Raise what keeps jobs from being kept in these folders."""
    await asyncio.to_thread(_write_there, folders)


async def probe_memory() -> None:
    """Raise while the machine has no memory to start an engine with."""
    with suppress(OSError, ValueError, StopIteration):
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        line = next(line for line in text.splitlines() if line.startswith("MemAvailable:"))
        if int(line.split()[1]) * 1024 < LEAST_MEMORY_BYTES:
            raise RunnerUnfit("The machine has less than 64 MiB of memory left.", code="memory")


def has_no_room(folder: Path) -> bool:
    """Whether the disk of a folder has too little left for a job: bytes, or files where it counts them."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < LEAST_DISK_BYTES or (disk.f_files > 0 and disk.f_favail == 0)


def _write_there(folders: tuple[Path, ...]) -> None:
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if has_no_room(folder):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        probe = folder / f".probe.{os.getpid()}"
        try:
            probe.write_bytes(b"\0" * 65536)
        finally:
            probe.unlink(missing_ok=True)
