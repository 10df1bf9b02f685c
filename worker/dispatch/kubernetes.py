"""Executors as Kubernetes jobs."""

import json
import os
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any

from aiohttp import ClientError
from kubernetes_asyncio import config as kube
from kubernetes_asyncio.client import ApiClient, BatchV1Api, Configuration, CoreV1Api
from kubernetes_asyncio.client.exceptions import ApiException

from worker.clock import Clock
from worker.dispatch import manifests
from worker.dispatch.base import LOST, Dispatcher, Execution, Order
from worker.errors import ExitCode, RunnerUnfit
from worker.runtime_log import get_logger
from worker.settings.dispatcher import AuthType, DispatcherData
from worker.settings.model import Settings

POLL_SECONDS = 2.0
# The dispatcher's calls, and no more: the chart's role, the docs and the doctor have the same. (group, resource) to verbs.
RIGHTS: dict[tuple[str, str], tuple[str, ...]] = {
    ("batch", "jobs"): ("create", "get", "delete"),
    ("", "secrets"): ("create", "patch", "delete"),
    ("", "pods"): ("list", "delete"),
    ("", "events"): ("list",),
}
RIGHTS_WORDS = "The runner's role needs in its namespace: " + "; ".join(
    f"{', '.join(verbs)} on {resource}" for (_, resource), verbs in RIGHTS.items()
)
AWAY = (ApiException, ClientError, OSError)
# A lost node never reports that a pod has ended; so long after its grace the runner stops waiting for it.
NODE_SECONDS = 60.0


class KubernetesExecution(Execution):
    """One Kubernetes job with one pod."""

    def __init__(self, api: ApiClient, name: str, settings: Settings, clock: Clock) -> None:
        self.batch = BatchV1Api(api)
        self.core = CoreV1Api(api)
        self.namespace = settings.dispatcher.data.namespace
        self.name = name
        self.grace_seconds = int(settings.engine.stop_grace_seconds)
        self.start_seconds = settings.dispatcher.data.start_seconds
        self.clock = clock
        self.why = ""
        self._is_refused = False
        self._started_at = clock.monotonic()
        self._leaving_at: float | None = None

    async def wait(self) -> int:
        """Return the executor's exit code once it has ended, was deleted, or can never start."""
        while True:
            try:
                if (code := await self._poll()) is not None:
                    return code
            except ApiException as error:
                self._note_refusal(error)
            except (ClientError, OSError):
                pass  # the API is away for a moment; the lease decides for how long we wait
            await self.clock.sleep(POLL_SECONDS)

    async def _poll(self) -> int | None:
        """Return the exit code, if there is one already."""
        try:
            # The job, not its `status` resource: reading that one is a right of its own, which nothing else here needs.
            job = await self.batch.read_namespaced_job(self.name, self.namespace)
        except ApiException as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            self.why = "the Kubernetes job was deleted"
            return LOST
        if job.status.succeeded:
            self.why = f"the pod ended with exit code {ExitCode.OK.value}"
            return ExitCode.OK
        pods = await self._pods()
        if pods:
            return self._read(pods[0])
        if job.status.failed:
            self.why = "the pod was deleted"
            return LOST
        await self._check_created()
        return None

    def _read(self, pod: Any) -> int | None:
        """Judge the one pod: ended, on its way, or never to start."""
        if (ended := manifests.end_of(pod)) is not None:
            self.why, code = ended
            return code
        if pod.metadata.deletion_timestamp is not None:
            return self._read_leaving(pod)
        manifests.check_startable(pod)
        if not manifests.is_begun(pod) and self.clock.monotonic() - self._started_at > self.start_seconds:
            raise manifests.cannot_start(
                f"its pod did not start within {self.start_seconds:g} s, {manifests.obstacle(pod)}"
            )
        return None

    def _read_leaving(self, pod: Any) -> int | None:
        """Wait for an executor that saves its state; not for a node that does not answer."""
        now = self.clock.monotonic()
        self._leaving_at = now if self._leaving_at is None else self._leaving_at
        grace = float(pod.metadata.deletion_grace_period_seconds or 0)
        if now - self._leaving_at <= grace + NODE_SECONDS:
            return None
        self.why = f"the pod was to leave, and its node {pod.spec.node_name} does not report that it did"
        return LOST

    async def _check_created(self) -> None:
        """Explain why the cluster creates no pod, such as a quota that is used up."""
        selector = f"involvedObject.name={self.name},involvedObject.kind=Job,reason=FailedCreate"
        words = ""
        with suppress(ApiException):
            found = await self.core.list_namespaced_event(self.namespace, field_selector=selector)
            words = next((event.message for event in found.items), "")
        if words or self.clock.monotonic() - self._started_at > self.start_seconds:
            raise manifests.cannot_start(words or "the cluster made no pod for the job")

    def _note_refusal(self, error: ApiException) -> None:
        """Log once that the cluster refuses to show the job; the executor still works, so wait for it."""
        if not self._is_refused:
            self._is_refused = True
            hint = RIGHTS_WORDS if error.status == HTTPStatus.FORBIDDEN else "The runner tries again."
            get_logger("worker.dispatch").error(
                "the cluster refuses to show the job", job=self.name, why=words_of(error), hint=hint
            )

    async def stop(self) -> None:
        """Delete the pod with its grace period: one SIGTERM, then time to write the state."""
        await self._delete_pods(self.grace_seconds)

    async def kill(self) -> None:
        """Delete the pod without grace."""
        await self._delete_pods(0)

    async def remove(self) -> None:
        """Delete the job; its pod and its secret go with it."""
        with suppress(*AWAY):
            await self.batch.delete_namespaced_job(self.name, self.namespace, propagation_policy="Background")
        with suppress(*AWAY):
            await self.core.delete_namespaced_secret(self.name, self.namespace)

    async def _pods(self) -> list[Any]:
        found = await self.core.list_namespaced_pod(self.namespace, label_selector=f"job-name={self.name}")
        return list(found.items)

    async def _delete_pods(self, grace_seconds: int) -> None:
        with suppress(*AWAY):
            for pod in await self._pods():
                await self.core.delete_namespaced_pod(
                    pod.metadata.name, self.namespace, grace_period_seconds=grace_seconds
                )


