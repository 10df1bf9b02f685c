"""Executors as Kubernetes jobs."""

import os
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from aiohttp import ClientError
from kubernetes_asyncio import config as kube
from kubernetes_asyncio.client import ApiClient, BatchV1Api, Configuration, CoreV1Api
from kubernetes_asyncio.client.exceptions import ApiException

from worker.clock import Clock, SystemClock
from worker.dispatch.base import LOST
from worker.dispatch.manifests import job_manifest, secret_manifest
from worker.dispatch.order import Order
from worker.errors import RunnerUnfit
from worker.exit_codes import ExitCode
from worker.runtime_log import get_logger
from worker.settings import Settings
from worker.settings.dispatcher import AuthType

POLL_SECONDS = 2.0
RIGHTS = (
    "The runner's role needs in its namespace: create, get and delete on jobs (batch); "
    "create, patch and delete on secrets; list and delete on pods."
)
AWAY = (ApiException, ClientError, OSError)
HOPELESS = {
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
}


class KubernetesExecution:
    """One Kubernetes job with one pod."""

    def __init__(self, api: ApiClient, namespace: str, name: str, grace_seconds: int, clock: Clock) -> None:
        """Keep what names the job."""
        self.batch = BatchV1Api(api)
        self.core = CoreV1Api(api)
        self.namespace = namespace
        self.name = name
        self.grace_seconds = grace_seconds
        self.clock = clock
        self.why = ""
        self.is_refused = False

    async def wait(self) -> int:
        """Return the executor's exit code once the job has ended, is gone, or can never start."""
        while True:
            try:
                if (code := await self._look()) is not None:
                    return code
            except (ClientError, OSError):
                pass  # the API is away for a moment; the lease decides for how long we wait
            await self.clock.sleep(POLL_SECONDS)

    async def _look(self) -> int | None:
        """Return the exit code, if there is one already."""
        try:
            # The job, not its `status` resource: reading that one is a right of its own, which nothing else here needs.
            job = await self.batch.read_namespaced_job(self.name, self.namespace)
        except ApiException as error:
            if error.status == HTTPStatus.NOT_FOUND:
                self.why = "the Kubernetes job is gone"
                return LOST
            self._note_refusal(error)
            return None
        if job.status.succeeded:
            return ExitCode.OK
        return await self._pod_code(has_failed=bool(job.status.failed))

    async def _pod_code(self, *, has_failed: bool) -> int | None:
        """Read the exit code from the pod; an image that cannot be had would be waited for until doomsday."""
        for pod in await self._pods():
            for status in pod.status.container_statuses or []:
                if status.state.terminated is not None and has_failed:
                    self.why = f"the pod ended: {status.state.terminated.reason or 'failed'}"
                    return int(status.state.terminated.exit_code)
                if status.state.waiting is not None and status.state.waiting.reason in HOPELESS:
                    self.why = f"the pod cannot start: {status.state.waiting.reason}"
                    raise RunnerUnfit(
                        f"Kubernetes could not start the executor: {self.why}", code="image",
                        hint="Check the dispatcher's image and the cluster's registry credentials.",
                    )  # fmt: skip
        self.why = "the pod is gone"
        return LOST if has_failed else None

    def _note_refusal(self, error: ApiException) -> None:
        """Say once that the cluster refuses to tell; the executor works on, and so it is waited for."""
        if error.status == HTTPStatus.FORBIDDEN and not self.is_refused:
            self.is_refused = True
            get_logger("worker.dispatch").error("the cluster refuses to tell of the job", job=self.name, hint=RIGHTS)

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


class KubernetesDispatcher:
    """Starts jobs in one namespace of one cluster."""

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        """Keep the settings; the connection is made with the first job."""
        self.settings = settings
        self.data = settings.dispatcher.data
        self.clock = clock or SystemClock()
        self._api: ApiClient | None = None

    async def start(self, order: Order) -> KubernetesExecution:
        """Create the secret, then the job that reads it; what an interrupted start left is taken over."""
        try:
            api = await self._connection()
            await self._check_rights(api, order.name)
            await create(CoreV1Api(api).create_namespaced_secret, self.data.namespace, secret_manifest(order))
            manifest = job_manifest(order, self.settings)
            await create(BatchV1Api(api).create_namespaced_job, self.data.namespace, manifest)
            await self._give_secret_to_job(api, order)
        except (*AWAY, kube.ConfigException) as error:
            raise RunnerUnfit(
                f"Kubernetes could not start the executor: {getattr(error, 'reason', None) or error}",
                code="dispatcher",
                hint=RIGHTS
                if getattr(error, "status", None) == HTTPStatus.FORBIDDEN
                else "Check the dispatcher's namespace.",
            ) from error
        grace = int(self.settings.engine.stop_grace_seconds)
        return KubernetesExecution(api, self.data.namespace, order.name, grace, self.clock)

    async def _check_rights(self, api: ApiClient, name: str) -> None:
        """See before a job begins that its end can be learned, too: a refusal here is an answer, not "not yet"."""
        await CoreV1Api(api).list_namespaced_pod(self.data.namespace, label_selector=f"job-name={name}")
        try:
            await BatchV1Api(api).read_namespaced_job(name, self.data.namespace)
        except ApiException as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise

    async def close(self) -> None:
        """Close the connection."""
        if self._api is not None:
            await self._api.close()

    async def _give_secret_to_job(self, api: ApiClient, order: Order) -> None:
        """Make the job own its secret, so that whoever deletes the one deletes the other."""
        job = await BatchV1Api(api).read_namespaced_job(order.name, self.data.namespace)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": order.name, "uid": job.metadata.uid}
        patch = {"metadata": {"ownerReferences": [owner]}}
        await CoreV1Api(api).patch_namespaced_secret(order.name, self.data.namespace, patch)

    async def _connection(self) -> ApiClient:
        if self._api is None:
            self._api = ApiClient(configuration=await self._configuration())
        return self._api

    async def _configuration(self) -> Configuration:
        """Find the cluster: by IAM, from inside a pod, or from a kubeconfig, as the settings say."""
        if self.data.auth_type is AuthType.EKS_IAM:
            from worker.dispatch.eks import EksAccess

            access = EksAccess(str(self.data.region), str(self.data.eks_cluster), self.clock)
            return await access.configuration()
        configuration = Configuration()
        if self.data.auth_type is not AuthType.KUBECONFIG:
            try:
                kube.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
            except kube.ConfigException:
                if self.data.auth_type is AuthType.IN_CLUSTER:
                    raise
            else:
                return configuration
        # The library reads KUBECONFIG when it is imported; we mean the variable as it is now.
        await kube.load_kube_config(os.environ.get("KUBECONFIG"), client_configuration=configuration)
        return configuration


async def create(make: Any, namespace: str, manifest: dict[str, Any]) -> None:
    """Create an object, unless an earlier start of the same attempt did."""
    try:
        await make(namespace, manifest)
    except ApiException as error:
        if error.status != HTTPStatus.CONFLICT:
            raise
