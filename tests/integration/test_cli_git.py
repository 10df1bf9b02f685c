"""`runyard git` against a real stack."""

import uuid
from pathlib import Path

import pytest

from cli.errors import ExitCode
from tests.integration.worker_bench import Bench, bench
from tests.support import webhooks
from tests.support.stack import RunningStack
from tests.support.terminal import Terminal

__all__ = ["bench"]
URL = "https://git.example.com/infra/edge.git"


@pytest.fixture
def terminal(bench: Bench, running_stack: RunningStack, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path / "config", {**running_stack.client_environment, "RUNYARD_ACCESS_TOKEN": bench.token})


def send(bench: Bench, made: dict[str, str], commit: str = "a" * 40) -> int:
    body = webhooks.push_body("main", commit)
    headers = webhooks.gitea(made["webhook_secret"], body, delivery=uuid.uuid4().hex)
    return bench.http.post(made["webhook_url"], content=body, headers=headers).status_code


def test_a_repository_from_connect_to_disconnect(terminal: Terminal, bench: Bench) -> None:
    made = terminal.json("git", "connect", URL, "--provider", "gitea", "--poll-seconds", "0")
    assert send(bench, made) == 202
    (row,) = terminal.json("git", "deliveries")
    assert (row["verdict"], row["reason"]) == ("NOTHING", "No module uses this repository.")
    explained = terminal.run("git", "deliveries", "--explain", str(row["id"]), "--json")
    assert (explained.returncode, explained.stdout.strip()) == (0, "[]")
    assert terminal.run("git", "deliveries", "--explain", "1234567").returncode == ExitCode.PROBLEM
    renewed = terminal.json("git", "set", "infra/edge", "--new-secret", "--poll-seconds", "60")
    assert (send(bench, made, "b" * 40), send(bench, renewed, "b" * 40)) == (401, 202)
    (status,) = terminal.json("git", "status")
    assert (status["repository"], status["poll_seconds"]) == ("git.example.com/infra/edge", 60)
    assert made["webhook_secret"] not in str(status)
    for option, is_allowed in ((None, False), ("--identities", True), ("--no-identities", False)):
        changed = terminal.run("git", "set", "infra/edge", *([option] if option else ["--poll-seconds", "60"]))
        assert changed.returncode == 0, changed.stderr
        assert terminal.json("git", "status")[0]["allows_identities"] is is_allowed
    assert terminal.run("git", "disconnect", "infra/edge", "--yes").returncode == 0
    assert send(bench, renewed) == 404
    assert terminal.run("git", "poll", "infra/edge").returncode == ExitCode.PROBLEM


def test_connect_requires_a_provider_unless_the_address_shows_it(terminal: Terminal) -> None:
    refused = terminal.run("git", "connect", URL)
    assert (refused.returncode, "--provider" in refused.stderr) == (ExitCode.USAGE, True)
    shown = terminal.run("git", "connect", "https://github.com/infra/edge")
    assert shown.returncode == 0, shown.stderr
    assert "/functions/v1/git/" in shown.stdout
    assert "not shown again" in shown.stdout


def test_a_module_follows_its_repository_as_configured(terminal: Terminal, bench: Bench) -> None:
    module = bench.module(source_kind="git", source={"url": URL, "ref": "main", "subfolder": "vpc"})
    (path,) = [row["path"] for row in bench.rows("modules", id=module)]
    assert terminal.run("git", "connect", URL, "--provider", "gitea").returncode == 0
    changed = terminal.run("git", "follow", path, "--branch", "release", "--watch", "shared", "--apply", "never")
    assert changed.returncode == 0, changed.stderr
    (row,) = terminal.json("git", "status", "infra/edge")
    assert (row["branch"], row["paths"], row["apply"], row["is_on"]) == ("release", ["shared"], "never", True)
    assert terminal.run("git", "follow", path, "--branch", "", "--off").returncode == 0
    (row,) = terminal.json("git", "status", "infra/edge")
    assert (row["branch"], row["is_on"]) == ("main", False)
    group = path.rpartition("/")[0]
    assert terminal.run("git", "follow", path, "--apply", "inherit").returncode == 0
    assert terminal.run("groups", "set", group, "--apply", "merge-queue").returncode == 0
    (row,) = terminal.json("git", "status", "infra/edge")
    assert (row["apply"], row["apply_from"]) == ("merge_queue", group)
    job = terminal.json("git", "poll", "infra/edge")
    assert (job["type"], job["status"]) == ("RESOLVE", "QUEUED")


