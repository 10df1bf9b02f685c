"""Faults with executors in a real Kubernetes; skipped, with the reason, where `KUBECONFIG` names none."""

import asyncio
import os
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kubernetes_asyncio import config as kube
from kubernetes_asyncio.client import ApiClient, BatchV1Api, Configuration, CoreV1Api
from kubernetes_asyncio.client.exceptions import ApiException

from tests.faults.real_executors import Place, RealApply, address_of, goes_on_through_an_outage, outlives_its_runner
from tests.faults.worker_proxy import Proxy
from tests.integration.worker_bench import Bench, bench
from tests.support.must import unavailable
from tests.support.real_kubernetes import pod_bridge

__all__ = ["bench"]


def ask(call: Callable[[ApiClient], Awaitable[Any]]) -> Any:
    """One question to the cluster that `KUBECONFIG` names."""

    async def work() -> Any:
        configuration = Configuration()
        await kube.load_kube_config(os.environ["KUBECONFIG"], client_configuration=configuration)
        async with ApiClient(configuration=configuration) as api:
            return await call(api)

    return asyncio.run(work())


@pytest.fixture
def namespace() -> Iterator[str]:
    """A namespace of the test's own."""
    if not os.environ.get("KUBECONFIG"):
        unavailable("kubernetes", "KUBECONFIG names no cluster")
    name = f"runyard-faults-{uuid.uuid4().hex[:6]}"
    try:
        ask(lambda api: CoreV1Api(api).create_namespace({"metadata": {"name": name}}))
    except Exception as error:  # noqa: BLE001  (whatever it is, there is no cluster to test with)
        unavailable("kubernetes", f"the cluster does not answer: {error}")
    yield name
    ask(lambda api: CoreV1Api(api).delete_namespace(name))


@contextmanager
def applying(bench: Bench, namespace: str) -> Iterator[RealApply]:
    """A runner with an apply in a pod."""

    def exists(name: str) -> bool:
        try:
            ask(lambda api: BatchV1Api(api).read_namespaced_job(name, namespace))
        except ApiException as error:
            if error.status != 404:
                raise
            return False
        return True

    variables = {
        "RUNYARD_JOB_DISPATCHER_TYPE": "kubernetes",
        "RUNYARD_JOB_DISPATCHER_DATA_NAMESPACE": namespace,
        "RUNYARD_JOB_DISPATCHER_DATA_AUTH_TYPE": "kubeconfig",
        "RUNYARD_JOB_DISPATCHER_DATA_PULL_POLICY": "IfNotPresent",
        "KUBECONFIG": os.environ["KUBECONFIG"],
    }
    place = Place(variables, address_of(pod_bridge()), exists)
    with Proxy(bench.project.url) as to_runner, Proxy(bench.project.url, place.host) as to_executor:
        yield RealApply(bench, place, to_runner, to_executor)
        bench.close()


@pytest.fixture
def apply(bench: Bench, namespace: str) -> Iterator[RealApply]:
    with applying(bench, namespace) as made:
        yield made


@pytest.mark.slow
def test_an_executor_continues_through_an_outage(apply: RealApply) -> None:
    goes_on_through_an_outage(apply)


@pytest.mark.slow
def test_an_executor_outlives_its_runner(apply: RealApply) -> None:
    outlives_its_runner(apply)
