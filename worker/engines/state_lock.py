"""A state lock that the runner takes itself, in the form that engines use."""

import uuid
from datetime import UTC, datetime
from typing import Any

from worker.attempt.workspace import Workspace


def lock_info(space: Workspace, version: str) -> dict[str, Any]:
    """Describe the lock for the people who meet it; `version` names the engine."""
    return {
        "ID": str(uuid.uuid4()),
        "Operation": f"OperationType{space.job.type.value.title()}",
        "Info": "",
        "Who": space.context.settings.runner.instance,
        "Version": version,
        "Created": datetime.now(UTC).isoformat(),
        "Path": space.spec.module.path,
    }
