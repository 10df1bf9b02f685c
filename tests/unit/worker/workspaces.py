"""A job's workspace with real folders, a real log and a runner's own environment, for tests of single steps."""

import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.unit.worker.fakes import Network
from worker.api.replies import ClaimedJob, JobRef
from worker.attempt.context import JobContext
from worker.attempt.control import JobControl
from worker.attempt.spec import read_spec
from worker.attempt.workspace import Workspace
from worker.children.isolation import find_isolation
from worker.enums import JobType
from worker.finder import EngineFinder
from worker.logs.job_log import JobLog
from worker.logs.redactor import Redactor
from worker.logs.spool import Spool
from worker.settings.load import load_settings
from worker.statebackend.backend import StateBackend
from worker.statebackend.journal import take_seal

MODULE = {"source_kind": "inline", "source": {"files": {}}, "engine": "tofu"}


def open_workspace(
    base: Path, *, kind: JobType = JobType.PLAN, network: Network | None = None, environ: Mapping[str, str] | None = None,
    is_isolated: bool = False, module: Mapping[str, Any] | None = None, **job_facts: Any,
) -> Workspace:  # fmt: skip
    """Make the folders that `prepare` makes; `environ` is the runner's own environment."""
    home = base / "runner-home"
    own = {
        "WORKER_ID": str(uuid.UUID(int=1)), "WORKER_TOKEN": "ryw_x", "SUPABASE_URL": "http://x", "HOME": str(home),
        "PATH": os.environ["PATH"], "RUNYARD__WORKINGDIRECTORY__WORKINGDIRECTORY": str(base / "work"),
        "RUNYARD__ENGINE__ISOLATION__MODE": "auto" if is_isolated else "off",
        "RUNYARD__ENGINE__ISOLATION__READONLYPATHS": str(base), **(environ or {}),
    }  # fmt: skip
    settings = load_settings(environ=own)
    root = settings.working_directory.temp_directory / "job-1-1"
    for folder in (home, root / "source", root / "tmp", root / "home"):
        folder.mkdir(parents=True, exist_ok=True)
    network = network or Network(lambda *_: {})
    server = network.server()
    context = JobContext(
        settings, server, EngineFinder((), own), own, take_seal(base / "work"), isolation=find_isolation(settings, own)
    )
    payload = {"module": {**MODULE, **(module or {})}}
    job = ClaimedJob(id=1, attempt=1, type=kind, payload=payload, **job_facts)
    ref = JobRef(job=job.id, attempt=job.attempt)
    log = JobLog(Spool(base / "work" / "spool", 50), Redactor(), lambda _: None)
    space = Workspace(job, read_spec(job), context, log, JobControl(5), root, StateBackend(server, ref))
    space.env = {"PATH": os.environ["PATH"], "HOME": str(home)}
    return space


def log_of(space: Workspace) -> str:
    """Return the text of the job's log."""
    space.log.end_output()
    space.log.spool.cut()
    return "".join(chunk.body for chunk in space.log.spool.read(1, space.log.spool.last_seq))
