"""The demo's shared runner, which anybody's modules run on, is there only where they are shut in."""

from dataclasses import replace
from pathlib import Path

import pytest

from cli.launcher.demo import prepare
from stack.settings import Settings

RUNNER = {"id": "00000000-0000-0000-0000-000000000001", "token": "ryw_x"}


@pytest.mark.parametrize("ways", ["[]", "bubblewrap,namespaces"])
def test_the_doctor_decides_by_what_a_child_can_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ways: str
) -> None:
    settings, whole = Settings(home=tmp_path), prepare.runner_part
    seen = prepare.are_jobs_shut_in(settings, RUNNER)

    def limited(*arguments: object, **options: object) -> object:
        part = whole(*arguments, **options)  # type: ignore[arg-type]
        environment = {**part.environment(), "RUNYARD__ENGINE__ISOLATION__WAYS": ways}
        return replace(part, environment=lambda: environment)

    monkeypatch.setattr(prepare, "runner_part", limited)
    assert prepare.are_jobs_shut_in(settings, RUNNER) is (seen if ways != "[]" else False)