def test_a_module_follows_its_folder_after_it_was_moved(terminal: Terminal, bench: Bench) -> None:
    module = bench.module(source_kind="git", source={"url": URL, "ref": "main", "subfolder": "vpc"})
    (path,) = [row["path"] for row in bench.rows("modules", id=module)]
    assert terminal.run("git", "connect", URL, "--provider", "gitea", "--poll-seconds", "0").returncode == 0
    refused = terminal.run("git", "move", path, "--yes")
    assert (refused.returncode, "no other folder" in refused.stderr) == (ExitCode.PROBLEM, True)
    found = (
        "insert into public.module_git (module_id, org_id, missing_folder, moved_to) values (%s, %s, 'vpc', 'network')"
    )
    with bench.database() as database:
        database.execute(found, [module, bench.org])
        database.commit()
    assert f"No folder any more: {path}" in terminal.run("git", "status").stdout
    assert terminal.run("git", "move", path).returncode == ExitCode.USAGE, "there is nobody to ask"
    moved = terminal.run("git", "move", path, "--yes")
    assert moved.returncode == 0, moved.stderr
    assert [row["source"]["subfolder"] for row in bench.rows("modules", id=module)] == ["network"]


def test_a_pull_request_is_shown_planned_and_commanded_by_a_linked_login(terminal: Terminal, bench: Bench) -> None:
    bench.module(source_kind="git", source={"url": URL, "ref": "main", "subfolder": "vpc"})
    made = terminal.json("git", "connect", URL, "--provider", "gitea", "--poll-seconds", "0")

    def sent(body: bytes, event: str) -> str:
        headers = webhooks.gitea(made["webhook_secret"], body, event)
        return str(bench.http.post(made["webhook_url"], content=body, headers=headers).json()["verdict"])

    assert sent(webhooks.pull_body(7, "a" * 40), "pull_request") == "PENDING"
    with bench.database() as database:
        database.execute("delete from public.provision_jobs where org_id = %s", [bench.org])
        database.commit()
    assert terminal.json("git", "plan", "infra/edge", "7")["status"] == "QUEUED", "also where no reading was queued"
    shown = terminal.json("git", "change", "infra/edge", "#7")
    assert (shown["pull"]["number"], shown["report"]["state"], shown["rows"]) == (7, "pending", [])
    assert terminal.json("git", "plan", "infra/edge", "7")["type"] == "RESOLVE"
    assert terminal.run("git", "apply", "infra/edge", "7").returncode == ExitCode.REFUSED
    assert terminal.run("git", "change", "infra/edge", "nonsense").returncode == ExitCode.USAGE
    email = bench.rows("memberships", org_id=bench.org)[0]["email"]
    host = ("--host", "git.example.com")
    assert terminal.run("git", "link", email, "@Ann", *host).returncode == 0
    (row,) = terminal.json("git", "logins")
    assert (row["login"], row["email"]) == ("ann", email)
    assert sent(webhooks.comment_body("/runyard plan"), "issue_comment") == "DONE"
    assert terminal.run("git", "unlink", "ann", *host).returncode == 0
    assert sent(webhooks.comment_body("/runyard plan"), "issue_comment") == "REFUSED"
    comment = terminal.json("git", "link-me", "ann", *host)["comment"]
    assert sent(webhooks.comment_body(comment), "issue_comment") == "DONE"
    assert [row["login"] for row in terminal.json("git", "logins")] == ["ann"]
