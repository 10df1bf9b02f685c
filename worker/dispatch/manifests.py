"""The Kubernetes objects of one executor, and its condition, read from its pod's status."""

from typing import Any

from worker.dispatch.base import COMMAND, LOST, Order, plain_environment, secret_environment
from worker.errors import RunnerUnfit
from worker.settings.dispatcher import DispatcherData
from worker.settings.model import Settings

KEPT_SECONDS = 600


def secret_manifest(order: Order) -> dict[str, Any]:
    """Return the secret with the job's own credential: anyone who may read pods need not see it."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": order.name, "labels": order.labels},
        "stringData": secret_environment(order),
    }


def job_manifest(order: Order, settings: Settings) -> dict[str, Any]:
    """Return the job: one pod, started once, since only the database decides about another attempt."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": order.name, "labels": order.labels},
        "spec": {
            "backoffLimit": 0,
            # A pod that has to stop has not failed: its executor still saves its state.
            "podReplacementPolicy": "Failed",
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "template": {"metadata": {"labels": order.labels}, "spec": pod_spec(order, settings)},
        },
    }


def pod_spec(order: Order, settings: Settings) -> dict[str, Any]:
    """Return the pod; a service account's token is in it only where the settings name the account."""
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": int(settings.engine.stop_grace_seconds),
        "automountServiceAccountToken": settings.dispatcher.data.service_account_name is not None,
        "containers": [container(order, settings)],
        **_placement(settings.dispatcher.data),
    }


def _placement(data: DispatcherData) -> dict[str, Any]:
    """Return the settings of the pod's place; the cluster decides the rest."""
    wanted = {
        "serviceAccountName": data.service_account_name,
        "nodeSelector": data.node_selector,
        "tolerations": data.tolerations,
        "volumes": data.volumes,
    }
    return {name: value for name, value in wanted.items() if value}


def container(order: Order, settings: Settings) -> dict[str, Any]:
    """Return the executor's container."""
    data = settings.dispatcher.data
    environment = plain_environment(order, settings)
    # The last secret wins: nothing replaces the job's own credential.
    secrets = [*data.environment_secrets, order.name]
    wanted = {
        "imagePullPolicy": data.pull_policy.value if data.pull_policy else None,
        "volumeMounts": data.volume_mounts,
    }
    return {
        "name": "executor",
        "image": data.image,
        "command": list(COMMAND),
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "envFrom": [{"secretRef": {"name": name}} for name in secrets],
        "resources": resources(settings),
        "securityContext": {"allowPrivilegeEscalation": False},
        **{name: value for name, value in wanted.items() if value},
    }


def resources(settings: Settings) -> dict[str, Any]:
    """Return the memory that the settings ask for and allow."""
    data = settings.dispatcher.data
    wanted = {"requests": data.memory_request, "limits": data.memory_limit}
    return {kind: {"memory": quantity(amount)} for kind, amount in wanted.items() if amount}


def quantity(text: str) -> str:
    """Write `42 MB` as Kubernetes does; its own spellings stay as they are."""
    compact = text.replace(" ", "")
    return compact[:-1] if compact[-1:] in "bB" and compact[-2:-1].isalpha() else compact


IMAGE = {"ErrImagePull", "ErrImageNeverPull", "ImagePullBackOff", "InvalidImageName"}
HOPELESS = IMAGE | {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}


def end_of(pod: Any) -> tuple[str, int] | None:
    """Describe how the pod's executor ended, with its exit code, if it has; a pod that only has to stop still works."""
    for status in pod.status.container_statuses or []:
        if (gone := status.state.terminated) is not None:
            words = [pod.status.reason, gone.reason or "failed", gone.message or pod.status.message]
            said = ", ".join(dict.fromkeys(word.strip() for word in words if word))
            return f"the pod ended: {said} (exit code {gone.exit_code})", int(gone.exit_code)
    if pod.status.phase == "Failed":
        words = [pod.status.reason or "failed", pod.status.message]
        return "the pod ended: " + ", ".join(word for word in words if word), LOST
    return None


def is_begun(pod: Any) -> bool:
    """Whether the executor has been running."""
    return any(
        status.state.running is not None or status.state.terminated is not None
        for status in pod.status.container_statuses or []
    )


def check_startable(pod: Any) -> None:
    """Raise when the pod can never start as it is: the runner would wait for it for ever."""
    for status in pod.status.container_statuses or []:
        waiting = status.state.waiting
        if waiting is not None and waiting.reason in HOPELESS:
            words = f"{waiting.reason}: {waiting.message}" if waiting.message else waiting.reason
            raise cannot_start(words, code="image" if waiting.reason in IMAGE else "dispatcher")


def obstacle(pod: Any) -> str:
    """Explain why a pod has not started yet, in the scheduler's or the node's words."""
    for condition in pod.status.conditions or []:
        if condition.status == "False" and condition.message:
            return f"{condition.reason}: {condition.message}"
    return f"it is {pod.status.phase}"


def cannot_start(words: str, *, code: str = "dispatcher") -> RunnerUnfit:
    """Build the error for a cluster that does not run the executor: no job's fault."""
    hint = (
        "Check the dispatcher's image, its pull policy and the cluster's registry credentials."
        if code == "image"
        else "Check the dispatcher's settings, and the namespace's quota and nodes."
    )
    return RunnerUnfit(f"Kubernetes could not start the executor: {words}", code=code, hint=hint)
