"""A self-hosted runner replaces its own program: real one-file programs, a real stack, a real https server."""

import hashlib
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.update.files import artifact, build, offered
from tests.integration.worker_bench import Bench, WorkerProcess, bench
from tests.support.extent import sampled
from tests.support.waiting import wait_until

__all__ = ["bench"]
pytestmark = pytest.mark.timeout(900)
NAME = f"runyard-worker-{platform.system().lower()}-{platform.machine().lower()}.pex"
OLD = "810.0.0"
CRASHES = (
    "worker/main.py",
    "_ENGINE_CHECK_SECONDS = ",
    "raise SystemExit('broken on purpose')\n_ENGINE_CHECK_SECONDS = ",
)
REFUSED = ("worker/session/session.py", "self._identity.worker_id,", "'00000000-0000-4000-8000-000000000000',")


@dataclass
class Shelf:
    """Built releases, and where they are offered."""

    folder: Path
    origin: str
    certificate: Path
    old: Path

    def publish(self, bench: Bench, version: str, **options: Any) -> Path:
        """Build a release and publish it as the pipeline does."""
        file = build(self.folder, version, **options)
        key = bench.project.secret_key
        spec = {"version": version, "artifacts": [artifact(file, NAME, self.origin)]}
        httpx.post(
            f"{bench.project.url}/rest/v1/rpc/publish_release", json={"p_spec": spec}, timeout=30,
            headers={"apikey": key, "authorization": f"Bearer {key}"},
        ).raise_for_status()  # fmt: skip
        return file


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    folder = tmp_path_factory.mktemp("releases")
    with offered(folder) as (origin, certificate):
        yield Shelf(folder, origin, certificate, build(folder, OLD))


@dataclass
class Installed:
    """A runner that was started from its one file."""

    bench: Bench
    file: Path
    process: WorkerProcess
    worker: tuple[str, str]

    @property
    def row(self) -> dict[str, Any]:
        return self.bench.rows("workers", id=self.worker[0])[0]

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.file.read_bytes()).hexdigest()

    def is_at(self, version: str) -> bool:
        return (self.row["status"], self.row["version"]) == ("ONLINE", version)


@pytest.fixture
def installed(bench: Bench, shelf: Shelf, tmp_path: Path) -> Installed:
    """The old version, online, with the permission to replace itself."""
    file = tmp_path / "bin" / "runyard-worker"
    file.parent.mkdir()
    shutil.copy2(shelf.old, file)
    worker = bench.register(capacity=2)
    process = bench.start_worker(
        worker, "--self-update", program=(str(file),),
        SSL_CERT_FILE=str(shelf.certificate), XDG_CACHE_HOME=str(shelf.folder / "cache"),
    )  # fmt: skip
    bench.online(worker)
    return Installed(bench, file, process, worker)


def test_update_all_drains_it_replaces_it_and_sees_it_online_at_the_new_version(
    installed: Installed, shelf: Shelf, bench: Bench, tmp_path: Path
) -> None:
    new = shelf.publish(bench, "810.1.0")
    before, pid = installed.digest, installed.process.process.pid
    wait = tmp_path / "go-on"
    running = bench.enqueue("PLAN", bench.module(hooks={"before_plan": f"until [ -e {wait} ]; do sleep 0.1; done"}))
    bench.wait_step(running, "before-plan")

    rollout = bench.rpc("update_outdated_workers", p_org=bench.org)
    [update] = bench.rows("provision_jobs", rollout_id=rollout["id"])
    bench.wait_step(update["id"], "restart")
    wait_until(lambda: installed.row["status"] == "DRAINING")
    later = bench.enqueue("PLAN", bench.module())
    assert (bench.job(running)["status"], installed.digest) == ("PROCESSING", before)
    wait.touch()

    done = bench.wait_job(update["id"], seconds=240)
    assert done["status"] == "SUCCEEDED", f"{done['error']}\n{bench.log_of(update['id'])}\n{installed.process.output}"
    assert (done["attempt"], done["result"]) == (2, {"version": "810.1.0"})
    wait_until(lambda: installed.is_at("810.1.0"))
    assert installed.digest == hashlib.sha256(new.read_bytes()).hexdigest()
    previous = installed.file.with_name("runyard-worker.previous")
    assert hashlib.sha256(previous.read_bytes()).hexdigest() == before
    assert sorted(path.name for path in installed.file.parent.iterdir()) == [
        "runyard-worker",
        "runyard-worker.previous",
    ]
    assert installed.process.process.poll() is None
    assert installed.process.process.pid == pid
    for job in (running, later):
        assert bench.wait_job(job)["status"] == "SUCCEEDED"
    assert bench.rows("rollouts", id=rollout["id"])[0]["status"] == "SUCCEEDED"
    assert bench.tokens[installed.worker[0]] not in bench.log_of(update["id"])


@pytest.mark.parametrize(("version", "damage"), sampled([("811.1.0", CRASHES), ("811.2.0", REFUSED)], 1))
def test_a_version_that_cannot_work_here_leaves_the_old_one_in_its_place(
    installed: Installed, shelf: Shelf, bench: Bench, version: str, damage: tuple[str, str, str]
) -> None:
    shelf.publish(bench, version, damage=damage)
    before = installed.digest
    job = bench.rpc("update_one_worker", p_worker=installed.worker[0], p_version=version)["id"]
    failed = bench.wait_job(job, seconds=240)
    assert (failed["status"], failed["error"]["code"]) == ("FAILED", "update_rolled_back"), failed["error"]
    assert f"continues with {OLD}" in failed["error"]["message"]
    wait_until(lambda: installed.is_at(OLD), 180)
    assert installed.digest == before
    assert [path.name for path in installed.file.parent.iterdir()] == ["runyard-worker"]
    assert bench.finished("PLAN", bench.module())["worker_id"] == installed.worker[0]


def test_a_runner_without_the_one_file_program_reports_that_and_its_update_is_refused(
    bench: Bench, shelf: Shelf
) -> None:
    shelf.publish(bench, "812.1.0")
    process = bench.runner("--self-update")
    wait_until(lambda: process.said("cannot_update"))
    with pytest.raises(Exception, match=r"does not update itself"):
        bench.rpc("update_one_worker", p_worker=process.worker_id, p_version="812.1.0")
