"""An older installation under this version: newer migrations run, older runners continue, the state of an earlier apply stays."""

import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import httpx
import psycopg
import pytest

from stack.migrations import list_migrations, migrate
from stack.settings import PROJECT
from tests.conftest import FOLDER_VARIABLE
from tests.integration.worker_bench import Bench, WorkerProcess, find_tofu, until
from tests.support.stack import Project, start_stack

pytestmark = [
    pytest.mark.timeout(1200),
    pytest.mark.skipif(find_tofu() is None, reason="OpenTofu is not there; `make engines` provides it"),
]
OWNER = {"email": "owner@example.com", "password": "the owner of an older version's database"}
ORGANISATION, GREETING = "upgraded", "hello world"
# What a later version may do to tables that a running job and its runner write to.
LATER = "99990101000000_later.sql"
CHANGES = """
set lock_timeout = '5s';
alter table public.provision_jobs add column later text not null default 'unknown';
alter table public.workers add column later text;
"""
SAME = ("worker_id", "instance_id", "attempt")
ALL = [migration.version for migration in list_migrations(PROJECT / "supabase" / "migrations")]
QUIET = ("--no-dashboard", "--no-demo")


def older_version(folder: Path) -> Path:
    """The newest tagged version's supabase/ and worker/; before the first tag, this one without its last migration."""
    tags = _git("tag", "--list", "v*", "--sort=-version:refname").decode().split()
    if tags:
        with tarfile.open(fileobj=io.BytesIO(_git("archive", tags[0], "supabase", "worker"))) as archive:
            archive.extractall(folder, filter="data")
        return folder
    shutil.copytree(PROJECT / "supabase", folder / "supabase", ignore=shutil.ignore_patterns(".env", ".temp"))
    list_migrations(folder / "supabase" / "migrations")[-1].path.unlink()
    shutil.copytree(PROJECT / "worker", folder / "worker")
    return folder


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=PROJECT, capture_output=True, check=True).stdout


def history(database_url: str) -> list[str]:
    """The migrations that a database has run."""
    with psycopg.connect(database_url) as connection:
        query = "select version from supabase_migrations.schema_migrations order by version"
        return [row[0] for row in connection.execute(query).fetchall()]


def open_as_owner(project: Project, folder: Path, *, is_new: bool = False) -> Bench:
    """A bench whose person owns the organisation."""
    tofu = find_tofu()
    assert tofu is not None
    folder.mkdir()
    bench = Bench(project, folder, tofu)
    path = "/auth/v1/signup" if is_new else "/auth/v1/token?grant_type=password"
    headers = {"apikey": project.publishable_key}
    answer = httpx.post(project.url + path, json=OWNER, headers=headers, timeout=30)
    bench.token = answer.raise_for_status().json()["access_token"]
    if is_new:
        bench.rpc("create_organization", p_name=ORGANISATION, p_slug=ORGANISATION)
    bench.org = bench.rows("organizations", slug=ORGANISATION)[0]["id"]
    return bench


def use(project: Project, folder: Path) -> None:
    """Leave what an installation has: an owner, a module with state and a history, a runner, jobs done and waiting."""
    bench = open_as_owner(project, folder, is_new=True)
    try:
        bench.runner()
        module = bench.module()
        for kind in ("PLAN", "APPLY", "OUTPUT"):
            bench.finished(kind, module)
        for process in bench.processes:
            process.stop()
        bench.enqueue("PLAN", module)
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


def test_an_older_installation_is_migrated_and_its_runners_continue(tmp_path: Path) -> None:
    older = older_version(tmp_path / "older")
    home = Path(tempfile.mkdtemp(prefix="upgraded-", dir=os.environ[FOLDER_VARIABLE]))
    home.chmod(0o755)
    with start_stack(home, *QUIET, RUNYARD_PROJECT=str(older)) as stack:
        assert history(stack.db_url) == ALL[: len(history(stack.db_url))] != ALL, "nothing is left to migrate"
        use(stack, tmp_path / "before")
    with start_stack(home, *QUIET) as stack:
        assert history(stack.db_url) == ALL
        bench = open_as_owner(stack, tmp_path / "after")
        try:
            [module] = bench.rows("modules")
            [waiting] = bench.rows("provision_jobs", status="QUEUED")
            worker = bench.register()
            program = (sys.executable, "-P", "-m", "worker.cli")
            runner = bench.start_worker(worker, program=program, PYTHONPATH=str(older))
            done = bench.wait_job(waiting["id"])
            assert (done["status"], done["worker_id"]) == ("SUCCEEDED", worker[0]), done["error"]
            output = bench.finished("OUTPUT", module["id"])
            assert GREETING in bench.log_of(output["id"]), "the state of the earlier apply was lost"
            migrate_meanwhile(bench, runner, tmp_path / "after")
        finally:
            bench.close()
