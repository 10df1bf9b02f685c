"""Faults with executors in a real Docker; skipped, with the reason, where there is none."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import httpx
import pytest

from tests.faults.real_executors import (
    IMAGE,
    Place,
    RealApply,
    address_of,
    goes_on_through_an_outage,
    outlives_its_runner,
)
from tests.faults.worker_proxy import Proxy
from tests.integration.worker_bench import Bench, bench
from tests.support.waiting import wait_until

__all__ = ["bench"]


class Daemon:
    """As much of Docker's API as the tests look at."""

    def __init__(self) -> None:
        self.host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
        socket = self.host.removeprefix("unix://")
        transport = httpx.HTTPTransport(uds=socket) if socket != self.host else None
        base = "http://docker" if transport else self.host.replace("tcp://", "http://")
        self.http = httpx.Client(transport=transport, base_url=base, timeout=30)

    def has(self, path: str) -> bool:
        return self.http.get(path).status_code == 200

    def exists(self, name: str) -> bool:
        return self.has(f"/containers/{name}/json")

    def signal(self, name: str, number: str) -> None:
        self.http.post(f"/containers/{name}/kill", params={"signal": number})

    def remove(self, name: str) -> None:
        self.http.delete(f"/containers/{name}", params={"force": "true", "v": "true"})


@pytest.fixture
def daemon() -> Daemon:
    found = Daemon()
    try:
        has_image = found.has(f"/images/{IMAGE}/json")
    except httpx.HTTPError as error:
        pytest.skip(f"no Docker daemon answers at {found.host}: {error}")
    if not has_image:
        pytest.skip(f"Docker has no image {IMAGE}: build deploy/Dockerfile")
    return found


@contextmanager
def applying(bench: Bench, daemon: Daemon) -> Iterator[RealApply]:
    """A runner with an apply in a container; afterwards nothing is left of it."""
    variables = {
        "RUNYARD_JOB_DISPATCHER_TYPE": "docker",
        "RUNYARD_JOB_DISPATCHER_DATA_HOST": daemon.host,
        "RUNYARD_JOB_DISPATCHER_DATA_LOCAL_IMAGE": "true",
    }
    place = Place(variables, address_of("docker0"), daemon.exists)
    with Proxy(bench.project.url) as to_runner, Proxy(bench.project.url, place.host) as to_executor:
        try:
            yield RealApply(bench, place, to_runner, to_executor)
        finally:
            jobs = [row["id"] for row in bench.rows("provision_jobs", org_id=bench.org)]
            (worker,) = bench.tokens
            bench.close()
            for job in jobs:
                with suppress(httpx.HTTPError):
                    daemon.remove(f"runyard-job-{job}-1-{worker[:8]}")


@pytest.fixture
def apply(bench: Bench, daemon: Daemon) -> Iterator[RealApply]:
    with applying(bench, daemon) as made:
        yield made


@pytest.mark.slow
def test_an_executor_continues_through_an_outage(apply: RealApply) -> None:
    goes_on_through_an_outage(apply)


@pytest.mark.slow
def test_an_executor_outlives_its_runner(apply: RealApply) -> None:
    outlives_its_runner(apply)


@pytest.mark.slow
def test_a_container_killed_with_its_state_undelivered_delivers_it_when_it_is_started_again(
    apply: RealApply, daemon: Daemon
) -> None:
    apply.to_executor.cut()
    apply.wait_for_its_end()
    daemon.signal(apply.name, "SIGKILL")
    wait_until(lambda: apply.runner.said("executor_redelivers"))
    apply.mend()
    apply.check_whole()
