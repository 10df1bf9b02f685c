"""No runner of the demo can read the installation's secrets; anybody's modules run only where they are fully isolated."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cli.launcher.demo import prepare
from cli.launcher.demo.prepare import Found
from stack.secrets import load_secrets
from stack.settings import Settings
from worker.children.sandbox import landlock

RUNNER = {"id": "00000000-0000-0000-0000-000000000001", "token": "ryw_x"}
WAYS = "RUNYARD__ENGINE__ISOLATION__WAYS"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An installation's folder with secrets in it."""
    (tmp_path / "secrets.json").write_text("{}")
    return tmp_path


def can_unshare() -> bool:
    """Whether this machine gives a process namespaces of its own, as both sandboxes need them."""
    command = [
        shutil.which("unshare") or "false",
        "--user",
        "--map-root-user",
        "--pid",
        "--mount-proc",
        "--fork",
        "true",
    ]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    ("ways", "is_here", "best"),
    [
        ("[]", lambda: True, Found()),
        ("landlock", lambda: landlock.version() >= landlock.LEAST_VERSION, Found(are_secrets_kept=True)),
        ("bubblewrap,namespaces", can_unshare, Found(os.geteuid() != 0, True)),
    ],
)
def test_the_doctor_decides_by_the_files_a_child_can_read(
    home: Path, monkeypatch: pytest.MonkeyPatch, ways: str, is_here: Callable[[], bool], best: Found
) -> None:
    settings, whole = Settings(home=home), prepare.runner_part

    def limited(*arguments: object, **options: object) -> object:
        part = whole(*arguments, **options)  # type: ignore[arg-type]
        environment = {**part.environment(), WAYS: ways}
        return replace(part, environment=lambda: environment)

    monkeypatch.setattr(prepare, "runner_part", limited)
    found = prepare.isolation_here(settings, RUNNER)
    # A machine without this kind of isolation counts as one without any.
    assert found == (best if is_here() else Found())


@pytest.mark.parametrize("runners", [(None, None, None), (None, RUNNER, RUNNER), (RUNNER, RUNNER, RUNNER)])
def test_the_demo_omits_runners_that_cannot_be_isolated_and_notes_when_none_is_left(
    home: Path, monkeypatch: pytest.MonkeyPatch, runners: tuple[dict[str, str] | None, ...]
) -> None:
    async def nothing() -> None:
        return

    monkeypatch.setattr(prepare, "_prepare", lambda *_: runners)
    monkeypatch.setattr(prepare, "_begin_engine", nothing)
    demo = asyncio.run(prepare.prepare_demo(Settings(home=home), load_secrets(home / "secrets-of-a-test.json")))
    started = [part.name for part in demo.parts if part.name.startswith("runner ")]
    assert len(started) == sum(each is not None for each in runners)
    assert bool(demo.note) == (not started)
    assert "bubblewrap" in demo.note or started
