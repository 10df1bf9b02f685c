"""The sign-in to an EKS cluster by IAM: an API server that checks each token as EKS does."""

import base64
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import boto3
import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.unit.worker.dispatch.conftest import REGION, MakeSettings
from tests.unit.worker.dispatch.kubernetes_api import KubernetesApi, problem
from tests.unit.worker.dispatch.processes import write_executor
from tests.unit.worker.dispatch.serving import Call, Route, serve
from tests.unit.worker.fakes import HandClock
from worker.dispatch.base import Order
from worker.dispatch.kubernetes import KubernetesDispatcher
from worker.errors import RunnerUnfit
from worker.settings.model import Settings

pytestmark = pytest.mark.anyio
CLUSTER = "prod"
STAMP = "%Y%m%dT%H%M%SZ"


class Gatekeeper:
    """Lets in who signed a GetCallerIdentity for this cluster with the secret that it knows, lately."""

    def __init__(self) -> None:
        self.tokens: list[str] = []

    def guard(self, route: Route) -> Route:
        def guarded(call: Call) -> tuple[int, Any]:
            token = call.headers.get("authorization", "")
            self.tokens.append(token)
            return route(call) if is_genuine(token) else problem(401, "Unauthorized")

        return guarded


def is_genuine(header: str) -> bool:
    """Check a token as aws-iam-authenticator and STS do together."""
    if not header.startswith("Bearer k8s-aws-v1."):
        return False
    encoded = header.removeprefix("Bearer k8s-aws-v1.")
    url = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    query = dict(parse_qsl(urlsplit(url).query))
    signed_at = datetime.strptime(query["X-Amz-Date"], STAMP).replace(tzinfo=UTC)
    is_fresh = abs(datetime.now(UTC) - signed_at) < timedelta(minutes=15)
    is_asked = query["Action"] == "GetCallerIdentity" and "x-k8s-aws-id" in query["X-Amz-SignedHeaders"]
    return is_fresh and is_asked and signature_of(url, query) == query["X-Amz-Signature"]


def signature_of(url: str, query: dict[str, str]) -> str:
    """Sign the same request with the secret, as STS does to compare."""
    bare = url.split("&X-Amz-Signature=", 1)[0]
    request = AWSRequest(method="GET", url=bare, headers={"x-k8s-aws-id": CLUSTER})
    request.context["timestamp"] = query["X-Amz-Date"]
    auth = SigV4QueryAuth(Credentials("testing", "testing"), "sts", REGION)
    canonical = auth.canonical_request(request)
    return str(auth.signature(auth.string_to_sign(request, canonical), request))


@pytest.fixture
def gatekeeper() -> Gatekeeper:
    return Gatekeeper()


@pytest.fixture
def settings(
    aws: str, gatekeeper: Gatekeeper, make_settings: MakeSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Settings]:
    """An EKS cluster whose endpoint is an API server that checks tokens."""
    eks: Any = boto3.client("eks", region_name=REGION)
    eks.create_cluster(name=CLUSTER, roleArn="arn:aws:iam::123456789012:role/eks", resourcesVpcConfig={"subnetIds": []})
    cluster = KubernetesApi(write_executor(tmp_path / "bin", "exit 0"))
    routes = {pattern: gatekeeper.guard(route) for pattern, route in cluster.routes().items()}
    with serve(routes) as address:
        monkeypatch.setattr(
            "worker.dispatch.eks.EksAccess._describe",
            lambda self: {**self_described(self), "endpoint": f"http://{address}"},
        )
        yield make_settings(
            TYPE="kubernetes", DATA_IMAGE="x", DATA_NAMESPACE="runyard", DATA_AUTH_TYPE="eks_iam", DATA_REGION=REGION,
            DATA_EKS_CLUSTER=CLUSTER,
        )  # fmt: skip
    eks.delete_cluster(name=CLUSTER)


def self_described(access: Any) -> dict[str, Any]:
    """Return EKS's description of the cluster without its certificate: this API server uses no TLS."""
    found = access.session.client("eks").describe_cluster(name=access.cluster)["cluster"]
    return {name: value for name, value in found.items() if name != "certificateAuthority"}


async def test_every_call_carries_a_token_that_the_cluster_accepts(
    settings: Settings, gatekeeper: Gatekeeper, order: Order
) -> None:
    dispatcher = KubernetesDispatcher(settings)
    execution = await dispatcher.start(order)
    assert await execution.wait() == 0
    await execution.remove()
    await dispatcher.close()
    assert len(gatekeeper.tokens) >= 8
    assert len(set(gatekeeper.tokens)) == 1, "not signed again for every call"


async def test_a_token_is_renewed_before_it_is_old(settings: Settings, gatekeeper: Gatekeeper, order: Order) -> None:
    clock = HandClock()
    dispatcher = KubernetesDispatcher(settings, clock=clock)
    execution = await dispatcher.start(order)
    first = gatekeeper.tokens[-1]
    api = await dispatcher.connection()
    api.configuration.api_key["BearerToken"] = "Bearer k8s-aws-v1.b2xk"
    clock.time += 601
    assert await execution.wait() == 0
    assert all(map(is_genuine, gatekeeper.tokens)), "the old token is not used again"
    assert first
    await dispatcher.close()


async def test_a_missing_cluster_is_reported_with_the_message_of_aws(
    aws: str, make_settings: MakeSettings, order: Order
) -> None:
    settings = make_settings(
        TYPE="kubernetes", DATA_IMAGE="x", DATA_AUTH_TYPE="eks_iam", DATA_REGION=REGION, DATA_EKS_CLUSTER="absent"
    )
    dispatcher = KubernetesDispatcher(settings)
    with pytest.raises(RunnerUnfit, match="No cluster found for name: absent") as caught:
        await dispatcher.start(order)
    assert (caught.value.code, "eks:DescribeCluster" in caught.value.hint) == ("dispatcher", True)


async def test_missing_aws_credentials_are_reported_before_any_job_begins(
    settings: Settings, order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("boto3.session.Session.get_credentials", lambda _: None)
    dispatcher = KubernetesDispatcher(settings)
    with pytest.raises(RunnerUnfit, match="no AWS credentials"):
        await dispatcher.start(order)
