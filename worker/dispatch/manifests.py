"""The Kubernetes objects of one executor."""

from typing import Any

from worker.dispatch.order import COMMAND, Order, plain_environment, secret_environment
from worker.settings import Settings

KEPT_SECONDS = 600


def secret_manifest(order: Order) -> dict[str, Any]:
    """Return the secret with the job's own credential: whoever may read pods need not see it."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": order.name, "labels": order.labels},
        "stringData": secret_environment(order),
    }


def job_manifest(order: Order, settings: Settings) -> dict[str, Any]:
    """Return the job: one pod, started once, since only the database decides about another attempt."""
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": int(settings.engine.stop_grace_seconds),
        "automountServiceAccountToken": False,
        "containers": [container(order, settings)],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": order.name, "labels": order.labels},
        "spec": {
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "template": {"metadata": {"labels": order.labels}, "spec": spec},
        },
    }


def container(order: Order, settings: Settings) -> dict[str, Any]:
    """Return the executor's container."""
    environment = plain_environment(order, settings)
    return {
        "name": "executor",
        "image": settings.dispatcher.data.image,
        "command": list(COMMAND),
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "envFrom": [{"secretRef": {"name": order.name}}],
        "resources": resources(settings),
        "securityContext": {"allowPrivilegeEscalation": False},
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
