"""release.yml, run by its own commands: from the tag to a runner that updates itself to what was offered."""

import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from stack.settings import PROJECT
from tests.integration.edge.conftest import RELEASE_TOKEN
from tests.integration.release.workflow import OWNER, REPOSITORY, Rehearsal, digest, jobs_of
from tests.integration.update.files import offered
from tests.integration.worker_bench import Bench, bench
from tests.support.waiting import wait_until
from worker.version import __version__

__all__ = ["bench"]
WORKFLOW = PROJECT / ".github" / "workflows" / "release.yml"
TOKEN = "token-of-the-workflow"


@dataclass
class Page:
    """The web page that offers releases."""

    folder: Path
    origin: str
    certificate: Path

    def files(self, tag: str) -> dict[str, Path]:
        return {file.name: file for file in (self.folder / REPOSITORY / "releases" / "download" / tag).iterdir()}

    def notes(self, tag: str) -> str:
        return (self.folder / REPOSITORY / "releases" / "download" / f"{tag}.notes").read_text()


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    folder = tmp_path / "page"
    folder.mkdir()
    with offered(folder) as (origin, certificate):
        yield Page(folder, origin, certificate)


def rehearse(tree: Path, tag: str, page: Page, url: str, *, is_building: bool) -> Rehearsal:
    values = {
        "github.token": TOKEN, "vars.SUPABASE_URL": url, "secrets.RELEASE_PUBLISH_TOKEN": RELEASE_TOKEN,
    }  # fmt: skip
    folder = tree.parent / f"run-{tag}"
    folder.mkdir()
    return Rehearsal(tree, folder, tag, page.folder, page.origin, values, is_building)


def published(bench: Bench, version: str) -> dict[str, object]:
    key = bench.project.secret_key
    headers = {"apikey": key, "authorization": f"Bearer {key}"}
    address = f"{bench.project.url}/rest/v1/worker_releases?version=eq.{version}"
    [row] = httpx.get(address, headers=headers, timeout=30).json()
    found: dict[str, object] = row
    return found


def check_page(rehearsal: Rehearsal, page: Page, bench: Bench) -> None:
    """Everything that is offered is listed, signed and known to the project by its checksum."""
    files = page.files(rehearsal.tag)
    compare = ["sha256sum", "--strict", "--check", "SHA256SUMS"]
    told = subprocess.run(compare, cwd=files["SHA256SUMS"].parent, capture_output=True, text=True, check=True)
    listed = {line.partition(":")[0] for line in told.stdout.splitlines()}
    assert listed == set(files) - {"SHA256SUMS"}
    assert [name for name in listed if digest(files[name]) not in rehearsal.signed] == []
    row = published(bench, rehearsal.tag.removeprefix("v"))
    known = {each["name"]: (each["url"], each["sha256"]) for each in row["artifacts"]}  # type: ignore[attr-defined]
    base = f"{page.origin}/{REPOSITORY}/releases/download/{rehearsal.tag}"
    assert known == {name: (f"{base}/{name}", digest(file)) for name, file in files.items()}
    assert page.notes(rehearsal.tag).strip() == row["notes"]
    assert TOKEN not in "\n".join(rehearsal.calls), "a token on a command line is for everybody to read"


def test_files_pass_from_job_to_job_to_the_page_and_the_project(
    tree: Path, version: str, page: Page, url: str, bench: Bench
) -> None:
    rehearsal = rehearse(tree, f"v{version}", page, url, is_building=False)
    assert rehearsal.run(WORKFLOW)[0] == "check"
    check_page(rehearsal, page, bench)
    assert published(bench, version)["channel"] == "stable"
    assert f"ghcr.io/{OWNER.lower()}/runyard-worker@sha256:{'ab' * 32}" in rehearsal.signed
    for name in ("runyard-worker", "runyard-server"):
        image = f"ghcr.io/{OWNER.lower()}/{name}:{version}-{platform.machine()}"
        pushed = rehearsal.calls.index(f"docker push {image}")
        assert any(call.startswith(f"docker run --rm {image}") for call in rehearsal.calls[:pushed])


def test_a_candidate_is_a_prerelease_in_the_beta_channel_and_not_the_latest_release(
    tree: Path, version: str, page: Page, url: str, bench: Bench
) -> None:
    candidate = f"{version}-rc.1"
    changelog = tree / "CHANGELOG.md"
    changelog.write_text(changelog.read_text().replace(f"## {version}", f"## {candidate}"))
    rehearsal = rehearse(tree, f"v{candidate}", page, url, is_building=False)
    rehearsal.run(WORKFLOW)
    assert published(bench, candidate)["channel"] == "beta"
    [created] = [call for call in rehearsal.calls if call.startswith("gh release create")]
    assert "--prerelease" in created
    assert "--latest" not in created


def test_the_last_job_can_be_repeated_after_the_page_was_made(
    tree: Path, version: str, page: Page, url: str, bench: Bench
) -> None:
    rehearsal = rehearse(tree, f"v{version}", page, "http://127.0.0.1:9", is_building=False)
    with pytest.raises(AssertionError, match="cannot be reached"):
        rehearsal.run(WORKFLOW)
    shutil.rmtree(rehearsal.folder / "publish")
    rehearsal.values["vars.SUPABASE_URL"] = url
    rehearsal.run_job("publish", jobs_of(WORKFLOW)["publish"])
    check_page(rehearsal, page, bench)


def built(folder: Path, *, is_plain: bool) -> Path:
    """This tree's runner in the form that a release has."""
    command = [sys.executable, "scripts/worker_binary.py", "--dist", str(folder), *(["--plain"] if is_plain else [])]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True, timeout=1500)
    [binary] = folder.glob("runyard-worker-*")
    return binary


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_an_older_runner_updates_itself_to_the_program_that_the_workflow_built(
    tree: Path, version: str, page: Page, url: str, bench: Bench, tmp_path: Path
) -> None:
    rehearsal = rehearse(tree, f"v{version}", page, url, is_building=True)
    rehearsal.run(WORKFLOW)
    check_page(rehearsal, page, bench)
    assert published(bench, version)["notes"] == "- It is faster."
    machine = f"runyard-worker-{platform.system().lower()}-{platform.machine().lower()}"
    files = page.files(rehearsal.tag)
    names = set(files)
    assert {f"{each}-{version}-py3-none-any.whl" for each in ("runyard", "runyard_cli", "runyard_worker")} <= names
    assert f"runyard-worker-{version}.cdx.json" in names
    assert (f"runyard-worker-{version}.tgz" in names) == (shutil.which("helm") is not None)

    # With its own Python inside, where the workflow could fetch one. A runner asks for a file of its own kind.
    new = files.get(machine) or files[f"{machine}.pex"]
    file = tmp_path / "bin" / "runyard-worker"
    file.parent.mkdir()
    shutil.copy2(built(tmp_path / "older", is_plain=new.suffix == ".pex"), file)
    worker = bench.register()
    started = bench.start_worker(
        worker, "--self-update", program=(str(file),),
        SSL_CERT_FILE=str(page.certificate), XDG_CACHE_HOME=str(tmp_path / "cache"),
    )  # fmt: skip
    assert bench.online(worker)["version"] == __version__
    job = bench.rpc("update_one_worker", p_worker=worker[0], p_version=version)["id"]
    done = bench.wait_job(job, seconds=600)
    assert done["status"] == "SUCCEEDED", f"{done['error']}\n{bench.log_of(job)}\n{started.output}"
    wait_until(lambda: bench.online(worker)["version"] == version)
    assert digest(file) == digest(new)
    assert bench.finished("PLAN", bench.module())["worker_id"] == worker[0]
