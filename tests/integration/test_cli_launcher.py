"""`runyard` as a person uses it: up, a second terminal, down, up again, and errors."""

import ctypes
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from stack.errors import MigrationFailed, Taken
from stack.settings import PROJECT
from tests.support.stack import RunningStack, clean_environment, start_stack
from tests.support.waiting import wait_until

QUIET = ("--no-dashboard", "--no-demo")


def admin(stack: RunningStack) -> dict[str, str]:
    return {"apikey": stack.secret_key, "Authorization": f"Bearer {stack.secret_key}"}


def create_user(stack: RunningStack, email: str) -> None:
    body = {"email": email, "password": "correct horse battery", "email_confirm": True}
    httpx.post(f"{stack.url}/auth/v1/admin/users", json=body, headers=admin(stack), timeout=30).raise_for_status()


def emails(stack: RunningStack) -> list[str]:
    answer = httpx.get(f"{stack.url}/auth/v1/admin/users", headers=admin(stack), timeout=30).raise_for_status()
    return [user["email"] for user in answer.json()["users"]]


def test_another_terminal_stops_the_stack_a_used_port_is_reported_and_a_restart_keeps_the_data(
    shared_tmp_path: Path,
) -> None:
    with start_stack(shared_tmp_path, *QUIET) as stack:
        wait_until(stack.is_healthy)
        create_user(stack, "ada@example.org")
        status = wait_until(lambda: (said := stack.run("status", "--json")).returncode == 0 and said)
        assert json.loads(status.stdout)["health"] == {"gateway": True, "functions": True, "postgres": True}
        exports = stack.run("env").stdout
        assert f"export SUPABASE_URL={stack.url}" in exports
        assert "export RUNYARD_DASHBOARD_URL=http" in exports
        assert stack.run("up", *QUIET).returncode == Taken.exit_code
        assert stack.run("down").returncode == 0
        assert stack.process.wait(180) == 0
        assert stack.run("status").returncode == 7
        check_taken_port(stack)
        check_closing_port(stack)
    with start_stack(shared_tmp_path, *QUIET) as again:
        assert emails(again) == ["ada@example.org"]
        assert "an earlier version" not in again.log.read_text()


def test_every_command_finds_the_stack_of_its_folder_and_not_its_neighbour(
    running_stack: RunningStack, shared_tmp_path: Path, tmp_path: Path
) -> None:
    with start_stack(shared_tmp_path, *QUIET) as other:
        wait_until(other.is_healthy)
        create_user(other, "other@example.org")
        key = {"apikey": other.publishable_key}
        recovery = {"email": "other@example.org"}
        httpx.post(f"{other.url}/auth/v1/recover", json=recovery, headers=key, timeout=30).raise_for_status()
        for stack in (running_stack, other):
            said = from_folder(stack, "env")
            assert f"export SUPABASE_URL={stack.url}\n" in said
            assert stack.db_url in said
            status = json.loads(from_folder(stack, "status", "--json"))
            assert (status["running"], status["SUPABASE_URL"]) == (True, stack.url)
        assert other.url in from_folder(other, "status")
        assert "other@example.org" in from_folder(other, "mail")
        assert "other@example.org" not in from_folder(running_stack, "mail")
        assert from_folder(other, "migrate") == "Nothing to apply.\n"
        file = tmp_path / "other.backup"
        assert "MiB" in from_folder(other, "backup", str(file), RUNYARD_BACKUP_PASSPHRASE="correct horse battery")
        check_contradiction(other, running_stack)
        assert from_folder(other, "down") == "Stopped.\n"
        assert json.loads(from_folder(other, "status", "--json", code=7))["health"] == {}
        assert running_stack.is_healthy()


def check_contradiction(stack: RunningStack, neighbour: RunningStack) -> None:
    """A port that leads elsewhere is refused, and nothing is done here or there; all commands read their settings in one place."""
    port = str(neighbour.settings.gateway_port)
    for command in ("status", "down"):
        said = from_folder(stack, command, code=Taken.exit_code, RUNYARD_GATEWAY_BASE=port)
        assert "RUNYARD_GATEWAY_BASE here says otherwise" in said
        assert stack.url in said
    assert stack.is_healthy()


