"""The slice of Kubernetes' API that the dispatcher uses; each pod is a real process."""

from pathlib import Path
from typing import Any

from tests.unit.worker.dispatch.processes import Box
from tests.unit.worker.dispatch.serving import Call, Route

Answer = tuple[int, Any]


def problem(code: int, reason: str) -> Answer:
    """Answer as Kubernetes does."""
    return code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}


class KubernetesApi:
    """Keeps jobs and secrets, and runs each job's pod once."""

    def __init__(self, bin_folder: Path) -> None:
        self.bin_folder = bin_folder
        self.secrets: dict[str, dict[str, Any]] = {}
        self.jobs: dict[str, dict[str, Any]] = {}
        self.boxes: dict[str, Box] = {}
        self.tokens: set[str] = set()
        self.graces: list[str] = []
        self.waiting_reason: str | None = None
        self.has_forbidden_pods = False
        self.failing_calls = 0
        self.problem_event = ""
        self.is_unscheduled = False
        self.leaving: set[str] = set()
        self.redirects: dict[str, Answer] = {}

    def routes(self) -> dict[str, Route]:
        core, batch = "/api/v1/namespaces/runyard", "/apis/batch/v1/namespaces/runyard"
        return {
            f"POST {core}/secrets": lambda call: self.redirects.get("secrets") or self.create(self.secrets, call),
            f"PATCH {core}/secrets/(.+)": self.patch_secret,
            f"DELETE {core}/secrets/(.+)": lambda call: self.delete(self.secrets, call),
            f"POST {batch}/jobs": self.create_job,
            f"GET {batch}/jobs/([^/]+)": self.read_job,
            f"DELETE {batch}/jobs/(.+)": lambda call: self.delete(self.jobs, call),
            f"GET {core}/pods": lambda call: self.redirects.get("pods") or self.list_pods(call),
            f"DELETE {core}/pods/(.+)": self.delete_pod,
            f"GET {core}/events": self.list_events,
        }

    def create(self, kept: dict[str, dict[str, Any]], call: Call) -> Answer:
        self.tokens.add(call.headers.get("authorization", ""))
        name = call.body["metadata"]["name"]
        if name in kept:
            return problem(409, "AlreadyExists")
        kept[name] = call.body
        call.body["metadata"]["uid"] = f"uid-of-{name}"
        return 201, call.body

    def create_job(self, call: Call) -> Answer:
        status, answer = self.create(self.jobs, call)
        if status == 201:
            container = call.body["spec"]["template"]["spec"]["containers"][0]
            environment = {item["name"]: item["value"] for item in container["env"]}
            for source in container["envFrom"]:
                environment |= self.secrets[source["secretRef"]["name"]]["stringData"]
            name = call.body["metadata"]["name"]
            if self.problem_event:
                return status, answer
            self.boxes[name] = Box(self.bin_folder, container["command"], environment)
        return status, answer

    def read_job(self, call: Call) -> Answer:
        name = call.parts[0]
        if name not in self.jobs:
            return problem(404, "NotFound")
        if name not in self.boxes:
            return 200, {**self.jobs[name], "status": {}}
        code = self.boxes[name].exit_code()
        # As the Job controller of old does: a pod whose deletion is only requested counts as failed at once.
        code = 1 if code is None and name in self.leaving else code
        status = {"active": 1} if code is None else {"succeeded": 1} if code == 0 else {"failed": 1}
        return 200, {**self.jobs[name], "status": status}

    def patch_secret(self, call: Call) -> Answer:
        self.secrets[call.parts[0]]["metadata"] |= call.body["metadata"]
        return 200, self.secrets[call.parts[0]]

    def list_pods(self, call: Call) -> Answer:
        name = call.query["labelSelector"].removeprefix("job-name=")
        if self.has_forbidden_pods:
            return problem(403, "Forbidden")
        if name in self.boxes and self.failing_calls:
            self.failing_calls -= 1
            return problem(500, "InternalError")
        if name not in self.boxes:
            return 200, {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []}
        code = self.boxes[name].exit_code()
        state: dict[str, Any] = {"running": {}} if code is None else {"terminated": {"exitCode": code}}
        if self.waiting_reason:
            state = {"waiting": {"reason": self.waiting_reason}}
        container = {"name": "executor", "image": "x", "imageID": "x", "ready": True, "restartCount": 0, "state": state}
        metadata: dict[str, Any] = {"name": f"{name}-pod"}
        if name in self.leaving:
            metadata |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 60}
        status: dict[str, Any] = {"phase": "Running", "containerStatuses": [container]}
        if self.is_unscheduled:
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
            status = {"phase": "Pending", "conditions": [condition]}
        pod = {"metadata": metadata, "spec": {"nodeName": "n1", "containers": []}, "status": status}
        return 200, {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [pod]}

    def list_events(self, call: Call) -> Answer:
        assert "reason=FailedCreate" in call.query["fieldSelector"]
        event = {"metadata": {"name": "e"}, "involvedObject": {}, "message": self.problem_event}
        items = [event] if self.problem_event else []
        return 200, {"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": items}

    def delete_pod(self, call: Call) -> Answer:
        grace = call.query.get("gracePeriodSeconds", "30")
        self.graces.append(grace)
        self.leaving.add(call.parts[0].removesuffix("-pod"))
        self.boxes[call.parts[0].removesuffix("-pod")].signal("SIGKILL" if grace == "0" else "SIGTERM")
        return 200, {"metadata": {"name": call.parts[0]}}

    def delete(self, kept: dict[str, dict[str, Any]], call: Call) -> Answer:
        if kept.pop(call.parts[0], None) is None:
            return problem(404, "NotFound")
        return 200, {"kind": "Status", "status": "Success"}
