"""Executors in Kubernetes, against a server that speaks its API and runs real processes."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest

from tests.support.waiting import wait_until
from tests.unit.worker.dispatch.conftest import RUNNER_TOKEN, MakeSettings
from tests.unit.worker.dispatch.kubernetes_api import KubernetesApi
from tests.unit.worker.dispatch.processes import write_executor
from tests.unit.worker.dispatch.serving import serve
from worker.dispatch import Order
from worker.dispatch.base import LOST
from worker.dispatch.eks import cluster_token
from worker.dispatch.kubernetes import KubernetesDispatcher
from worker.dispatch.manifests import quantity
from worker.errors import RunnerUnfit
from worker.settings import Settings

pytestmark = pytest.mark.anyio


@pytest.fixture
def cluster(tmp_path: Path) -> KubernetesApi:
    return KubernetesApi(write_executor(tmp_path / "bin", "exit 0"))


@pytest.fixture
def address(cluster: KubernetesApi) -> Iterator[str]:
    with serve(cluster.routes()) as address:
        yield address


@pytest.fixture
def settings(address: str, make_settings: MakeSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings whose kubeconfig names the server above."""
    file = tmp_path / "kubeconfig"
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [context],
        "clusters": [{"name": "c", "cluster": {"server": f"http://{address}"}}],
        "users": [{"name": "u", "user": {"token": "kube-token"}}],
    }
    file.write_text(json.dumps(content))
    monkeypatch.setenv("KUBECONFIG", str(file))
    return make_settings(
        TYPE="kubernetes",
        DATA_IMAGE="runyard-worker:1",
        DATA_NAMESPACE="runyard",
        DATA_MEMORY_REQUEST="256Mi",
        DATA_MEMORY_LIMIT="512 MB",
    )


async def test_the_executor_runs_once_and_leaves_nothing(
    cluster: KubernetesApi, order: Order, settings: Settings
) -> None:
    dispatcher = KubernetesDispatcher(settings)
    execution = await dispatcher.start(order)
    assert await execution.wait() == 0
    job = cluster.jobs[order.name]
    assert job["spec"]["backoffLimit"] == 0
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"] == {"requests": {"memory": "256Mi"}, "limits": {"memory": "512M"}}
    owner = cluster.secrets[order.name]["metadata"]["ownerReferences"][0]
    assert owner["uid"] == f"uid-of-{order.name}"
    await execution.remove()
    assert (cluster.jobs, cluster.secrets) == ({}, {})
    assert cluster.tokens == {"Bearer kube-token"}
    await dispatcher.close()


async def test_the_credential_is_in_a_secret_and_the_runner_s_token_nowhere(
    cluster: KubernetesApi, order: Order, settings: Settings
) -> None:
    dispatcher = KubernetesDispatcher(settings)
    execution = await dispatcher.start(order)
    await execution.wait()
    assert "job-token" not in json.dumps(cluster.jobs)
    assert cluster.secrets[order.name]["stringData"] == {"RUNYARD_JOB_TOKEN": "job-token"}
    assert cluster.boxes[order.name].environment["RUNYARD_JOB_TOKEN"] == "job-token"
    assert RUNNER_TOKEN not in json.dumps([cluster.jobs, cluster.secrets])
    await dispatcher.close()


async def test_exit_code_stop_and_kill(
    cluster: KubernetesApi, order: Order, settings: Settings, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    write_executor(cluster.bin_folder, f"trap 'exit 5' TERM\ntouch {ready}\nwhile true; do sleep 0.05; done")
    dispatcher = KubernetesDispatcher(settings)
    execution = await dispatcher.start(order)
    wait_until(ready.exists, timeout_seconds=30)
    await execution.stop()
    assert await execution.wait() == 5
    await execution.kill()
    assert cluster.graces == ["60", "0"]
    await dispatcher.close()


async def test_the_same_attempt_is_started_once(cluster: KubernetesApi, order: Order, settings: Settings) -> None:
    dispatcher = KubernetesDispatcher(settings)
    first, second = await dispatcher.start(order), await dispatcher.start(order)
    assert (await first.wait(), await second.wait()) == (0, 0)
    assert len(cluster.boxes) == 1
    await dispatcher.close()


async def test_a_job_that_somebody_deleted_counts_as_lost(
    cluster: KubernetesApi, order: Order, settings: Settings
) -> None:
    write_executor(cluster.bin_folder, "sleep 600")
    dispatcher = KubernetesDispatcher(settings)
    execution = await dispatcher.start(order)
    cluster.boxes[order.name].signal("SIGKILL")
    await execution.remove()
    assert await execution.wait() == LOST
    assert execution.why == "the Kubernetes job is gone"
    await dispatcher.close()


async def test_an_image_that_cannot_be_had_is_not_waited_for(
    cluster: KubernetesApi, order: Order, settings: Settings
) -> None:
    write_executor(cluster.bin_folder, "sleep 600")
    cluster.waiting_reason = "ImagePullBackOff"
    dispatcher = KubernetesDispatcher(settings)
    execution = await dispatcher.start(order)
    with pytest.raises(RunnerUnfit, match="ImagePullBackOff") as caught:
        await execution.wait()
    assert caught.value.code == "image"
    cluster.boxes[order.name].signal("SIGKILL")
    await dispatcher.close()


async def test_a_right_that_is_missing_is_an_answer_before_any_job_begins(
    cluster: KubernetesApi, order: Order, settings: Settings
) -> None:
    cluster.has_forbidden_pods = True
    dispatcher = KubernetesDispatcher(settings)
    with pytest.raises(RunnerUnfit) as caught:
        await dispatcher.start(order)
    assert caught.value.code == "dispatcher"
    assert "list and delete on pods" in caught.value.hint
    assert (cluster.jobs, cluster.secrets) == ({}, {})
    await dispatcher.close()


async def test_no_cluster_fails_the_job_with_words(
    order: Order, make_settings: MakeSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    dispatcher = KubernetesDispatcher(make_settings(TYPE="kubernetes", DATA_IMAGE="x"))
    with pytest.raises(RunnerUnfit, match="Kubernetes could not start"):
        await dispatcher.start(order)


def test_an_eks_token_is_a_signed_request_for_that_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    token = cluster_token(boto3.session.Session(region_name="eu-west-1"), "eu-west-1", "prod")
    encoded = token.removeprefix("k8s-aws-v1.")
    url = urlsplit(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode())
    query = parse_qs(url.query)
    assert url.hostname == "sts.eu-west-1.amazonaws.com"
    assert query["Action"] == ["GetCallerIdentity"]
    assert query["X-Amz-SignedHeaders"] == ["host;x-k8s-aws-id"]
    assert query["X-Amz-Expires"] == ["60"]


@pytest.mark.parametrize(
    ("text", "written"), [("42 MB", "42M"), ("512Mi", "512Mi"), ("1 GiB", "1Gi"), ("1024", "1024")]
)
def test_memory_is_written_as_kubernetes_does(text: str, written: str) -> None:
    assert quantity(text) == written