class KubernetesDispatcher(Dispatcher):
    """Starts jobs in one namespace of one cluster."""

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        self.settings = settings
        self.data = settings.dispatcher.data
        self.clock = clock or Clock()
        self._api: ApiClient | None = None

    async def start(self, order: Order) -> KubernetesExecution:
        """Create the secret, then the job that reads it; what an interrupted start left is taken over."""
        try:
            api = await self.connection()
            await self._check_rights(api, order.name)
            await create(CoreV1Api(api).create_namespaced_secret, self.data.namespace, manifests.secret_manifest(order))
            await self._create_job(api, order)
            await self._give_secret_to_job(api, order)
        except (*AWAY, kube.ConfigException) as error:
            raise unfit(error, self.data.namespace) from error
        return KubernetesExecution(api, order.name, self.settings, self.clock)

    async def find(self, name: str) -> KubernetesExecution | None:
        """Find a job by its name, whether its pod runs or has ended."""
        try:
            api = await self.connection()
            await BatchV1Api(api).read_namespaced_job(name, self.data.namespace)
        except (*AWAY, kube.ConfigException) as error:
            if getattr(error, "status", None) == HTTPStatus.NOT_FOUND:
                return None
            raise unfit(error, self.data.namespace) from error
        return KubernetesExecution(api, name, self.settings, self.clock)

    async def probe(self) -> None:
        """Try the rights to look; whether the image can be had is seen with the next pod only."""
        try:
            await self._check_rights(await self.connection(), "runyard-probe")
        except (*AWAY, kube.ConfigException) as error:
            raise unfit(error, self.data.namespace) from error

    async def close(self) -> None:
        """Close the connection."""
        if self._api is not None:
            await self._api.close()

    async def connection(self) -> ApiClient:
        """The connection to the cluster."""
        if self._api is None:
            self._api = ApiClient(configuration=await configuration_for(self.data, self.clock))
            # The cluster's token and an executor's credential are for one address: a redirect is a refusal.
            pool = self._api.rest_client.pool_manager
            pool.request = partial(pool.request, allow_redirects=False)  # type: ignore[method-assign]
        return self._api

    async def _check_rights(self, api: ApiClient, name: str) -> None:
        """See before a job begins that its end can be learned, too: a refusal here is an answer, not "not yet"."""
        await CoreV1Api(api).list_namespaced_pod(self.data.namespace, label_selector=f"job-name={name}")
        try:
            await BatchV1Api(api).read_namespaced_job(name, self.data.namespace)
        except ApiException as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise

    async def _create_job(self, api: ApiClient, order: Order) -> None:
        """Create the job; a secret without one would be nobody's."""
        try:
            await create(
                BatchV1Api(api).create_namespaced_job, self.data.namespace, manifests.job_manifest(order, self.settings)
            )
        except AWAY:
            with suppress(*AWAY):
                await CoreV1Api(api).delete_namespaced_secret(order.name, self.data.namespace)
            raise

    async def _give_secret_to_job(self, api: ApiClient, order: Order) -> None:
        """Make the job own its secret, so that anyone who deletes the one deletes the other."""
        job = await BatchV1Api(api).read_namespaced_job(order.name, self.data.namespace)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": order.name, "uid": job.metadata.uid}
        patch = {"metadata": {"ownerReferences": [owner]}}
        await CoreV1Api(api).patch_namespaced_secret(order.name, self.data.namespace, patch)


