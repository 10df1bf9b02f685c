"""A released version's database under this version: migrations that came after run, and that version's runners go on."""

import gzip
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from stack.migrations import list_migrations, migrate
from stack.settings import PROJECT
from tests.conftest import FOLDER_VARIABLE
from tests.integration.worker_bench import Bench, WorkerProcess, find_tofu, until
from tests.support.upgrades import GREETING, Release, history, keep, kept_releases, open_as_owner, upgraded

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(find_tofu() is None, reason="OpenTofu is not there; `make engines` provides it"),
]
# What a later version may do to tables that a running job and its runner are written to.
LATER = "99990101000000_later.sql"
CHANGES = """
set lock_timeout = '5s';
alter table public.provision_jobs add column later text not null default 'unknown';
alter table public.workers add column later text;
"""
SAME = ("worker_id", "instance_id", "attempt")
ALL = [migration.version for migration in list_migrations(PROJECT / "supabase" / "migrations")]


def check(release: Release, folder: Path) -> None:
    """Take the dump through the migrations that came after; a runner of that version works, and what was there is there."""
    text = gzip.decompress(release.dump.read_bytes()).decode()
    program = release.unpack_runner(folder / "runner")
    home = Path(tempfile.mkdtemp(prefix="upgraded-", dir=os.environ[FOLDER_VARIABLE]))
    home.chmod(0o755)
    with upgraded(home, text) as stack:
        assert history(stack.db_url) == ALL
        bench = open_as_owner(stack, folder)
        try:
            [module] = bench.rows("modules")
            waiting = bench.rows("provision_jobs", status="QUEUED")
            assert len(waiting) == 1
            worker = bench.register()
            runner = bench.start_worker(
                worker, program=(sys.executable, "-P", "-m", "worker.cli"), PYTHONPATH=str(program),
            )  # fmt: skip
            assert release.folder.name in {"this", bench.online(worker)["version"]}
            done = bench.wait_job(waiting[0]["id"])
            assert (done["status"], done["worker_id"]) == ("SUCCEEDED", worker[0]), done["error"]
            told = bench.finished("OUTPUT", module["id"])
            assert GREETING in bench.log_of(told["id"]), "the state that an earlier apply left is still there"
            migrate_meanwhile(bench, runner, folder)
        finally:
            bench.close()


def migrate_meanwhile(bench: Bench, runner: WorkerProcess, folder: Path) -> None:
    """Migrate once more in the middle of a job: the process that began it ends it."""
    gate, later = folder / "gate", folder / "later"
    job = bench.enqueue("APPLY", bench.module(hooks={"before_apply": until(gate)}))
    began = bench.wait_step(job, "before-apply")
    shutil.copytree(PROJECT / "supabase" / "migrations", later / "migrations")
    (later / "migrations" / LATER).write_text(CHANGES)
    assert migrate(bench.project.db_url, later) == [LATER]
    gate.touch()
    ended = bench.wait_job(job)
    assert ended["status"] == "SUCCEEDED", ended["error"]
    assert [ended[name] for name in SAME] == [began[name] for name in SAME]
    assert runner.process.poll() is None


@pytest.mark.parametrize("release", kept_releases(), ids=lambda release: release.folder.name)
def test_a_released_database_is_migrated_and_its_runners_go_on(release: Release, tmp_path: Path) -> None:
    check(release, tmp_path)


def test_what_is_released_next_can_be_kept_brought_back_and_worked_with(tmp_path: Path) -> None:
    check(keep(tmp_path / "this"), tmp_path)


@pytest.mark.parametrize("release", kept_releases(), ids=lambda release: release.folder.name)
def test_the_list_of_frozen_migrations_is_what_the_dump_has_run(release: Release, tmp_path: Path) -> None:
    listed = (release.folder / "migrations.sha256").read_text().splitlines()
    text = gzip.decompress(release.dump.read_bytes()).decode()
    block = text[text.index("COPY supabase_migrations.schema_migrations ") :]
    run = [line.partition("\t")[0] for line in block[: block.index("\n\\.")].splitlines()[1:]]
    assert sorted(run) == [line.split()[1].partition("_")[0] for line in listed]
