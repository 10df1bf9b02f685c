"""From the claim to the first line of the engine, by where the job is executed: in the runner, in Docker, in Kubernetes.

A place that is not here (`DOCKER_HOST`, `KUBECONFIG`, the image `runyard-worker`) is named and left out. The image's own code runs in
containers and pods. Takes about two minutes.
"""

import os
import platform
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

from _pytest.outcomes import Skipped

from benchmarks.outcome import Outcome
from tests.integration.worker_bench import Bench, open_bench
from tests.support.forwarding import forwarded
from tests.support.real_docker import find_docker
from tests.support.real_kubernetes import find_cluster
from tests.support.stack import Project, start_stack

SAMPLES = 5
DATA = "RUNYARD_JOB_DISPATCHER_DATA_"
# The image has an engine of its own.
NO_ENGINE = {"RUNYARD__ENGINE__ADDITIONALBINARYPATHS": "/nonexistent"}


@contextmanager
def in_runner(_: Project, __: Path) -> Iterator[dict[str, str]]:
    """No dispatcher."""
    yield {}


@contextmanager
def in_docker(project: Project, _: Path) -> Iterator[dict[str, str]]:
    """A container for each job."""
    docker = find_docker()
    with forwarded(docker.gateway, ("127.0.0.1", urlsplit(project.url).port or 80)) as port:
        yield NO_ENGINE | {
            "RUNYARD_JOB_DISPATCHER_TYPE": "docker",
            f"{DATA}HOST": docker.host,
            f"{DATA}IMAGE": docker.image,
            f"{DATA}LOCAL_IMAGE": "true",
            f"{DATA}API_URL": f"http://{docker.gateway}:{port}",
        }


@contextmanager
def in_kubernetes(project: Project, folder: Path) -> Iterator[dict[str, str]]:
    """A pod for each job."""
    cluster = find_cluster(folder)
    cluster("create", "namespace", cluster.namespace)
    cluster.give_rights()
    with forwarded(cluster.gateway, ("127.0.0.1", urlsplit(project.url).port or 80)) as port:
        yield NO_ENGINE | {
            "KUBECONFIG": cluster.kubeconfig(),
            "RUNYARD_JOB_DISPATCHER_TYPE": "kubernetes",
            f"{DATA}AUTH_TYPE": "kubeconfig",
            f"{DATA}IMAGE": cluster.image,
            f"{DATA}PULL_POLICY": "IfNotPresent",
            f"{DATA}NAMESPACE": cluster.namespace,
            f"{DATA}API_URL": f"http://{cluster.gateway}:{port}",
        }
    cluster("delete", "namespace", cluster.namespace, "--wait=false")


PLACES = {"local": in_runner, "docker": in_docker, "kubernetes": in_kubernetes}


def measure(project: Project, folder: Path, place: str) -> dict[str, Any]:
    """Plan a small module a few times, one after the other, after one that does not count."""
    folder.mkdir()
    with PLACES[place](project, folder) as variables, open_bench(project, folder) as bench:
        bench.runner(**variables)
        module = bench.module()
        bench.finished("PLAN", module)
        seen = [times(bench, bench.finished("PLAN", module)) for _ in range(SAMPLES)]
    lines, ends = ([round(each[part], 2) for each in seen] for part in (0, 1))
    return {"first_line": lines, "end": ends, "first_line_median": median(lines), "end_median": median(ends)}


def times(bench: Bench, job: dict[str, Any]) -> tuple[float, float]:
    """Seconds from the claim to the engine's first line in the project, and to the job's end."""
    claimed = next(at(event["at"]) for event in bench.events_of(job["id"]) if event["event"] == "claimed")
    chunks = bench.rows("job_log_chunks", job_id=job["id"], order="seq.asc", select="step,created_at")
    line = next(at(chunk["created_at"]) for chunk in chunks if chunk["step"] in {"init", "plan"})
    return (line - claimed).total_seconds(), (at(job["finished_at"]) - claimed).total_seconds()


def at(text: str) -> datetime:
    """A moment of the database's."""
    return datetime.fromisoformat(text)


def show(place: str, found: dict[str, Any]) -> None:
    """Print one line of the table."""
    shown = (
        f"{found[f'{part}_median']:>6} s ({min(found[part])}–{max(found[part])})" for part in ("first_line", "end")
    )
    print(f"{place:<12} first line {' end '.join(shown)}  load {os.getloadavg()[0]:.1f}", flush=True)


def main() -> None:
    """Measure, show, keep."""
    outcome = Outcome("dispatch")
    outcome.parts |= {"machine": f"{os.cpu_count()} cores, {platform.machine()}", "load_before": os.getloadavg()}
    with tempfile.TemporaryDirectory(prefix="runyard-bench-") as name, outcome.part("the stack"):
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "stack").mkdir(mode=0o755)
        with start_stack(folder / "stack", "--no-dashboard", "--no-demo") as stack:
            for place in PLACES:
                try:
                    with outcome.part(place):
                        outcome.parts[place] = measure(stack, folder / place, place)
                        show(place, outcome.parts[place])
                except Skipped as why:
                    print(f"{place}: left out, {why}", flush=True)
    outcome.keep()


if __name__ == "__main__":
    main()
