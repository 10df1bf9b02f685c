"""A Kubernetes cluster that is really there, on this machine: tests that need it are skipped, with a reason, elsewhere."""

import json
import os
import shlex
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stack.settings import PROJECT
from tests.support.must import unavailable
from tests.support.ports import free_ports
from tests.support.real_docker import IMAGE_VARIABLE, INSIDE, gateway_of
from worker.dispatch.kubernetes import RIGHTS

CODE = [{"name": "code", "hostPath": {"path": str(PROJECT / "worker")}}]
MOUNTS = [{"name": "code", "mountPath": INSIDE, "readOnly": True}]


@dataclass(frozen=True)
class RealKubernetes:
    """One namespace of one cluster, and an account in it with the rights that the docs name."""

    command: tuple[str, ...]
    namespace: str
    image: str
    gateway: str
    folder: Path

    def __call__(self, *arguments: str, stdin: str | None = None, is_checked: bool = True) -> str:
        done = subprocess.run(
            [*self.command, "--namespace", self.namespace, *arguments],
            input=stdin, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert not is_checked or done.returncode == 0, done.stderr
        return done.stdout.strip()

    def apply(self, *objects: dict[str, Any]) -> None:
        for each in objects:
            self("apply", "--filename", "-", stdin=json.dumps(each))

    def pod_of(self, job: int) -> str:
        return self(
            "get", "pods", "--selector", f"runyard.dev/job={job}", "--output", "jsonpath={.items[*].metadata.name}"
        )

    def left(self) -> list[str]:
        """Jobs and secrets of executors that are still there."""
        return self("get", "jobs,secrets", "--selector", "runyard.dev/job", "--output", "name").split()

    def give_rights(self, rights: dict[tuple[str, str], tuple[str, ...]] = RIGHTS) -> None:
        rules = [{"apiGroups": [g], "resources": [r], "verbs": list(verbs)} for (g, r), verbs in rights.items()]
        kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "runner"}}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "runner"}
        subject = {"kind": "ServiceAccount", "name": "runner", "namespace": self.namespace}
        self.apply(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "runner"}},
            {**kind, "kind": "Role", "rules": rules},
            {**kind, "kind": "RoleBinding", "roleRef": reference, "subjects": [subject]},
        )

    @contextmanager
    def volume(self, claim: str, folder: Path) -> Iterator[None]:
        """A volume for a claim of this namespace, in a folder that every user can write."""
        folder.mkdir()
        folder.chmod(0o777)
        for parent in folder.parents:
            if parent.stat().st_mode & 0o001 == 0:
                parent.chmod(parent.stat().st_mode | 0o001)
        reference = {"namespace": self.namespace, "name": claim}
        spec = {"capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"], "claimRef": reference}
        spec["hostPath"] = {"path": str(folder)}
        self.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": self.namespace}, "spec": spec})
        try:
            yield
        finally:
            self("delete", "persistentvolume", self.namespace, "--wait=false", is_checked=False)

    def install(self, chart: str, values: dict[str, Any]) -> None:
        """Install a chart of deploy/helm as the release `chart`."""
        if shutil.which("helm") is None:
            unavailable("kubernetes", "helm is not installed")
        file, admin = self.folder / "values.json", self.folder / "admin"
        file.write_text(json.dumps(values))
        admin.write_text(self("config", "view", "--raw", "--output", "json"))
        place = str(PROJECT / "deploy" / "helm" / chart)
        command = ["helm", "install", "chart", place, "--namespace", self.namespace, "--values", str(file)]
        environment = os.environ | {"KUBECONFIG": str(admin)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    @contextmanager
    def reached(self, place: str, *ports: int) -> Iterator[list[str]]:
        """Forward ports of a service to this machine, as the charts' notes advise; yields their addresses, which answer soon."""
        near = free_ports(len(ports))
        pairs = [f"{mine}:{port}" for mine, port in zip(near, ports, strict=True)]
        command = [*self.command, "--namespace", self.namespace, "port-forward", place, *pairs]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as forwarding:
            try:
                yield [f"http://127.0.0.1:{port}" for port in near]
            finally:
                forwarding.terminate()

    def kubeconfig(self) -> str:
        """A file with which one is that account and nobody else."""
        whole = json.loads(self("config", "view", "--raw", "--output", "json"))
        token = self("create", "token", "runner")
        cluster = whole["clusters"][0]
        context = {"name": "c", "context": {"cluster": cluster["name"], "user": "u"}}
        users = [{"name": "u", "user": {"token": token}}]
        file = self.folder / f"kubeconfig-{uuid.uuid4().hex[:6]}"
        file.write_text(json.dumps({**whole, "current-context": "c", "contexts": [context], "users": users}))
        return str(file)


def pod_bridge() -> str:
    """This machine's side of the pods' network: the one that the environment names, else the first bridge of a CNI plug-in."""
    bridges = sorted(path.name for path in Path("/sys/class/net").glob("cni*"))
    return os.environ.get("RUNYARD_TEST_POD_BRIDGE") or next(iter(bridges), "cni0")


def find_cluster(folder: Path) -> RealKubernetes:
    """The cluster that KUBECONFIG names and whose pods reach this machine; or a skipped test."""
    command = tuple(shlex.split(os.environ.get("RUNYARD_TEST_KUBECTL", "kubectl")))
    try:
        found = subprocess.run([*command, "get", "nodes"], capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        unavailable("kubernetes", "no kubectl is here; RUNYARD_TEST_KUBECTL names another command")
    if found.returncode:
        answer = (found.stderr.strip().splitlines() or ["?"])[-1]
        unavailable("kubernetes", f"no Kubernetes cluster answers: {answer}")
    gateway = gateway_of(pod_bridge())
    name = f"runyard-test-{uuid.uuid4().hex[:8]}"
    return RealKubernetes(command, name, os.environ.get(IMAGE_VARIABLE, "runyard-worker"), gateway, folder)


@pytest.fixture
def real_kubernetes(tmp_path: Path) -> Iterator[RealKubernetes]:
    """A namespace of the test's own."""
    cluster = find_cluster(tmp_path)
    cluster("create", "namespace", cluster.namespace)
    cluster.give_rights()
    yield cluster
    cluster("delete", "namespace", cluster.namespace, "--wait=false")
