"""Executors in Kubernetes, against a server that speaks its API and runs real processes."""

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest

from tests.support.waiting import eventually, wait_until
from tests.unit.worker.dispatch.conftest import RUNNER_TOKEN, MakeSettings
from tests.unit.worker.dispatch.kubernetes_api import KubernetesApi
from tests.unit.worker.dispatch.processes import write_executor
from tests.unit.worker.dispatch.serving import Call, serve
from tests.unit.worker.fakes import HandClock
from worker.dispatch.base import LOST, Order
from worker.dispatch.eks import cluster_token
from worker.dispatch.kubernetes import KubernetesDispatcher
from worker.dispatch.manifests import quantity
from worker.errors import RunnerUnfit
from worker.settings.model import Settings

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
    wait_until(ready.exists)
    await execution.stop()
    assert await execution.wait() == 5
    await execution.kill()
    assert cluster.graces == ["60", "0"]
    await dispatcher.close()


async def test_an_executor_that_still_saves_its_state_is_not_lost(
    cluster: KubernetesApi, order: Order, settings: Settings, tmp_path: Path
) -> None:
    ready, save = tmp_path / "ready", tmp_path / "save"
    script = (
        f"trap 'until [ -e {save} ]; do sleep 0.05; done; exit 7' TERM\ntouch {ready}\nwhile :; do sleep 0.05; done"
    )
    write_executor(cluster.bin_folder, script)
    clock = HandClock()
    dispatcher = KubernetesDispatcher(settings, clock=clock)
    execution = await dispatcher.start(order)
    wait_until(ready.exists)
    await execution.stop()
    waiting = asyncio.ensure_future(execution.wait())

    async def has_napped() -> bool:
        return len(clock.naps) >= 10

    await eventually(has_napped, every_seconds=0)
    # This clock advances with each call, and the executor runs in the machine's time.
    clock.time -= 1_000_000
    assert not waiting.done(), "the pod counts as failed, and its executor works on"
    save.touch()
    assert await waiting == 7
    await dispatcher.close()


