"""Executors on a real Kubernetes cluster: rights, pods that leave, and failures."""

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from stack.settings import PROJECT
from tests.integration.test_compose_docker import SERVER_IMAGE_VARIABLE, answers
from tests.integration.test_doctor_command import findings
from tests.integration.test_real_docker import begun, slow_module
from tests.integration.worker_bench import Bench, bench
from tests.support.forwarding import forwarded
from tests.support.private_registry import PASSWORD, USER, PrivateRegistry
from tests.support.real_docker import PROGRAM, is_readable_by_others
from tests.support.real_kubernetes import CODE, MOUNTS, RealKubernetes, real_kubernetes
from tests.support.waiting import wait_until
from worker.dispatch.kubernetes import RIGHTS

__all__ = ["bench", "real_kubernetes"]
WAIT = "echo waiting here; exec sleep 600"
DATA = "RUNYARD_JOB_DISPATCHER_DATA_"


@pytest.fixture
def api_url(bench: Bench, real_kubernetes: RealKubernetes) -> Iterator[str]:
    """The project's address for pods."""
    if not is_readable_by_others(PROJECT):
        pytest.skip("the image's user cannot read this checkout")
    with forwarded(real_kubernetes.gateway, ("127.0.0.1", urlsplit(bench.project.url).port or 80)) as port:
        yield f"http://{real_kubernetes.gateway}:{port}"


@pytest.fixture
def on_cluster(bench: Bench, real_kubernetes: RealKubernetes, api_url: str) -> Iterator[dict[str, Any]]:
    """Settings with which a runner outside the cluster executes its jobs in it, with exactly the rights in the docs."""
    yield {
        "KUBECONFIG": real_kubernetes.kubeconfig(),
        "RUNYARD_JOB_DISPATCHER_TYPE": "kubernetes",
        f"{DATA}AUTH_TYPE": "kubeconfig",
        f"{DATA}IMAGE": real_kubernetes.image,
        f"{DATA}PULL_POLICY": "IfNotPresent",
        f"{DATA}NAMESPACE": real_kubernetes.namespace,
        f"{DATA}API_URL": api_url,
        f"{DATA}VOLUMES": json.dumps(CODE),
        f"{DATA}VOLUME_MOUNTS": json.dumps(MOUNTS),
        "RUNYARD__ENGINE__ADDITIONALBINARYPATHS": "/nonexistent",
        "RUNYARD__ENGINE__STOPGRACESECONDS": "20",
    }
    bench.close()


def is_locked(bench: Bench, module: str) -> bool:
    with bench.database() as connection:
        return bool(connection.execute("select 1 from private.state_locks where module_id = %s", [module]).fetchall())


def test_plan_apply_output_and_destroy_run_in_pods_and_leave_nothing(
    bench: Bench, real_kubernetes: RealKubernetes, on_cluster: dict[str, Any]
) -> None:
    bench.runner(**on_cluster)
    module = bench.module(inputs={"who": "Ada"})
    done = [bench.finished(kind, module) for kind in ("PLAN", "APPLY", "OUTPUT", "DESTROY")]
    assert done[1]["result"]["outputs"]["greeting"]["value"] == "hello Ada"
    wait_until(lambda: real_kubernetes.left() == [], timeout_seconds=180)


@pytest.mark.parametrize("kind", ["AFTER_STEP", "GRACEFUL", "KILL"])
def test_a_cancelled_job_ends_and_leaves_nothing(
    bench: Bench, real_kubernetes: RealKubernetes, on_cluster: dict[str, Any], kind: str
) -> None:
    bench.runner(**on_cluster)
    script = "echo waiting here; sleep 8" if kind == "AFTER_STEP" else WAIT
    job = bench.enqueue("APPLY", bench.module(hooks={"before_plan": script}))
    bench.wait_step(job, "before-plan", seconds=120)
    bench.rpc("cancel_job", p_job=job, p_kind=kind, p_reason="changed my mind")
    assert bench.wait_job(job)["status"] == "CANCELLED"
    wait_until(lambda: real_kubernetes.left() == [], timeout_seconds=180)


def test_a_pod_that_is_evicted_in_mid_apply_saves_its_state(
    bench: Bench, real_kubernetes: RealKubernetes, on_cluster: dict[str, Any]
) -> None:
    process = bench.runner(**on_cluster)
    module = slow_module(bench)
    job = begun(bench, module)
    pod = real_kubernetes.pod_of(job)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    path = f"/api/v1/namespaces/{real_kubernetes.namespace}/pods/{pod}/eviction"
    real_kubernetes("create", "--raw", path, "--filename", "-", stdin=json.dumps(eviction))
    ended = bench.wait_job(job)
    assert ended["status"] == "FAILED", ended["error"]
    assert not is_locked(bench, module), "it stopped in order: its state is saved and free"
    assert "the executor was lost while it changed infrastructure" not in process.output