def from_folder(stack: RunningStack, *arguments: str, code: int = 0, **variables: str) -> str:
    """The output of a command that knows the state folder alone, as in a terminal that did not start the stack."""
    environment = clean_environment() | {"RUNYARD_HOME": str(stack.settings.home)} | variables
    command = [sys.executable, "-m", "cli", *arguments]
    done = subprocess.run(
        command, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == code, done.stderr
    return done.stdout or done.stderr


def test_status_shows_secrets_only_when_asked(running_stack: RunningStack) -> None:
    secrets = running_stack.secrets
    hidden = [secrets.secret_key, secrets.forwarding_key, secrets.password("postgres")]
    for options in ((), ("--json",)):
        said = from_folder(running_stack, "status", *options)
        assert running_stack.publishable_key in said
        assert not [value for value in hidden if value in said]
    shown = from_folder(running_stack, "status", "--show-secrets", "--json")
    assert all(value in shown for value in hidden)


def test_a_start_after_an_upgrade_names_its_migrations_and_one_before_it_warns(shared_tmp_path: Path) -> None:
    project, home = shared_tmp_path / "project", shared_tmp_path / "home"
    shutil.copytree(PROJECT / "supabase", project / "supabase")
    name = "99990101000000_add_a_note.sql"
    with start_stack(home, *QUIET) as stack:
        create_user(stack, "ada@example.org")
    (project / "supabase" / "migrations" / name).write_text("comment on table public.provision_jobs is 'upgraded';\n")
    with start_stack(home, *QUIET, RUNYARD_PROJECT=str(project)) as upgraded:
        said = upgraded.log.read_text()
        assert said.index(f"upgrading the database of an earlier version: {name}") < said.index(f"applied {name}")
        assert emails(upgraded) == ["ada@example.org"]
    with start_stack(home, *QUIET) as older:
        assert "the database is of a newer version (migrations 99990101000000)" in older.log.read_text()


def test_nothing_is_left_when_the_supervisor_is_killed_and_the_next_start_works(shared_tmp_path: Path) -> None:
    with start_stack(shared_tmp_path, *QUIET) as stack:
        pids = [stack.part_pid(name) for name in ("postgres", "gateway", "functions")]
        create_user(stack, "ada@example.org")
        stack.process.send_signal(signal.SIGKILL)
        stack.process.wait()
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
    with start_stack(shared_tmp_path, *QUIET) as again:
        assert emails(again) == ["ada@example.org"]


def check_taken_port(stack: RunningStack) -> None:
    """A port that somebody else has is named, and nothing is started."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", stack.settings.gateway_port))
        taken.listen()
        result = stack.run("up", *QUIET)
    assert result.returncode == Taken.exit_code
    assert f"Port {stack.settings.gateway_port} for the API is taken" in result.stderr


def check_closing_port(stack: RunningStack) -> None:
    """The start waits for a connection that has one of its ports, and continues when it has ended."""
    stack.log.write_text("")
    with socket.create_server(("127.0.0.1", 0)) as called:
        caller = socket.socket()
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        caller.bind(("127.0.0.1", stack.settings.postgres_port))
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        caller.connect(called.getsockname())
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        command = [sys.executable, "-m", "cli", "up", *QUIET]
        environment = clean_environment() | stack.environment
        with stack.log.open("ab") as log:
            starting = subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=log, stderr=log)
        words = f"Port {stack.settings.postgres_port} for PostgreSQL belongs to a connection"
        wait_until(lambda: words in stack.log.read_text())
        assert starting.poll() is None
        caller.close()
        wait_until(stack.is_healthy)
        assert stack.run("down").returncode == 0
        assert starting.wait(180) == 0


def bound_by_modes() -> None:
    """Give up root's right to write everywhere, in the process that is about to start."""
    drop_from_bounding_set, override_modes = 24, 1
    ctypes.CDLL(None).prctl(drop_from_bounding_set, override_modes, 0, 0, 0)


@pytest.mark.parametrize("command", [("status",), ("env",), ("down",), ("migrate",), ("up", *QUIET)])
def test_a_state_folder_that_cannot_be_written_is_one_sentence(shared_tmp_path: Path, command: tuple[str, ...]) -> None:
    home = shared_tmp_path / "home"
    home.mkdir(mode=0o555)
    done = subprocess.run(
        [sys.executable, "-m", "cli", *command],
        cwd=PROJECT, env=clean_environment() | {"RUNYARD_HOME": str(home / "below")}, preexec_fn=bound_by_modes,
        capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    if command == ("down",):
        assert done.stdout == "Nothing is running here.\n"
        return
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: The state folder {home / 'below'} cannot be used: ")
    assert "Permission denied" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_bad_migration_is_named_with_file_and_line(shared_tmp_path: Path) -> None:
    project = shared_tmp_path / "a project with spaces"
    shutil.copytree(PROJECT / "supabase", project / "supabase")
    migrations = project / "supabase" / "migrations"
    migrations.mkdir(exist_ok=True)
    (migrations / "99990101000000_broken.sql").write_text("select 1;\nselect nonsense;\n")
    named = (
        rf'exit code {MigrationFailed.exit_code}:(.|\n)*99990101000000_broken\.sql:2: column "nonsense" does not exist'
    )
    starting = start_stack(shared_tmp_path / "a home", *QUIET, RUNYARD_PROJECT=str(project))
    with pytest.raises(ChildProcessError, match=named), starting:
        pass


def test_a_changed_function_is_reloaded_and_a_broken_one_does_not_stop_the_others(
    shared_tmp_path: Path,
) -> None:
    project = shared_tmp_path / "project"
    shutil.copytree(PROJECT / "supabase", project / "supabase")
    broken, added = (project / "supabase" / "functions" / name for name in ("broken", "hello"))
    broken.mkdir()
    (broken / "index.ts").write_text("import 'nowhere';")
    with start_stack(shared_tmp_path / "home", *QUIET, RUNYARD_PROJECT=str(project)) as stack:
        assert "upgrading" not in stack.log.read_text()
        assert stack.get("/functions/v1/broken").status_code == 503
        assert stack.get("/functions/v1/health").json() == {"status": "ok"}
        added.mkdir()
        (added / "index.ts").write_text("Deno.serve(() => new Response('hello'));")
        wait_until(lambda: stack.get("/functions/v1/hello").status_code == 401)
        with (project / "supabase" / "config.toml").open("a") as config:
            config.write("\n[functions.hello]\nverify_jwt = false\n")
        wait_until(lambda: stack.get("/functions/v1/hello").text == "hello")


def test_no_secret_reaches_a_log(running_stack: RunningStack) -> None:
    create_user(running_stack, "log@example.org")
    for path in ("/rest/v1/nothing", "/auth/v1/user", "/functions/v1/worker-session"):
        headers = {"apikey": running_stack.publishable_key, "Authorization": "Bearer nonsense"}
        httpx.post(f"{running_stack.url}{path}", json={}, headers=headers, timeout=30)
    secrets = running_stack.secrets
    hidden = [secrets.secret_key, secrets.jwt_secret, secrets.signing_jwk["d"], *secrets.database_passwords.values()]
    logs = [running_stack.log, *running_stack.settings.log_folder.iterdir()]
    text = "".join(log.read_text(errors="replace") for log in logs)
    assert "ready after" in text
    assert not [value for value in [*hidden, "correct horse battery"] if value in text]


def test_the_state_folder_and_its_logs_are_their_owners_alone(running_stack: RunningStack) -> None:
    home = running_stack.settings.home
    # As root, PostgreSQL's own account passes through, and lists nothing.
    assert home.stat().st_mode & 0o077 == (0o011 if os.geteuid() == 0 else 0)
    logs = running_stack.settings.log_folder
    assert logs.stat().st_mode & 0o077 == 0
    assert [log.name for log in logs.iterdir() if log.stat().st_mode & 0o077] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to hand PostgreSQL to another account")
def test_as_root_postgres_runs_as_somebody_else(running_stack: RunningStack) -> None:
    status = Path(f"/proc/{running_stack.part_pid('postgres')}/status").read_text()
    assert "\nUid:\t0\t" not in status


def test_mails_that_were_kept_are_shown_newest_first_with_their_links(running_stack: RunningStack) -> None:
    for email in ("first@example.org", "second@example.org"):
        create_user(running_stack, email)
        answer = httpx.post(
            f"{running_stack.url}/auth/v1/recover",
            json={"email": email},
            headers={"apikey": running_stack.publishable_key},
            timeout=30,
        )
        answer.raise_for_status()
    said = running_stack.run("mail").stdout
    assert said.index("second@example.org") < said.index("first@example.org")
    links = [line.strip() for line in said.splitlines() if line.startswith("  ")]
    assert all(link.startswith("http") and "token" in link for link in links[:2])
