"""Deliveries a minute, from a push to its plan in a repository of 500 modules, and from the plan's end to the report.

Run as `python -m benchmarks.git`. The peers are of the same run: a plain request to another function, and the time that
the runner itself needs to read the repository.
"""

import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from benchmarks.outcome import Outcome
from tests.integration.git_bench import CODE, SECRET
from tests.integration.worker_bench import Bench, open_bench
from tests.support import webhooks
from tests.support.git_provider import GitProvider, run_git_provider
from tests.support.stack import RunningStack, start_stack
from tests.support.waiting import wait_until
from tests.unit.worker.steps.git_places import listening

MODULES = 500
SENDERS = 8
SECONDS = 4.0
ROUNDS = 2
PUSHES = 5
MILLISECONDS = 1000


def send_for(seconds: float, send: Callable[[httpx.Client], httpx.Response]) -> int:
    """Send from several connections until the time is over; returns how many were accepted."""
    until = time.perf_counter() + seconds

    def one(_: int) -> int:
        count = 0
        with httpx.Client(timeout=30) as client:
            while time.perf_counter() < until:
                count += send(client).raise_for_status().is_success
        return count

    with ThreadPoolExecutor(SENDERS) as pool:
        return sum(pool.map(one, range(SENDERS)))


class Repository:
    """A repository of many modules that an organisation follows."""

    def __init__(self, bench: Bench, provider: GitProvider, server: str) -> None:
        self.bench, self.folder, self.url = bench, bench.folder / "repository", f"{server}/repository/.git"
        self.folder.mkdir()
        self.git("init", "-q", "-b", "main")
        for number in range(MODULES):
            self.write(number, "first")
        self.commit()
        self.modules = [self.module(number) for number in range(MODULES)]
        spec = {
            "provider": "gitea", "url": self.url, "base_url": f"{provider.url}/api/v1", "poll_seconds": 0,
            "webhook_secret": self.seal(SECRET), "token": self.seal("a token of the benchmark"),
        }  # fmt: skip
        self.connection = bench.rpc("connect_repository", p_org=bench.org, p_spec=spec)["id"]
        self.webhook = f"{bench.project.url}/functions/v1/git/{self.connection}"

    def git(self, *words: str) -> str:
        names = ("-c", "user.name=bench", "-c", "user.email=bench@example.com")
        return subprocess.run(
            ["git", *names, *words], cwd=self.folder, check=True, capture_output=True, text=True
        ).stdout.strip()

    def write(self, number: int, content: str) -> None:
        (self.folder / f"m{number}").mkdir(exist_ok=True)
        (self.folder / f"m{number}" / "main.tf").write_text(CODE % content)

    def commit(self) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "change")
        return self.git("rev-parse", "HEAD")

    def module(self, number: int) -> str:
        source = {"url": self.url, "ref": "main", "subfolder": f"m{number}"}
        return self.bench.module(source_kind="git", source=source)

    def seal(self, secret: str) -> str:
        body = {"org": self.bench.org, "channel": "webhook", "secret": secret}
        headers = {"authorization": f"Bearer {self.bench.token}"}
        url = f"{self.bench.project.url}/functions/v1/notify"
        return str(self.bench.http.post(url, json=body, headers=headers).raise_for_status().json()["secret"])

    def announce(self, client: httpx.Client, commit: str = "a" * 40) -> httpx.Response:
        body = webhooks.push_body("main", commit)
        return client.post(self.webhook, content=body, headers=webhooks.gitea(SECRET, body, delivery=uuid.uuid4().hex))

    def poll(self) -> None:
        job = self.bench.rpc("poll_repository", p_connection=self.connection)
        self.bench.wait_job(int(job["id"]))


def measure_deliveries(stack: RunningStack, repository: Repository) -> dict[str, Any]:
    """Deliveries and plain requests to another function, alternating."""
    counts = {"deliveries": 0, "requests": 0}
    for _ in range(ROUNDS):
        counts["requests"] += send_for(SECONDS, lambda client: client.get(f"{stack.url}/functions/v1/health"))
        counts["deliveries"] += send_for(SECONDS, repository.announce)
    found = {f"{name}_a_minute": round(count / SECONDS / ROUNDS * 60) for name, count in counts.items()}
    return {**found, "ratio": round(counts["deliveries"] / counts["requests"], 2)}


