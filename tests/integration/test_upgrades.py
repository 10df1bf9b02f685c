"""A released version's database under this version: migrations that came after run, and that version's runners go on."""

import gzip
import os
import sys
import tempfile
from pathlib import Path

import pytest

from stack.migrations import list_migrations
from stack.settings import PROJECT
from tests.conftest import FOLDER_VARIABLE
from tests.integration.worker_bench import find_tofu
from tests.support.upgrades import GREETING, Release, history, keep, kept_releases, open_as_owner, upgraded

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(find_tofu() is None, reason="OpenTofu is not there; `make engines` provides it"),
]
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
            bench.start_worker(
                worker, program=(sys.executable, "-P", "-m", "worker.cli"), PYTHONPATH=str(program),
            )  # fmt: skip
            assert release.folder.name in {"this", bench.online(worker)["version"]}
            done = bench.wait_job(waiting[0]["id"])
            assert (done["status"], done["worker_id"]) == ("SUCCEEDED", worker[0]), done["error"]
            told = bench.finished("OUTPUT", module["id"])
            assert GREETING in bench.log_of(told["id"]), "the state that an earlier apply left is still there"
        finally:
            bench.close()


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
