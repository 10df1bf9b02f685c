"""The project is away while Pulumi changes things: its checkpoint is kept, and its end counts when the news arrives."""

import json
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from cli.engines.cache import find
from cli.engines.catalog import ENGINES
from tests.faults.ledger import close_ledger
from tests.faults.worker_engine import HeldTofu, make_engine
from tests.faults.worker_proxy import Proxy
from tests.integration.worker_bench import Bench, bench
from tests.support.waiting import wait_until

__all__ = ["bench"]
PROGRAM = """
name: greeting
runtime: yaml
outputs:
  greeting: hello
"""


@pytest.fixture
def engine(tmp_path: Path) -> HeldTofu:
    """Pulumi, held where it begins to change things."""
    real, yaml = find(ENGINES["pulumi"]), find(ENGINES["pulumi-language-yaml"])
    if real is None or yaml is None:
        pytest.skip("pulumi and pulumi-language-yaml are not there; `make engines` builds them")
    made = make_engine(tmp_path / "engine", real, "pulumi", helpers=(yaml.parent,))
    made.hold("up")
    return made


class Update:
    """A runner behind a proxy whose Pulumi has begun an update and waits in it."""

    def __init__(self, bench: Bench, proxy: Proxy, engine: HeldTofu) -> None:
        self.bench, self.proxy, self.engine = bench, proxy, engine
        self.worker = bench.register()
        self.runner = bench.start_worker(self.worker, url=proxy.url, **engine.variables)
        bench.online(self.worker)
        self.module = bench.module(engine="pulumi", source={"files": {"Pulumi.yaml": PROGRAM}})
        self.job = bench.enqueue("APPLY", self.module)
        wait_until(lambda: engine.has_begun("up", self.job), timeout_seconds=180)

    def record(self) -> Any:
        (file,) = self.runner.home.glob("instances/*/jobs/*/job.json")
        return json.loads(file.read_text())

    def wait_ended_away(self) -> None:
        entries = lambda: list(self.runner.home.glob("instances/*/jobs/*/state/*.entry"))  # noqa: E731
        wait_until(lambda: entries() and self.record()["outcome"], timeout_seconds=180)

    def check_whole(self) -> None:
        row = self.bench.wait_job(self.job, "SUCCEEDED", "FAILED")
        assert (row["status"], row["attempt"], row["error"]) == ("SUCCEEDED", 1, None), self.bench.log_of(self.job)[
            -3000:
        ]
        assert row["result"]["outputs"]["greeting"]["value"] == "hello"
        info = self.bench.rpc("state_info", p_module=self.module)
        assert info["lock"] is None
        stored = json.loads(self.bench.rpc("state_version", p_module=self.module, p_serial=info["serial"])["body"])
        assert [each["type"] for each in stored["deployment"]["resources"]] == ["pulumi:pulumi:Stack"]
        assert sum(line.endswith(" up") for line in self.engine.runs.read_text().splitlines()) == 1
        close_ledger(self.bench, [self.job], self.engine.runs).check()


@pytest.fixture
def update(bench: Bench, engine: HeldTofu) -> Iterator[Update]:
    with Proxy(bench.project.url) as proxy:
        yield Update(bench, proxy, engine)


def test_an_update_that_finishes_during_an_outage_succeeds_once_reported(update: Update) -> None:
    update.proxy.cut()
    update.engine.release("up")
    update.wait_ended_away()
    update.proxy.mend()
    update.check_whole()


@pytest.mark.slow
def test_the_next_start_reports_the_update_of_a_runner_killed_while_the_project_was_away(update: Update) -> None:
    update.proxy.cut()
    update.engine.release("up")
    update.wait_ended_away()
    update.runner.signal(signal.SIGKILL)
    update.runner.wait()
    update.proxy.mend()
    update.bench.start_worker(
        update.worker, url=update.proxy.url, instance=update.runner.instance, home=update.runner.home,
        **update.engine.variables,
    )  # fmt: skip
    update.check_whole()


def test_a_killed_pulumi_leaves_the_job_to_a_person_with_its_lock(update: Update) -> None:
    found = psutil.Process(update.runner.process.pid).children(recursive=True)
    for process in found:
        # Pulumi's own children come and go.
        with suppress(psutil.NoSuchProcess):
            if "up" in process.cmdline():
                process.kill()
    row = update.bench.wait_job(update.job, "NEEDS_ATTENTION", "FAILED")
    assert (row["status"], row["error"]["code"]) == ("NEEDS_ATTENTION", "engine_killed")
    assert update.bench.rpc("state_info", p_module=update.module)["lock"]["job_id"] == update.job
