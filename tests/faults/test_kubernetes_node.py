"""A node of a real Kubernetes that stops in mid-apply and returns: running processes continue, and dead ones are reported as such.

Anyone who stops a node must own it: RUNYARD_TEST_NODE_PID_FILES names the files with the process ids of its kubelet and its containerd,
RUNYARD_TEST_NODE_START the command that starts those that have ended. Skipped, with the reason, elsewhere.
"""

import signal
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from kubernetes_asyncio.client import CoreV1Api

from tests.faults.ledger import close_ledger
from tests.faults.own_daemon import OwnDaemon, find_own, is_gone
from tests.faults.real_executors import RealApply
from tests.faults.test_kubernetes_outage import applying, ask, namespace
from tests.integration.worker_bench import Bench, bench
from tests.support.waiting import wait_until

__all__ = ["bench", "namespace"]


@pytest.fixture
def own(namespace: str) -> OwnDaemon:
    return find_own("RUNYARD_TEST_NODE_PID_FILES", "RUNYARD_TEST_NODE_START")


def is_running(own: OwnDaemon) -> bool:
    """All of the node's processes run again."""
    return not any(is_gone(int(file.read_text())) for file in own.pid_files)


def processes_of(namespace: str, job: int) -> list[psutil.Process]:
    """Every process of the job's pod on this node, and the shim that holds them."""
    pods = ask(lambda api: CoreV1Api(api).list_namespaced_pod(namespace, label_selector=f"runyard.dev/job={job}"))
    uid = pods.items[0].metadata.uid
    inside = [each for each in psutil.process_iter() if is_in(each.pid, uid)]
    shims = [each for each in psutil.process_iter() if is_shim_of(each, inside)]
    return [*shims, *inside]


def is_shim_of(process: psutil.Process, inside: list[psutil.Process]) -> bool:
    try:
        return "shim" in process.name() and any(each in inside for each in process.children())
    except psutil.NoSuchProcess:
        return False


def is_in(pid: int, uid: str) -> bool:
    try:
        return uid in Path(f"/proc/{pid}/cgroup").read_text().replace("_", "-")
    except OSError:
        return False


@pytest.mark.slow
def test_an_apply_continues_while_its_nodes_kubelet_and_containerd_are_restarted(
    bench: Bench, namespace: str, own: OwnDaemon
) -> None:
    with applying(bench, namespace) as apply:
        own.end(signal.SIGKILL)
        apply.wait_for_its_end()
        bench.wait_job(apply.job, "SUCCEEDED")
        own.start(lambda: is_running(own))
        apply.check_whole()


@pytest.mark.slow
def test_an_apply_whose_node_was_switched_off_and_on_needs_a_person(
    bench: Bench, namespace: str, own: OwnDaemon
) -> None:
    with applying(bench, namespace) as apply:
        switch_off(own, apply, namespace)
        own.start(lambda: is_running(own))
        ended = bench.wait_job(apply.job, seconds=400)
        assert (ended["status"], ended["attempt"]) == ("NEEDS_ATTENTION", 1), ended["error"]
        wait_until(lambda: apply.runner.said("executor_lost"), timeout_seconds=180)
        assert bench.rpc("state_info", p_module=apply.module)["lock"] is not None, "nobody else changes it meanwhile"
        wait_until(lambda: not apply.place.exists(apply.name), timeout_seconds=180, every_seconds=0.5)
        close_ledger(bench, [apply.job]).check()


def switch_off(own: OwnDaemon, apply: RealApply, namespace: str) -> None:
    """As a power cut does: the node's processes first, so that nobody sees how the pod's end."""
    pods = processes_of(namespace, apply.job)
    own.end(signal.SIGKILL)
    for each in pods:
        with suppress(psutil.NoSuchProcess):
            each.kill()