def test_deleting_the_kubernetes_job_deletes_its_secret(
    bench: Bench, real_kubernetes: RealKubernetes, on_cluster: dict[str, Any]
) -> None:
    bench.runner(**on_cluster)
    job = bench.enqueue("PLAN", bench.module(hooks={"before_plan": WAIT}))
    bench.wait_step(job, "before-plan", seconds=120)
    bench.processes[-1].process.kill()
    real_kubernetes("delete", "jobs", "--selector", f"runyard.dev/job={job}", "--wait=false")
    wait_until(lambda: real_kubernetes.left() == [], timeout_seconds=180)


def test_pods_have_the_account_nodes_variables_and_files_of_the_settings(
    bench: Bench, real_kubernetes: RealKubernetes, on_cluster: dict[str, Any]
) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "deployer"}}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "keys"},
        "stringData": {"OKTA_TOKEN": "from-secret"},
    }
    real_kubernetes.apply(account, secret)
    token = "/var/run/secrets/kubernetes.io/serviceaccount"
    bench.runner(
        **on_cluster
        | {
            f"{DATA}SERVICE_ACCOUNT_NAME": "deployer",
            f"{DATA}NODE_SELECTOR": "kubernetes.io/os=linux",
            f"{DATA}TOLERATIONS": '[{"operator": "Exists"}]',
            f"{DATA}ENVIRONMENT_SECRETS": "keys",
            f"{DATA}PASS_ENVIRONMENT": "VSPHERE_*",
            f"{DATA}MEMORY_LIMIT": "1Gi",
            "RUNYARD__ENGINE__PASSENVIRONMENT": "OKTA_*",
            "RUNYARD__ENGINE__ISOLATION__READONLYPATHS": token,
            "VSPHERE_USER": "ada", "PGPASSWORD": "not-for-you",
        }
    )  # fmt: skip
    script = f'echo "okta=${{#OKTA_TOKEN}} vsphere=$VSPHERE_USER not=$PGPASSWORD"; ls {token}; sleep 3'
    job = bench.finished("PLAN", bench.module(hooks={"before_plan": script}))
    log = bench.log_of(job["id"])
    assert "okta=11 vsphere=ada not=\n" in log
    assert "namespace" in log.splitlines()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"IMAGE": "runyard-worker:absent", "PULL_POLICY": "Never"}, "ErrImageNeverPull"),
        ({"IMAGE": "127.0.0.1:9/absent"}, "ErrImagePull"),
        ({"NODE_SELECTOR": "pool=nowhere", "START_SECONDS": "5"}, "didn't match Pod's node affinity/selector"),
        ({"NAMESPACE": "kube-system"}, "cannot list resource"),
        ({"VOLUME_MOUNTS": '[{"name": "no", "mountPath": "/x"}]'}, "volumeMounts[0].name: Not found"),
    ],
)
def test_a_refusal_by_the_cluster_is_reported_with_its_message_and_a_remedy(
    bench: Bench, real_kubernetes: RealKubernetes, on_cluster: dict[str, Any], data: dict[str, str], words: str
) -> None:
    bench.runner(**on_cluster | {f"{DATA}{name}": value for name, value in data.items()})
    said = bench.given_back(bench.enqueue("PLAN", bench.module()))
    assert "Kubernetes could not start the executor" in said
    assert words in said
    assert "Check" in said or "needs in its namespace" in said
    wait_until(lambda: real_kubernetes.left() == [], timeout_seconds=180)


@pytest.mark.slow
def test_an_image_is_pulled_from_a_private_registry_with_the_account_s_secrets(
    bench: Bench, real_kubernetes: RealKubernetes, on_cluster: dict[str, Any], private_registry: PrivateRegistry
) -> None:
    bench.runner(**on_cluster | {f"{DATA}IMAGE": private_registry.image, f"{DATA}PULL_POLICY": "Always"})
    refused = bench.given_back(bench.enqueue("PLAN", bench.module()))
    assert "ErrImagePull" in refused
    assert "401 Unauthorized" in refused
    assert "the cluster's registry credentials" in refused
    bench.processes[-1].stop()
    known = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    real_kubernetes.apply(
        {
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "registry"}, "type": "kubernetes.io/dockerconfigjson",
            "stringData": {".dockerconfigjson": json.dumps({"auths": {private_registry.address: {"auth": known}}})},
        },
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}, "imagePullSecrets": [{"name": "registry"}]},
    )  # fmt: skip
    bench.runner(**on_cluster | {f"{DATA}IMAGE": private_registry.image, f"{DATA}PULL_POLICY": "Always"})
    bench.finished("PLAN", bench.module())


