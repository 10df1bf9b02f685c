"""Setting a runner's number of tasks, for the scaler."""

from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from worker.cloud.service import set_desired
from worker.cloud.session import open_cloud, refused
from worker.cloud.target import Target


def set_count(entry: dict[str, Any], url: str, count: int) -> None:
    """Set how many tasks the runner's service should have."""
    lifecycle = {
        "identity": entry["identity"],
        "region": entry["region"],
        "worker": {"id": entry["worker_id"], "name": entry["name"]},
        "version": "unchanged",
    }
    target = Target.from_payload({"lifecycle": lifecycle}, url)
    try:
        set_desired(open_cloud(target, lambda _: None), count)
    except (BotoCoreError, ClientError) as problem:
        raise refused("The number of tasks could not be set", problem) from problem
