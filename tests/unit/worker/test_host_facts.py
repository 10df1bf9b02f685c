"""The facts that a runner reports about itself."""

from pathlib import Path
from typing import Any

import pytest

from worker.finder import EngineFinder
from worker.host_facts import HostFacts
from worker.process_status import ProcessStatus
from worker.settings.load import load_settings

BASE = {"WORKER_ID": "7b0b1c9e-8f0c-4a77-9d0c-0d8b0a7c2f11", "WORKER_TOKEN": "ryw_x", "SUPABASE_URL": "http://x"}
DOCKER = {"RUNYARD_JOB_DISPATCHER_TYPE": "docker", "RUNYARD_JOB_DISPATCHER_DATA_IMAGE": "runyard-worker"}


def facts(folder: Path, status: ProcessStatus, **variables: str) -> dict[str, Any]:
    own = {"RUNYARD__WORKINGDIRECTORY__WORKINGDIRECTORY": str(folder)}
    settings = load_settings(environ={**BASE, **own, **variables})
    return HostFacts(settings, EngineFinder((), {"PATH": str(folder)}), status, "none")()


def test_a_runner_without_an_engine_reports_it(tmp_path: Path) -> None:
    found = facts(tmp_path, ProcessStatus())
    assert found["engine_note"].startswith("no engine was found: run `runyard engines ensure tofu`")
    assert "dispatcher_engines" not in found


def test_a_runner_that_starts_executors_needs_no_engine_of_its_own(tmp_path: Path) -> None:
    found = facts(tmp_path, ProcessStatus(), **DOCKER)
    assert (found["engine_note"], "dispatcher_engines" in found) == (None, False)


@pytest.mark.parametrize("is_set", [True, False])
def test_the_engines_of_the_image_are_reported(tmp_path: Path, is_set: bool) -> None:
    status = ProcessStatus(image_engines={"tofu": "1.12.6"})
    named = {"RUNYARD_JOB_DISPATCHER_DATA_ENGINES": "terraform=1.9.8,pulumi=3.1.0"} if is_set else {}
    wanted = {"terraform": "1.9.8", "pulumi": "3.1.0"} if is_set else {"tofu": "1.12.6"}
    assert facts(tmp_path, status, **DOCKER, **named)["dispatcher_engines"] == wanted
