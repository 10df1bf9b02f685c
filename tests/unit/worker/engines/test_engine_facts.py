"""Versions, plan summaries and outputs: pure readings of an engine's output."""

import hashlib
import json
import os
import platform
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from cli.engines.cache import cached, install
from cli.engines.catalog import ENGINES
from tests.support.waiting import eventually
from worker.engines.outputs import secret_outputs, shown_outputs
from worker.engines.plan_summary import mark_known, planned_outputs, sensitive_texts, summarise
from worker.enums import EngineName
from worker.errors import JobFailed, RunnerUnfit
from worker.finder import EngineFinder, FoundEngine, choose_version, named_version

PLAN = {
    "resource_changes": [
        {"address": "a.x", "type": "a", "name": "x", "change": {"actions": ["create"]}},
        {"address": "a.y", "type": "a", "name": "y", "change": {"actions": ["delete", "create"]}},
        {"address": "a.z", "type": "a", "name": "z", "change": {"actions": ["create", "delete"]}},
        {"address": "a.u", "type": "a", "name": "u", "change": {"actions": ["update"]}},
        {"address": "a.d", "type": "a", "name": "d", "change": {"actions": ["delete"]}},
        {"address": "a.n", "type": "a", "name": "n", "change": {"actions": ["no-op"]}},
        {"address": "data.r", "type": "r", "name": "r", "change": {"actions": ["read"]}},
        {
            "address": "a.s", "type": "a", "name": "s",
            "change": {
                "actions": ["no-op"], "before": {"pw": "old-password"}, "before_sensitive": {"pw": True},
                "after": {"list": [{"k": "deep-secret"}, {"k": "open"}]},
                "after_sensitive": {"list": [{"k": True}, {}]},
            },
        },
    ],
    "output_changes": {"o": {"actions": ["create"]}, "p": {"actions": ["no-op"]}},
    "resource_drift": [{"address": "a.x", "type": "a", "name": "x", "change": {"actions": ["update"]}}],
}  # fmt: skip


def test_a_plan_is_counted_by_action() -> None:
    summary = summarise(PLAN)
    counted = {name: summary[name] for name in ("create", "update", "replace", "delete", "no_op")}
    assert counted == {"create": 1, "update": 1, "replace": 2, "delete": 1, "no_op": 2}
    assert summary["has_changes"]
    assert {"address": "a.y", "type": "a", "name": "y", "action": "replace"} in summary["resources"]
    assert [each["address"] for each in summary["resources"] if each["action"] == "read"] == ["data.r"]
    assert summary["outputs"] == [{"name": "o", "action": "create"}]


def test_planned_outputs_are_shown_to_others_only_where_known_and_not_secret() -> None:
    changes: dict[str, Any] = {
        "new": {"actions": ["create"], "after": {"a": [1]}, "after_unknown": False, "after_sensitive": False},
        "deep": {"actions": ["update"], "after": {"b": [{}]}, "after_unknown": {"b": [{"id": True}]}},
        "secret": {"actions": ["update"], "after": "x", "after_unknown": False, "after_sensitive": True},
        "masked": {"actions": ["update"], "after": "known-secret", "after_unknown": False},
        "same": {"actions": ["no-op"], "after": 1, "after_unknown": False},
        "gone": {"actions": ["delete"], "after": None, "after_unknown": False},
    }
    plan = {"output_changes": changes}
    known = planned_outputs(plan, lambda text: text.replace("known-secret", "***"))
    assert known == {"new": {"a": [1]}}
    marked = {each["name"]: each for each in mark_known(summarise(plan), known)["outputs"]}
    assert [name for name, each in marked.items() if each["is_known"]] == ["new"]
    assert (marked["secret"].get("is_sensitive"), "same" in marked) == (True, False)


def test_a_summary_has_no_values() -> None:
    assert "password" not in json.dumps(summarise(PLAN))
    assert sorted(sensitive_texts(PLAN)) == ["deep-secret", "old-password"]


def test_drift_is_read_from_a_refresh_only_plan() -> None:
    assert summarise(PLAN, is_refresh_only=True)["update"] == 1
    assert not summarise({}, is_refresh_only=True)["has_changes"]


