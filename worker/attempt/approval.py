"""Approval of hooks: where it is on, only hooks whose content is in a directory on the runner's machine may run."""

import hashlib
from collections.abc import Collection, Iterator
from pathlib import Path

from worker.attempt.spec import JobSpec
from worker.errors import JobFailed
from worker.settings import Settings

_LARGEST_HOOK = 1024 * 1024


def check_approved(name: str, script: bytes, directory: Path, approved: Collection[str] = ()) -> None:
    """Refuse a script whose content is not among the approved files, nor among those that a dispatching runner sent."""
    found = digest(script)
    if found not in approved and found not in set(_approved(directory)):
        raise JobFailed(
            f"The hook {name} (sha256 {found}) is not approved on this runner.", code="hook_not_approved",
            hint=f"Put a file with exactly this content into {directory} on the runner, or change the hook.",
        )  # fmt: skip


def approved_hooks(spec: JobSpec, settings: Settings) -> list[str]:
    """The job's hooks that this runner approves, by SHA-256, for an executor that has no such directory."""
    if not settings.hooks_preapproval.enabled:
        return []
    wanted = {digest(script.encode()) for script in spec.scripts()}
    return sorted(wanted & set(_approved(settings.hooks_preapproval.preapproved_hooks_directory)))


def digest(script: bytes) -> str:
    """The content's name."""
    return hashlib.sha256(script).hexdigest()


def _approved(directory: Path) -> Iterator[str]:
    if not directory.is_dir():
        return
    for file in sorted(directory.rglob("*")):
        if file.is_file() and file.stat().st_size <= _LARGEST_HOOK:
            yield digest(file.read_bytes())