def newest_plan(repository: Repository, commit: str) -> dict[str, Any] | None:
    rows = repository.bench.rows("provision_jobs", org_id=repository.bench.org, type="PLAN", order="id.desc", limit=1)
    is_it = rows and rows[0]["payload"]["options"]["git"]["commit"] == commit
    return rows[0] if is_it else None


def measure_push(repository: Repository, number: int, provider: GitProvider) -> dict[str, float]:
    """One push: until its plan is queued, how long the runner read, and from the plan's end to the report."""
    repository.write(number, uuid.uuid4().hex)
    commit = repository.commit()
    with httpx.Client(timeout=30) as client:
        sent_at = time.time()
        repository.announce(client, commit).raise_for_status()
        answered_at = time.time()
    plan = wait_until(lambda: newest_plan(repository, commit), timeout_seconds=60, every_seconds=0.05)
    reading = repository.bench.rows("provision_jobs", org_id=repository.bench.org, type="RESOLVE", order="id.desc")[0]
    ended = datetime.fromisoformat(repository.bench.wait_job(int(plan["id"]))["finished_at"]).timestamp()
    request = wait_until(lambda: _report(provider, commit), timeout_seconds=60, every_seconds=0.05)
    read = [datetime.fromisoformat(reading[name]).timestamp() for name in ("claimed_at", "finished_at")]
    return {
        "answered_ms": (answered_at - sent_at) * MILLISECONDS,
        "queued_ms": (datetime.fromisoformat(plan["created_at"]).timestamp() - sent_at) * MILLISECONDS,
        "read_ms": (read[1] - read[0]) * MILLISECONDS,
        "reported_ms": (request - ended) * MILLISECONDS,
    }


def _report(provider: GitProvider, commit: str) -> float | None:
    """Return the time at which the end of the plan reached the provider."""
    ends = [each.at for each in provider.requests if each.path.endswith(commit) and each.body["state"] != "pending"]
    return ends[0] if ends else None


def measure_pushes(repository: Repository, provider: GitProvider) -> dict[str, Any]:
    """The median of a few pushes, each to another module."""
    samples = [measure_push(repository, number, provider) for number in range(PUSHES)]
    found = {name: round(sorted(each[name] for each in samples)[PUSHES // 2], 1) for name in samples[0]}
    return {"modules": MODULES, **found, "ratio": round(found["queued_ms"] / found["read_ms"], 2)}


def main() -> None:
    """Measure, show, keep."""
    outcome = Outcome("git")
    with outcome.part("the stack"), tempfile.TemporaryDirectory() as folder, run_git_provider() as provider:
        Path(folder).chmod(0o755)
        allowed = {"RUNYARD_ALLOW_PRIVATE_RECEIVERS": "true"}
        with start_stack(Path(folder) / "stack", "--no-dashboard", "--no-demo", **allowed) as stack:
            (Path(folder) / "bench").mkdir()
            with open_bench(stack, Path(folder) / "bench") as bench, listening(bench.folder) as server:
                repository = Repository(bench, provider, server.url)
                runner = bench.runner(options={"capacity": 4})
                wait_until(lambda: runner.said("doorbell_connected"))
                repository.poll()
                with outcome.part("pushes"):
                    outcome.parts["pushes"] = pushes = measure_pushes(repository, provider)
                    outcome.ratio("queued to read", pushes["ratio"], is_less_better=True)
                with outcome.part("deliveries"):
                    outcome.parts["deliveries"] = deliveries = measure_deliveries(stack, repository)
                    outcome.ratio("deliveries to requests", deliveries["ratio"])
    for name in ("pushes", "deliveries"):
        print(name, outcome.parts.get(name), flush=True)
    outcome.keep()


if __name__ == "__main__":
    main()