async def test_a_pod_on_a_silent_node_is_given_up_as_lost(
    cluster: KubernetesApi, order: Order, settings: Settings, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    write_executor(cluster.bin_folder, f"trap '' TERM; touch {ready}; sleep 600")
    dispatcher = KubernetesDispatcher(settings, clock=HandClock())
    execution = await dispatcher.start(order)
    wait_until(ready.exists)
    await execution.stop()
    assert await execution.wait() == LOST
    assert "its node n1 does not report" in execution.why
    cluster.boxes[order.name].signal("SIGKILL")
    await dispatcher.close()


async def test_an_exceeded_quota_is_reported_with_the_clusters_message(
    cluster: KubernetesApi, order: Order, settings: Settings
) -> None:
    cluster.problem_event = 'pods "x" is forbidden: exceeded quota: small'
    dispatcher = KubernetesDispatcher(settings)
    execution = await dispatcher.start(order)
    with pytest.raises(RunnerUnfit, match="exceeded quota: small") as caught:
        await execution.wait()
    assert "quota" in caught.value.hint
    await dispatcher.close()


async def test_a_pod_that_no_node_accepts_is_given_up_with_the_schedulers_message(
    cluster: KubernetesApi, order: Order, settings: Settings
) -> None:
    write_executor(cluster.bin_folder, "sleep 600")
    cluster.is_unscheduled = True
    dispatcher = KubernetesDispatcher(settings, clock=HandClock())
    execution = await dispatcher.start(order)
    with pytest.raises(RunnerUnfit, match="did not start within 300 s, Unschedulable: 0/3 nodes"):
        await execution.wait()
    cluster.boxes[order.name].signal("SIGKILL")
    await dispatcher.close()


async def test_an_api_that_fails_for_a_while_ends_nothing(
    cluster: KubernetesApi, order: Order, settings: Settings
) -> None:
    write_executor(cluster.bin_folder, "exit 7")
    dispatcher = KubernetesDispatcher(settings, clock=HandClock())
    execution = await dispatcher.start(order)
    cluster.failing_calls = 3
    assert await execution.wait() == 7
    await dispatcher.close()


async def test_pods_are_placed_and_equipped_according_to_the_settings(
    cluster: KubernetesApi, order: Order, settings: Settings, make_settings: MakeSettings
) -> None:
    wanted = make_settings(
        TYPE="kubernetes", DATA_IMAGE="x", DATA_NAMESPACE="runyard", DATA_SERVICE_ACCOUNT_NAME="deployer",
        DATA_NODE_SELECTOR="pool=jobs", DATA_TOLERATIONS='[{"key": "jobs", "operator": "Exists"}]',
        DATA_ENVIRONMENT="TF_LOG=INFO,REGION=eu", DATA_ENVIRONMENT_SECRETS="", DATA_PULL_POLICY="never",
        DATA_VOLUMES='[{"name": "kube", "secret": {"secretName": "kubeconfig"}}]',
        DATA_VOLUME_MOUNTS='[{"name": "kube", "mountPath": "/etc/kube"}]',
    )  # fmt: skip
    dispatcher = KubernetesDispatcher(wanted)
    await (await dispatcher.start(order)).wait()
    pod = cluster.jobs[order.name]["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("deployer", True)
    assert (pod["nodeSelector"], pod["tolerations"]) == ({"pool": "jobs"}, [{"key": "jobs", "operator": "Exists"}])
    assert pod["volumes"][0]["name"] == pod["containers"][0]["volumeMounts"][0]["name"] == "kube"
    assert pod["containers"][0]["imagePullPolicy"] == "Never"
    seen = cluster.boxes[order.name].environment
    assert (seen["TF_LOG"], seen["REGION"]) == ("INFO", "eu")
    assert seen["RUNYARD__ENGINE__PASSENVIRONMENT"] == "TF_LOG,REGION", (
        "what the executor was given is meant for the job"
    )
    await dispatcher.close()


async def test_the_same_attempt_is_started_once(cluster: KubernetesApi, order: Order, settings: Settings) -> None:
    dispatcher = KubernetesDispatcher(settings)
    first, second = await dispatcher.start(order), await dispatcher.start(order)
    assert (await first.wait(), await second.wait()) == (0, 0)
    assert len(cluster.boxes) == 1
    await dispatcher.close()


async def test_a_job_of_an_earlier_process_is_found_by_its_name(
    cluster: KubernetesApi, order: Order, settings: Settings
) -> None:
    first, second = KubernetesDispatcher(settings), KubernetesDispatcher(settings)
    await (await first.start(order)).wait()
    found = await second.find(order.name)
    assert found is not None
    assert await found.wait() == 0
    assert await found.restart() is False
    assert await second.find("runyard-job-1-1") is None
    await first.close()
    await second.close()


async def test_a_job_that_somebody_deleted_counts_as_lost(
    cluster: KubernetesApi, order: Order, settings: Settings
) -> None:
    write_executor(cluster.bin_folder, "sleep 600")
    dispatcher = KubernetesDispatcher(settings)
    execution = await dispatcher.start(order)
    cluster.boxes[order.name].signal("SIGKILL")
    await execution.remove()
    assert await execution.wait() == LOST
    assert execution.why == "the Kubernetes job was deleted"
    await dispatcher.close()


async def test_an_unavailable_image_is_not_waited_for(cluster: KubernetesApi, order: Order, settings: Settings) -> None:
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
    assert "list, delete on pods" in caught.value.hint
    assert (cluster.jobs, cluster.secrets) == ({}, {})
    await dispatcher.close()


@pytest.mark.parametrize("status", [302, 307])
@pytest.mark.parametrize("kind", ["pods", "secrets"])
async def test_token_and_credential_never_follow_a_redirect(
    cluster: KubernetesApi, order: Order, settings: Settings, kind: str, status: int
) -> None:
    """The same address would get the token, and another one the credential in the body."""
    received: list[Call] = []

    def receive(call: Call) -> tuple[int, object]:
        received.append(call)
        return 200, {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []}

    with serve({"GET .*": receive, "POST .*": receive}) as elsewhere:
        cluster.redirects[kind] = status, {"location": f"http://{elsewhere}/{kind}"}
        dispatcher = KubernetesDispatcher(settings)
        with pytest.raises(RunnerUnfit) as caught:
            await dispatcher.start(order)
    assert "redirects are not followed" in caught.value.hint
    assert (received, cluster.jobs, cluster.secrets) == ([], {}, {})
    await dispatcher.close()


async def test_a_missing_cluster_configuration_fails_the_start_with_a_message(
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
