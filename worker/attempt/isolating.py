"""Whether jobs may run here at all: what the settings ask for, and whose jobs they are."""

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from worker.children.isolation import REMEDY, Isolation, find_isolation
from worker.enums import OPA
from worker.errors import ExitCode, Fatal
from worker.finder import EngineFinder
from worker.runtime_log import get_logger
from worker.settings.dispatcher import IsolationMode
from worker.settings.model import Settings

_AS_A_USER = "Start it as a user of its own, as the image and the systemd unit do."
_ALLOWED = "To let jobs be root nevertheless, set Engine.Isolation.Mode to `off`."
_NOT_ROOT = (
    f"{_AS_A_USER} Where it must be root, set Engine.Isolation.Ways to "
    "`user` (each job is then a user of its own) or give every job a container with a dispatcher."
)


def _programs(finder: EngineFinder) -> list[Path]:
    """The programs that jobs run: the engines, and the one that checks their plans."""
    opa = shutil.which(OPA, path=finder.path)
    engines = [engine.binary for each in finder.versions.values() for engine in each]
    return [*engines, Path(opa)] if opa else engines


async def settle_isolation(settings: Settings, environ: Mapping[str, str], finder: EngineFinder) -> Isolation:
    """Find the kind of isolation for jobs, log it once, and refuse to start where the settings require more."""
    found = await asyncio.to_thread(
        find_isolation,
        settings,
        environ,
        lambda: _programs(finder),
    )
    log = get_logger("worker.isolation")
    if found.is_enough_for_strangers:
        log.info("jobs are isolated", id="isolated", way=found.fact)
        return found
    if settings.engine.isolation.mode is IsolationMode.REQUIRED:
        message = f"Engine.Isolation.Mode is required, but jobs cannot be isolated here ({found.weakness})."
        raise Fatal(message, exit_code=ExitCode.SETTINGS, hint=REMEDY)
    what = "jobs are partly isolated" if found.way else "jobs are not isolated: they can do what this user can"
    log.warning(
        what, id="partly_isolated" if found.way else "not_isolated", way=found.fact, why=found.weakness, hint=REMEDY
    )
    return found


def check_root(isolation: Isolation) -> None:
    """Refuse to serve where every job would be root on this machine."""
    if isolation.leaves_jobs_root:
        message = (
            f"The runner is root, and no kind of isolation works here ({isolation.why}), so every job would be root."
        )
        raise Fatal(message, exit_code=ExitCode.SETTINGS, hint=f"{_AS_A_USER} {REMEDY} {_ALLOWED}")


def check_secrets(settings: Settings, worker: Mapping[str, Any]) -> None:
    """Refuse to read secrets for every organisation: groups of two of them may have the same path."""
    if _is_shared(worker) and (settings.sealing.key_files or settings.sealing.allowed_sources):
        message = "This is a shared runner, and jobs of one organisation could read the secrets of another's groups."
        hint = "Unset Sealing.KeyFiles and Sealing.AllowedSources; a runner of the organisation reads its secrets."
        raise Fatal(message, exit_code=ExitCode.SETTINGS, hint=hint)


def _is_shared(worker: Mapping[str, Any]) -> bool:
    return "org_id" in worker and worker["org_id"] is None


def check_strangers(isolation: Isolation, worker: Mapping[str, Any]) -> None:
    """Refuse to serve every organisation where one organisation's job could reach another's."""
    is_shared = _is_shared(worker)
    if is_shared and (common := isolation.common_places):
        message = f"This is a shared runner, and jobs of different organisations would write to {', '.join(common)}."
        hint = "Unset TF_PLUGIN_CACHE_DIR and Engine.Isolation.WritablePaths; a read-only mirror of providers can be shared."
        raise Fatal(message, exit_code=ExitCode.SETTINGS, hint=hint)
    if is_shared and not isolation.is_enough_for_strangers:
        message = "This is a shared runner, and jobs of different organisations could reach each other on this machine"
        raise Fatal(f"{message} ({isolation.weakness}).", exit_code=ExitCode.SETTINGS, hint=REMEDY)
    if is_shared and isolation.are_jobs_root:
        message = (
            "This is a shared runner and it runs as root, so jobs of every organisation would be root to the kernel."
        )
        raise Fatal(message, exit_code=ExitCode.SETTINGS, hint=_NOT_ROOT)
