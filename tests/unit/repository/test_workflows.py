"""The workflows do what they promise, with no more rights than that needs."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.engines.cache import find
from cli.engines.ladder import ensure
from stack.settings import PROJECT
from tests.integration.release.workflow import jobs_of
from tests.support.actionlint import ACTIONLINT
from tests.support.extent import is_all

FILES = sorted((PROJECT / ".github" / "workflows").glob("*.yml"))
PUBLIC = re.compile(r"gh release create|docker buildx imagetools create|publish_release\.py")


def commands(job: dict[str, Any]) -> str:
    return "\n".join(step.get("run", "") for step in job["steps"])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_actions_are_pinned_by_commit_with_their_version_beside_it(file: Path) -> None:
    used = re.findall(r"uses: (.+)", file.read_text())
    assert used
    assert [name for name in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", name)] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_job_has_a_timeout(file: Path) -> None:
    assert [name for name, job in jobs_of(file).items() if "timeout-minutes" not in job] == []


def test_zizmor_finds_nothing() -> None:
    command = [str(Path(sys.executable).parent / "zizmor"), "--offline", "--no-progress", "--quiet", ".github"]
    found = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


def test_actionlint_finds_nothing() -> None:
    # Each night it is fetched or built where it is missing: half a minute.
    program = ensure(ACTIONLINT) if is_all() else find(ACTIONLINT)
    if program is None:
        pytest.skip("actionlint is not there; `make test-all` provides it")
    found = subprocess.run([str(program), "-no-color"], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_make_targets_and_scripts_that_are_called_exist(file: Path) -> None:
    text = "\n".join(commands(job) for job in jobs_of(file).values())
    targets = re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"\bmake ([a-z-]+)", text)) <= set(targets)
    assert [name for name in re.findall(r"(?:scripts|\.ci)/[\w.]+", text) if not (PROJECT / name).exists()] == []


def test_a_push_runs_make_test() -> None:
    assert "make test\n" in (PROJECT / ".ci" / "run").read_text()


def test_each_night_finds_the_means_that_tests_are_skipped_without() -> None:
    nightly = commands(jobs_of(PROJECT / ".github" / "workflows" / "test.yml")["nightly"])
    wanted = (
        "make setup-test", "playwright install", "RUNYARD_CHROMIUM=", "make engines", "-m tests.support.providers",
        "--tag runyard-worker .", "make test-all",
    )  # fmt: skip
    places = [nightly.find(words) for words in wanted]
    assert -1 not in places, dict(zip(wanted, places, strict=True))
    assert places == sorted(places)


def test_nothing_is_public_before_the_release_was_checked_and_tested() -> None:
    jobs = jobs_of(PROJECT / ".github" / "workflows" / "release.yml")
    needs = {name: job.get("needs", []) for name, job in jobs.items()}
    needs = {name: [value] if isinstance(value, str) else value for name, value in needs.items()}

    def waits_for(name: str, other: str) -> bool:
        return any(each == other or waits_for(each, other) for each in needs[name])

    telling = [name for name, job in jobs.items() if PUBLIC.search(commands(job))]
    assert sorted(telling) == ["image-list", "publish"]
    wanted = [(name, other) for name in telling for other in ("check", "test", "binaries")]
    assert [pair for pair in wanted if not waits_for(*pair)] == []
    assert "make release-check" in commands(jobs["check"])
    assert ".ci/run" in commands(jobs["test"])


@pytest.mark.parametrize(("image", "page"), [("runyard-worker", "runner/docker.md"), ("runyard-server", "server.md")])
def test_the_documented_name_of_an_image_is_the_one_that_a_release_pushes(image: str, page: str) -> None:
    assert f"ghcr.io/<owner>/{image}" in (PROJECT / "docs" / page).read_text()
    pushed = str(jobs_of(PROJECT / ".github" / "workflows" / "release.yml")["image"])
    assert 'names="ghcr.io/${GITHUB_REPOSITORY_OWNER,,}"' in pushed
    assert f'docker push "$names/{image}:$version"' in pushed