def test_an_image_that_is_no_executor_returns_its_job_with_the_reason(
    bench: Bench, real_kubernetes: RealKubernetes, on_cluster: dict[str, Any]
) -> None:
    nothing = {"name": "nothing", "hostPath": {"path": "/bin/true"}}
    mount = {"name": "nothing", "mountPath": PROGRAM}
    bench.runner(**on_cluster | {f"{DATA}VOLUMES": json.dumps([nothing]), f"{DATA}VOLUME_MOUNTS": json.dumps([mount])})
    said = bench.given_back(bench.enqueue("PLAN", bench.module()))
    assert "exit code 0" in said
    assert "before it had told anything" in said
    assert "Is the dispatcher's image a Runyard worker image" in said
    wait_until(lambda: real_kubernetes.left() == [], timeout_seconds=180)


def test_an_exceeded_quota_is_reported_with_the_clusters_message(
    bench: Bench, real_kubernetes: RealKubernetes, on_cluster: dict[str, Any]
) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "small"},
        "spec": {"hard": {"pods": "0"}},
    }
    real_kubernetes.apply(quota)
    wait_until(lambda: "hard" in real_kubernetes("get", "quota", "small", "--output", "jsonpath={.status}"))
    bench.runner(**on_cluster)
    said = bench.given_back(bench.enqueue("PLAN", bench.module()))
    assert "exceeded quota: small" in said


def test_the_doctor_names_the_rights_that_are_missing(
    bench: Bench, real_kubernetes: RealKubernetes, on_cluster: dict[str, Any]
) -> None:
    worker, home = bench.register(), bench.folder / "doctor"
    _, found = findings(bench, worker, home, **on_cluster)
    assert [found[name]["verdict"] for name in ("Kubernetes", "Rights", "Job", "Engines")] == ["ok"] * 4, found
    real_kubernetes.give_rights({key: verbs for key, verbs in RIGHTS.items() if key != ("", "secrets")})
    code, found = findings(bench, worker, home, **on_cluster)
    assert (code, found["Rights"]["verdict"]) == (1, "failed")
    assert "create secrets, patch secrets, delete secrets" in found["Rights"]["seen"]


def test_the_chart_s_runner_inside_the_cluster_starts_a_pod_for_each_job(
    bench: Bench, real_kubernetes: RealKubernetes, on_cluster: dict[str, Any], api_url: str
) -> None:
    """With the rights of the chart's own role; the code under test comes by the values that bring files."""
    worker = bench.register()
    data = {"API_URL": api_url, "VOLUMES": CODE, "VOLUME_MOUNTS": MOUNTS, "PULL_POLICY": "IfNotPresent"}
    values = {
        "worker": {"id": worker[0], "url": api_url, "token": worker[1]},
        "image": {"repository": real_kubernetes.image, "tag": "latest"},
        "dispatcher": {"type": "kubernetes", "data": data},
        "extraVolumes": CODE,
        "extraVolumeMounts": MOUNTS,
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
    }
    with real_kubernetes.volume("state-chart-0", bench.folder / "volume"):
        real_kubernetes.install("runyard-worker", values)
        bench.online(worker, seconds=180)
        assert [row["name"] for row in bench.rows("worker_instances", worker_id=worker[0])] == ["chart-0"]
        job = bench.finished("PLAN", bench.module())
        assert "Plan:" in bench.log_of(job["id"])
        found = real_kubernetes("exec", "chart-0", "--", "runyard-worker", "doctor", is_checked=False)
        assert "all 9 that a job takes" in found, found


@pytest.mark.slow
def test_the_server_s_chart_starts_dashboard_and_api_on_one_volume(
    real_kubernetes: RealKubernetes, tmp_path: Path
) -> None:
    values = {
        "embedded": {"enabled": True},
        "image": {"repository": os.environ.get(SERVER_IMAGE_VARIABLE, "runyard-server"), "tag": "latest"},
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
    }

    def is_ready() -> bool:
        state = real_kubernetes("get", "statefulset", "chart", "--output", "jsonpath={.status.readyReplicas}")
        return state == "1"

    with real_kubernetes.volume("state-chart-0", tmp_path / "volume"):
        real_kubernetes.install("runyard-server", values)
        try:
            wait_until(is_ready, timeout_seconds=400, every_seconds=1)
        except TimeoutError as error:
            logs = real_kubernetes("logs", "chart-0", is_checked=False)
            raise AssertionError(real_kubernetes("describe", "pod", "chart-0") + logs) from error
        with real_kubernetes.reached("service/chart", 3000, 54321) as (dashboard, api):
            wait_until(lambda: answers(f"{dashboard}/login") and answers(f"{api}/functions/v1/health"))
        assert real_kubernetes("exec", "chart-0", "--", "id", "-u") == "10001"
        real_kubernetes("delete", "statefulset", "chart", "--wait=false")
        wait_until(lambda: real_kubernetes("get", "pods", "--output", "name") == "", timeout_seconds=180)
