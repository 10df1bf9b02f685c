"""The migrations and the thin line on every other PostgreSQL that is installed, 15 the oldest."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.db.world import World
from tests.support.database import Database, Server, shared_server

INSTALLED = sorted(Path("/usr/lib/postgresql").glob("*/bin")) + sorted(
    Path("/opt/homebrew/opt").glob("postgresql@*/bin")
)
OTHERS = [
    path for path in INSTALLED if (path / "initdb").exists() and int(re.sub(r"\D", "", path.parent.name) or 0) >= 15
]


@pytest.fixture(scope="module", params=OTHERS, ids=lambda path: path.parent.name)
def other_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, run_folder: Path
) -> Iterator[Server]:
    """A server of another version, as the tests' own one."""
    folder = run_folder / f"server-{request.param.parent.name}"
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RUNYARD_PG_BIN", str(request.param))
        yield shared_server(folder, os.getpid())


@pytest.fixture
def other_world(other_server: Server) -> Iterator[World]:
    name = other_server.create_database(other_server.template())
    database = Database(other_server, name)
    yield World.open(database)
    database.close()
    other_server.drop_database(name)


@pytest.mark.skipif(not OTHERS, reason="no other PostgreSQL is installed")
def test_a_job_runs_from_the_request_to_its_end(other_world: World) -> None:
    org = other_world.organization()
    runner = org.runner("r1", is_assigned_to_all_modules=True, capacity=3)
    shared = other_world.connect_runner(other_world.shared_worker())
    first, second = org.enqueue("a/b", "APPLY"), org.enqueue("a/c")
    assert shared.claim(5) == []
    jobs = runner.claim(5)
    assert [job["id"] for job in jobs] == [first, second]
    runner.report(jobs[0], "APPLY")
    runner.append(jobs[0], (1, "x\n"))
    runner.finish(jobs[1])
    other_world.lose(runner)
    assert (other_world.status(first), other_world.status(second)) == ("NEEDS_ATTENTION", "SUCCEEDED")
    assert org.owner.call("explain_queue", p_job=org.enqueue("a/b"))["summary"]
    assert org.owner.call("fleet_overview", p_org=org.id)["counts"]["jobs"] == {"NEEDS_ATTENTION": 1, "QUEUED": 1}
    assert org.owner.call("fleet_stats", p_org=org.id)["throughput"]
    assert other_world.owner.one("select rolsuper from pg_roles where rolname = current_user") is False
