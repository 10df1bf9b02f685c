"""The Kubernetes objects of one executor."""

from typing import Any

from worker.dispatch.base import COMMAND, Order, plain_environment, secret_environment
from worker.settings import Settings
from worker.settings.dispatcher import DispatcherData

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
