"""The condition of an executor, read from its pod's status."""

from dataclasses import dataclass
from typing import Any

from worker.errors import RunnerUnfit

HOPELESS = {
    "ErrImagePull",
    "ErrImageNeverPull",
    "ImagePullBackOff",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
}
IMAGE = {"ErrImagePull", "ErrImageNeverPull", "ImagePullBackOff", "InvalidImageName"}


@dataclass(frozen=True)
class Ended:
    """The executor has ended: with an exit code, or nobody knows with which."""

    why: str
    exit_code: int | None = None


def end_of(pod: Any) -> Ended | None:
    """Describe how the pod's executor ended, if it has; a pod that only has to stop still works."""
    for status in pod.status.container_statuses or []:
        if (gone := status.state.terminated) is not None:
            words = [pod.status.reason, gone.reason or "failed", gone.message or pod.status.message]
            said = ", ".join(dict.fromkeys(word.strip() for word in words if word))
            return Ended(f"the pod ended: {said} (exit code {gone.exit_code})", int(gone.exit_code))
    if pod.status.phase == "Failed":
        words = [pod.status.reason or "failed", pod.status.message]
        return Ended("the pod ended: " + ", ".join(word for word in words if word))
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
