"""The thin line: register, start the process, ONLINE, a plan runs, its log arrives, SUCCEEDED."""

import json

from tests.integration.worker_bench import Bench, bench

__all__ = ["bench"]


def test_a_registered_runner_comes_online_and_runs_a_plan(bench: Bench) -> None:
    runner = bench.runner()
    instance = bench.rows("worker_instances", worker_id=runner.worker_id)[0]
    assert instance["name"] == runner.instance
    assert instance["engines"]["tofu"]
    job = bench.finished("PLAN", bench.module(inputs={"who": "Ada"}))
    assert job["plan_summary"]["create"] == 2
    assert job["plan_summary"]["has_changes"]
    assert [step["name"] for step in job["steps"]] == [
        "prepare", "fetch", "inputs", "init", "plan", "save-plan", "report",
    ]  # fmt: skip
    assert {step["status"] for step in job["steps"]} == {"SUCCEEDED"}
    log = bench.log_of(job["id"])
    assert "OpenTofu has been successfully initialized" in log
    assert "hello Ada" in log
    assert "correct-horse-battery" not in log
    assert "correct-horse-battery" not in json.dumps([job["plan_summary"], job["result"], job["steps"]])
