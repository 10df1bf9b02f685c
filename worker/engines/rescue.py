"""Finding a state that an engine could not hand to its backend, or that died with the engine."""

import json
from pathlib import Path
from typing import Any

from worker.api.replies import JobRef
from worker.files.own_files import read_own

ERRORED_STATE = "errored.tfstate"
PULUMI_BACKEND = "pulumi-state"


def errored_state(root: Path) -> str | None:
    """Read the state that OpenTofu and Terraform leave when their backend refuses it."""
    for path in sorted(root.rglob(ERRORED_STATE)):
        if body := read_own(root, path):
            return body.decode(errors="replace")
    return None


def keep_errored_state(left: str, keep: Path, ref: JobRef) -> str:
    """Write such a state to a safe place, and return where it is."""
    keep.mkdir(parents=True, exist_ok=True, mode=0o700)
    target = keep / f"job-{ref.job}-attempt-{ref.attempt}.tfstate"
    target.write_text(left, encoding="utf-8")
    target.chmod(0o600)
    return str(target)


def left_state(root: Path) -> str | None:
    """The newest state that a dead attempt left in its directory and had no time to hand over."""
    if left := errored_state(root):
        return left
    checkpoint = next((root / PULUMI_BACKEND / ".pulumi" / "stacks").glob("*/runyard.json"), None)
    body = read_own(root, checkpoint) if checkpoint is not None else None
    return pulumi_export(body) if body else None


def pulumi_export(checkpoint: bytes) -> str | None:
    """Turn a checkpoint of Pulumi's file backend into what `stack export` would have written."""
    try:
        whole: dict[str, Any] = json.loads(checkpoint)
        latest = whole["checkpoint"]["latest"]
        return json.dumps({"version": whole["version"], "deployment": latest}, indent=4) if latest else None
    except (ValueError, KeyError, TypeError):
        return None