def test_sensitive_outputs_are_listed_without_values() -> None:
    outputs = {
        "pw": {"sensitive": True, "type": "string", "value": "hunter2"},
        "url": {"sensitive": False, "type": "string", "value": "https://x"},
        "big": {"sensitive": False, "type": "string", "value": "x" * 50_000},
    }
    outputs["nested"] = {
        "sensitive": False,
        "type": "object",
        "value": {"list": ["a known-secret b", 1], "known-secret": None},
    }
    shown = shown_outputs(outputs, lambda text: text.replace("known-secret", "***"))
    assert shown["nested"]["value"] == {"list": ["a *** b", 1], "***": None}
    assert shown["url"]["value"] == "https://x"
    assert shown["pw"] == {"sensitive": True, "type": "string", "value": None}
    assert shown["big"] == {"sensitive": False, "type": "string", "value": None, "is_truncated": True}
    assert secret_outputs(outputs) == ["hunter2"]


THERE = [FoundEngine(EngineName.TOFU, Path(f"/{each}/tofu"), each) for each in ("1.12.6", "1.9.1", "1.8.3")]
FITTING = [None, "", "1.12.6", "v1.12.6", "= 1.12.6", ">=1.10,<2", ">= 1.10, < 2", "~> 1.12", "~> 1.12.0", "!=1.12.5"]


@pytest.mark.parametrize("required", FITTING)
def test_a_version_that_meets_the_requirement_is_chosen(required: str | None) -> None:
    assert choose_version(THERE[:1], required).version == "1.12.6"


@pytest.mark.parametrize("required", ["1.12.5", ">=2", "~> 1.11.0", "<1.12"])
def test_a_requirement_that_no_version_meets_fails_the_job(required: str) -> None:
    with pytest.raises(JobFailed) as caught:
        choose_version(THERE[:1], required)
    assert caught.value.code == "engine_version"


def test_a_requirement_that_is_no_version_is_named() -> None:
    with pytest.raises(JobFailed, match="not a version"):
        choose_version(THERE[:1], "latest")


def test_the_first_version_that_meets_every_requirement_is_chosen() -> None:
    assert [choose_version(THERE, *each).version for each in ((), ("~> 1.9.0",), (">= 1.8", "< 1.10"), ("1.8.3",))] == [
        "1.12.6", "1.9.1", "1.9.1", "1.8.3",
    ]  # fmt: skip
    with pytest.raises(JobFailed, match=r"requires tofu ~> 1.9.0 and < 1.9, but this runner has 1.12.6, 1.9.1, 1.8.3"):
        choose_version(THERE, "~> 1.9.0", "< 1.9")


@pytest.mark.parametrize(
    ("required", "named"),
    [
        (("1.9.1",), "1.9.1"), (("~> 1.9",), "1.9.0"), ((">= 1.9, < 1.12",), "1.9.0"), ((None, "= v1.5.7"), "1.5.7"),
        ((">= 1.9", "~> 1.9.3"), "1.9.3"), (("> 1.9.0",), None), ((None, ""), None),
    ],
)  # fmt: skip
def test_the_newest_version_that_requirements_name_and_accept(
    required: tuple[str | None, ...], named: str | None
) -> None:
    assert named_version(*required) == named


