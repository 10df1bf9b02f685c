"""Sign-in to an EKS cluster with the runner's IAM rights."""

import asyncio
import base64
import tempfile
from collections.abc import Callable
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError
from kubernetes_asyncio.client import Configuration

from worker.clock import Clock
from worker.errors import RunnerUnfit
from worker.runtime_log import get_logger
from worker.session.aws_identity import signed_request

# A token is valid for 15 minutes; we sign a new one well before.
TOKEN_SECONDS = 600
KEY = "BearerToken"


def cluster_token(session: boto3.session.Session, region: str, cluster: str) -> str:
    """Sign a GetCallerIdentity request for the cluster: that is what EKS takes as a token."""
    try:
        return "k8s-aws-v1." + signed_request(session, region, {"x-k8s-aws-id": cluster})
    except LookupError as error:
        raise RunnerUnfit(
            "There are no AWS credentials to sign in to EKS with.", code="dispatcher",
            hint="Give the runner's machine a role, or AWS_… variables.",
        ) from error  # fmt: skip


class EksAccess:
    """Keeps a configuration's token fresh."""

    def __init__(self, region: str, cluster: str, clock: Clock) -> None:
        self.region = region
        self.cluster = cluster
        self.clock = clock
        self.session = boto3.session.Session(region_name=region)
        self.signed_at: float | None = None

    async def configuration(self) -> Configuration:
        """Ask EKS for the cluster's address and certificate, and sign the first token."""
        try:
            found = await asyncio.to_thread(self._describe)
            configuration = Configuration(host=found["endpoint"])
            if authority := found.get("certificateAuthority", {}).get("data"):
                configuration.ssl_ca_cert = write_authority(base64.b64decode(authority))
            # The library asks the hook only where there is a token already: the first one is made here.
            await self._sign(configuration)
        except (BotoCoreError, ClientError) as error:
            raise RunnerUnfit(
                f"The EKS cluster {self.cluster} in {self.region} could not be reached: {error}", code="dispatcher",
                hint="Check the region and the cluster's name; the runner's role needs eks:DescribeCluster and an access entry.",
            ) from error  # fmt: skip
        configuration.refresh_api_key_hook = self.refresh
        return configuration

    async def refresh(self, configuration: Configuration) -> None:
        """Sign a new token when the last one grows old; if AWS refuses now, the next call requests it again."""
        now = self.clock.monotonic()
        if self.signed_at is not None and now - self.signed_at < TOKEN_SECONDS:
            return
        try:
            await self._sign(configuration)
        except (BotoCoreError, ClientError, RunnerUnfit) as error:
            get_logger("worker.dispatch").warning("the token for EKS could not be renewed", why=str(error))

    def _describe(self) -> dict[str, Any]:
        make: Callable[..., Any] = self.session.client
        found: dict[str, Any] = make("eks").describe_cluster(name=self.cluster)["cluster"]
        return found

    async def _sign(self, configuration: Configuration) -> None:
        now = self.clock.monotonic()
        token = await asyncio.to_thread(cluster_token, self.session, self.region, self.cluster)
        configuration.api_key[KEY] = f"Bearer {token}"
        self.signed_at = now


def write_authority(certificate: bytes) -> str:
    """Write the cluster's certificate where the client library can read it."""
    with tempfile.NamedTemporaryFile(prefix="runyard-eks-", suffix=".pem", delete=False) as file:
        file.write(certificate)
    return file.name
