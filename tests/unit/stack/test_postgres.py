"""The cluster's life: made whole or not at all, stopped safely, recovered after a kill, refused with a reason."""

import os
import signal
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from stack import unix_account
from stack.errors import Missing, Taken, WrongVersion
from stack.postgres import Cluster, check_port, find_cluster
from stack.secrets import load_secrets
from stack.settings import Settings
from stack.unix_account import Account, reachable_folder
from tests.support.ports import free_port
from tests.support.waiting import wait_until


@pytest.fixture
def cluster(shared_tmp_path: Path) -> Iterator[Cluster]:
    settings = Settings(home=shared_tmp_path, port_offset=0, postgres_base=free_port())
    found = find_cluster(settings, load_secrets(settings.secrets_file))
    found.prepare()
    yield found
    found.remove()


def test_committed_rows_survive_a_kill(cluster: Cluster, tmp_path: Path) -> None:
    server = cluster.start(tmp_path / "postgres.log")
    with psycopg.connect(cluster.url) as connection:
        connection.execute("create table kept as select 1 as one")
    server.kill()
    server.wait()
    wait_until(lambda: not _anybody_serves(cluster))
    cluster.start(tmp_path / "postgres.log")
    with psycopg.connect(cluster.url) as connection:
        assert connection.execute("select one from kept").fetchone() == (1,)


def test_it_listens_on_the_loopback_address_only(cluster: Cluster, tmp_path: Path) -> None:
    cluster.start(tmp_path / "postgres.log")
    with psycopg.connect(cluster.url) as connection:
        assert connection.execute("show listen_addresses").fetchone() == ("127.0.0.1",)
        assert connection.execute("show wal_level").fetchone() == ("logical",)


def test_a_wrong_password_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    cluster.start(tmp_path / "postgres.log")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(cluster.settings.database_url("supabase_admin", "wrong"))


def test_a_server_that_was_left_behind_is_found_and_stopped(cluster: Cluster, tmp_path: Path) -> None:
    server = cluster.start(tmp_path / "postgres.log")
    assert cluster.pid == server.pid
    cluster.stop()
    assert server.wait() == 0
    assert cluster.pid is None


def test_a_neighbour_with_the_same_port_and_password_is_not_taken_for_this_server(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.start(tmp_path / "postgres.log")
    restored = replace(cluster, data=tmp_path)
    assert cluster.is_ready()
    assert not restored.is_ready()


def test_data_of_another_major_version_is_refused_with_a_way_out(cluster: Cluster) -> None:
    (cluster.data / "PG_VERSION").write_text("14\n")
    with pytest.raises(WrongVersion, match=r"PostgreSQL 14(.|\n)*RUNYARD_PG_BIN"):
        cluster.prepare()


def test_a_folder_with_other_content_is_left_alone(shared_tmp_path: Path) -> None:
    settings = Settings(home=shared_tmp_path, postgres_base=free_port())
    cluster = find_cluster(settings, load_secrets(settings.secrets_file))
    cluster.data.mkdir()
    (cluster.data / "precious").touch()
    with pytest.raises(Taken, match="not empty"):
        cluster.prepare()
    assert (cluster.data / "precious").exists()


def test_a_port_in_use_is_named_with_a_remedy() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Taken, match=rf"Port {port} for the API(.|\n)*RUNYARD_PORT_OFFSET"):
            check_port(port, "the API")


def test_a_port_used_by_an_outgoing_connection_is_reported_as_such() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as called,
        socket.create_connection(called.getsockname()) as caller,
        pytest.raises(Taken, match=r"connection(.|\n)*in a minute(.|\n)*RUNYARD_PORT_OFFSET"),
    ):
        check_port(caller.getsockname()[1], "PostgreSQL")


def test_a_bin_folder_without_postgres_is_refused(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, pg_bin=tmp_path)
    with pytest.raises(Missing, match="initdb"):
        find_cluster(settings, load_secrets(settings.secrets_file))


def _anybody_serves(cluster: Cluster) -> bool:
    """Backends of a killed server end automatically; until then the data folder is not free."""
    found = [path for path in Path("/proc").glob("[0-9]*/cwd") if _target(path) == str(cluster.data)]
    for path in found:
        with_pid = int(path.parent.name)
        try:
            os.kill(with_pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return bool(found)


def _target(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands PostgreSQL to another account")
def test_data_does_not_seem_lost_when_a_folder_is_closed_or_opened(
    shared_tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unix_account, "SYSTEM_STATE", shared_tmp_path / "system")
    account = Account(65534, 65534)
    wanted = shared_tmp_path / "home" / "postgres"
    wanted.parent.mkdir(mode=0o700)
    stand_in = reachable_folder(wanted, account)
    assert stand_in != wanted
    stand_in.mkdir(parents=True)
    wanted.parent.chmod(0o755)
    assert reachable_folder(wanted, account) == stand_in
    stand_in.rmdir()
    assert reachable_folder(wanted, account) == wanted
    wanted.mkdir()
    wanted.parent.chmod(0o700)
    with pytest.raises(Missing, match="chmod"):
        reachable_folder(wanted, account)