def fake_engine(folder: Path, name: str, version: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\necho 'OpenTofu v{version}'\n")
    (folder / name).chmod(0o755)


@pytest.mark.anyio
async def test_additional_directories_win_over_path_and_changes_are_noticed(tmp_path: Path) -> None:
    fake_engine(tmp_path / "first", "tofu", "1.2.3")
    fake_engine(tmp_path / "path", "tofu", "9.9.9")
    environ = {"PATH": f"{tmp_path / 'path'}:{os.environ['PATH']}"}
    finder = EngineFinder([tmp_path / "first"], environ)
    await finder.refresh()
    assert finder.found[EngineName.TOFU].version == "1.2.3"
    (tmp_path / "first/tofu").unlink()
    await finder.refresh()
    assert finder.found[EngineName.TOFU].version == "9.9.9"


@pytest.mark.anyio
async def test_every_version_is_found_and_one_with_another_checksum_is_not(tmp_path: Path) -> None:
    end = f"{platform.system().lower()}-{ {'x86_64': 'amd64', 'aarch64': 'arm64'}.get(platform.machine(), platform.machine()) }"
    fake_engine(tmp_path / "path", "tofu", "1.12.6")
    for version in ("1.8.3", "1.9.1", "1.7.0"):
        fake_engine(tmp_path / f"tofu-{version}-{end}", "tofu", version)
    sums = {
        "1.9.1": hashlib.sha256((tmp_path / f"tofu-1.9.1-{end}" / "tofu").read_bytes()).hexdigest(),
        "1.7.0": "0" * 64,
    }
    for version, text in sums.items():
        (tmp_path / f"tofu-{version}-{end}" / "tofu.sha256").write_text(text)
    finder = EngineFinder([], {"PATH": f"{tmp_path / 'path'}:/bin", "RUNYARD_ENGINE_CACHE": str(tmp_path)})
    await finder.refresh()
    assert [each.version for each in finder.versions[EngineName.TOFU]] == ["1.12.6", "1.9.1", "1.8.3"]
    assert finder.found[EngineName.TOFU].version == "1.12.6"


@pytest.mark.anyio
async def test_a_probe_starts_the_engines_again(tmp_path: Path) -> None:
    fake_engine(tmp_path / "first", "tofu", "1.2.3")
    finder = EngineFinder([tmp_path / "first"], {"PATH": os.defpath})
    await finder.probe()
    (tmp_path / "first/tofu").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(RunnerUnfit) as caught:
        await finder.probe()
    assert caught.value.code == "engine"
    fake_engine(tmp_path / "first", "tofu", "1.2.4")
    await finder.probe()
    assert finder.found[EngineName.TOFU].version == "1.2.4"


@pytest.mark.anyio
async def test_an_engine_that_does_not_answer_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = tmp_path / "pid"
    (tmp_path / "tofu").write_text(f"#!/bin/sh\necho $$ >{pid}.new && mv {pid}.new {pid}\nexec sleep 600\n")
    (tmp_path / "tofu").chmod(0o755)
    monkeypatch.setattr("worker.finder._VERSION_SECONDS", 2)
    finder = EngineFinder([tmp_path], {"PATH": os.defpath})
    while not pid.exists():  # on a busy machine it may be ended before it has begun
        await finder.refresh()
    assert EngineName.TOFU not in finder.found

    async def is_gone() -> bool:
        return not psutil.pid_exists(int(pid.read_text()))

    await eventually(is_gone)


@pytest.mark.anyio
async def test_an_engine_in_preparation_is_announced(tmp_path: Path) -> None:
    progress = {
        "engine": "tofu",
        "version": "1.12.6",
        "percent": 40,
        "words": "compiling",
        "is_done": False,
        "error": None,
    }
    (tmp_path / "progress.json").write_text(json.dumps(progress))
    finder = EngineFinder([tmp_path], {"PATH": "/nonexistent"})
    await finder.refresh()
    assert not finder.found
    assert finder.note() == "tofu is being prepared, 40 %"
    for changes, note in (
        ({"updated_at": 0}, "tofu is being prepared, 40 %, stalled since 00:00 UTC"),
        ({"updated_at": time.time()}, "tofu is being prepared, 40 %"),
        ({"error": ""}, "tofu could not be prepared: the build gave no reason"),
        ({"is_done": True}, None),
    ):
        (tmp_path / "progress.json").write_text(json.dumps({**progress, **changes}))
        assert finder.note() == note


@pytest.mark.parametrize("variable", ["HOME", "XDG_CACHE_HOME", "RUNYARD_CACHE", "RUNYARD_ENGINE_CACHE"])
async def test_the_engine_that_the_command_line_keeps_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """The folder that `runyard engines ensure` writes to is the one in which the runner looks."""
    environ = {"PATH": str(tmp_path / "empty"), variable: str(tmp_path)}
    for name in ("XDG_CACHE_HOME", "RUNYARD_CACHE", "RUNYARD_ENGINE_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    finder = EngineFinder((), environ)
    await finder.refresh()
    assert finder.found == {}
    newest = ENGINES["tofu"]
    for engine in (replace(newest, version="1.9.1"), newest):
        made = tmp_path / "made"
        made.write_text(f"#!/bin/sh\necho OpenTofu v{engine.version}\n")
        install(engine, made)
    await finder.refresh()
    found = finder.found[EngineName.TOFU]
    assert (found.version, found.binary) == (newest.version, cached(newest))
    assert finder.path.endswith(str(replace(newest, version="1.9.1").key))


async def test_the_operators_engine_wins_over_the_kept_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNYARD_ENGINE_CACHE", str(tmp_path))
    own = tmp_path / "own/tofu"
    own.parent.mkdir()
    own.write_text("#!/bin/sh\necho OpenTofu v1.8.0\n")
    own.chmod(0o755)
    install(ENGINES["tofu"], own)
    finder = EngineFinder((), {"PATH": f"{own.parent}:/usr/bin:/bin", "RUNYARD_ENGINE_CACHE": str(tmp_path)})
    await finder.refresh()
    assert finder.found[EngineName.TOFU].binary == own