async def create(make: Any, namespace: str, manifest: dict[str, Any]) -> None:
    """Create an object, unless an earlier start of the same attempt did."""
    try:
        await make(namespace, manifest)
    except ApiException as error:
        if error.status != HTTPStatus.CONFLICT:
            raise


def words_of(error: Exception) -> str:
    """Return the API's own words: its answer's message, else its status, else the connection's words."""
    with suppress(ValueError, TypeError, AttributeError):
        if message := json.loads(getattr(error, "body", None) or "{}").get("message"):
            return str(message)
    return str(getattr(error, "reason", None) or error)


def unfit(error: Exception, namespace: str) -> RunnerUnfit:
    """Build the error for a cluster that does not answer, or does not let the runner do what it must: no job's fault."""
    status = getattr(error, "status", None)
    if status == HTTPStatus.FORBIDDEN:
        hint = RIGHTS_WORDS
    elif status in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}:
        hint = "Check the dispatcher's settings: the cluster does not accept the job that they describe."
    elif status is not None and HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        hint = "Name the cluster's own address: redirects are not followed, for they would carry the runner's token elsewhere."
    elif status == HTTPStatus.UNAUTHORIZED:
        hint = "Check how the runner signs in to the cluster: its service account, kubeconfig or IAM role."
    else:
        hint = f"See that the cluster answers, and that it has the namespace {namespace}."
    return RunnerUnfit(f"Kubernetes could not start the executor: {words_of(error)}", code="dispatcher", hint=hint)


async def configuration_for(data: DispatcherData, clock: Clock) -> Configuration:
    """Find the cluster: by IAM, from inside a pod, or from a kubeconfig, as the settings say."""
    if data.auth_type is AuthType.EKS_IAM:
        from worker.dispatch.eks import EksAccess

        return await EksAccess(str(data.region), str(data.eks_cluster), clock).configuration()
    configuration = Configuration()
    if data.auth_type is not AuthType.KUBECONFIG:
        try:
            kube.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        except kube.ConfigException:
            if data.auth_type is AuthType.IN_CLUSTER:
                raise
        else:
            return configuration
    # The library reads KUBECONFIG when it is imported; we mean the variable as it is now.
    await kube.load_kube_config(os.environ.get("KUBECONFIG"), client_configuration=configuration)
    return configuration
