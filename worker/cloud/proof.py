"""In which clouds this machine can act: proven by asking the cloud who we are, not by looking for keys."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.util import find_spec

from worker.process_status import ProcessStatus
from worker.runtime_log import get_logger

AWS = "aws"
_TRY_AGAIN_SECONDS = 300.0


@dataclass(frozen=True)
class Proof:
    """Whether AWS knows us, as whom, or why not."""

    arn: str = ""
    why: str = ""

    @property
    def clouds(self) -> list[str]:
        """The fact that the claim reads."""
        return [AWS] if self.arn else []


def prove_aws() -> Proof:
    """Ask STS for our identity, with short time limits: most machines have no rights in AWS, and that is fine."""
    if find_spec("boto3") is None:
        return Proof(why="boto3 is not installed")
    from botocore.config import Config

    from worker.cloud.session import new_session

    try:
        session = new_session()
        if session.get_credentials() is None:
            return Proof(why="there are no AWS credentials on this machine")
        config = Config(connect_timeout=5, read_timeout=10, retries={"mode": "standard", "max_attempts": 2})
        sts = session.client("sts", region_name=session.region_name or "us-east-1", config=config)
        return Proof(arn=str(sts.get_caller_identity()["Arn"]))
    except Exception as error:  # noqa: BLE001  (the library lets through whatever a token file or a helper raised)
        return Proof(why=str(error) or type(error).__name__)


async def watch_clouds(
    process_status: ProcessStatus,
    on_change: Callable[[], None],
    sleep: Callable[[float], Awaitable[None]],
    prove: Callable[[], Proof] = prove_aws,
) -> None:
    """Keep the runner's fact true: rights come and go while it runs. It never holds up the start."""
    log = get_logger("worker.cloud")
    while True:
        proof = await asyncio.to_thread(prove)
        if process_status.clouds != proof.clouds:
            process_status.clouds = proof.clouds
            log.info("jobs about cloud-hosted runners", can_run=bool(proof.arn), who=proof.arn, why=proof.why)
            on_change()
        await sleep(_TRY_AGAIN_SECONDS)
