"""Keeping a state that the engine could not hand to its backend."""

from pathlib import Path

from worker.api.replies import JobRef

ERRORED_STATE = "errored.tfstate"


def rescue_state(root: Path, keep: Path, ref: JobRef) -> str | None:
    """Copy what the engine left below a job's directory to a safe place, and return where it is."""
    left = next((path for path in root.rglob(ERRORED_STATE) if path.is_file() and not path.is_symlink()), None)
    if left is None:
        return None
    keep.mkdir(parents=True, exist_ok=True, mode=0o700)
    target = keep / f"job-{ref.job}-attempt-{ref.attempt}.tfstate"
    target.write_bytes(left.read_bytes())
    target.chmod(0o600)
    return str(target)
