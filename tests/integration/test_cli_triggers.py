"""`runyard schedules`, `triggers`, `groups` and `notifications` against a real stack."""

from pathlib import Path

import pytest

from cli.errors import ExitCode
from tests.integration.worker_bench import Bench, bench
from tests.support.stack import RunningStack
from tests.support.terminal import Terminal

__all__ = ["bench"]


@pytest.fixture
def terminal(bench: Bench, running_stack: RunningStack, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path / "config", {**running_stack.client_environment, "RUNYARD_ACCESS_TOKEN": bench.token})


def test_schedules_from_preview_to_removal(terminal: Terminal, bench: Bench) -> None:
    bench.module()
    shown = terminal.run("schedules", "preview", "30 7 * * 1-5", "--zone", "Europe/Lisbon")
    assert shown.stdout.splitlines()[0] == "Weekdays at 07:30"
    assert len(shown.stdout.splitlines()) == 6
    wrong = terminal.run("schedules", "create", "drift", "", "61 * * * *")
    assert (wrong.returncode, "minute" in wrong.stderr) == (ExitCode.REFUSED, True)
    assert terminal.run("schedules", "create", "drift", "", "0 2 * * *", "--zone", "Europe/Lisbon").returncode == 0
    (row,) = terminal.json("schedules", "list")
    assert (row["words"], row["zone"], row["is_on"]) == ("Every day at 02:00", "Europe/Lisbon", True)
    (listed,) = terminal.json("triggers", "--kind", "schedule")
    assert (listed["id"], listed["kind"]) == (row["id"], "schedule")
    assert "Every day at 02:00, Europe/Lisbon" in terminal.run("triggers").stdout
    assert terminal.run("triggers", "--kind", "moon").returncode == ExitCode.USAGE
    short = row["id"][:8]
    assert terminal.run("schedules", "off", short, "--reason", "freeze").returncode == 0
    assert terminal.run("schedules", "on", short).returncode == 0
    assert terminal.run("schedules", "set", short, "--cron", "@hourly").returncode == 0
    ran = terminal.run("schedules", "run", short)
    assert "1 jobs" in ran.stdout, ran.stderr
    assert terminal.run("schedules", "remove", short, "--yes").returncode == 0
    assert terminal.run("schedules", "on", short).returncode == ExitCode.PROBLEM


def test_a_group_as_a_unit_by_command(terminal: Terminal, bench: Bench) -> None:
    bench.module()
    for _ in range(2):
        assert terminal.run("groups", "plan", "", "--key", "k").returncode == 0
        assert len(terminal.json("groups", "sets")) == 1
    assert terminal.run("groups", "cancel").returncode == 0
    assert terminal.run("groups", "cancel").returncode == ExitCode.REFUSED
    assert "No job of this set failed" in terminal.run("groups", "retry").stderr


def test_notifications_by_command(terminal: Terminal) -> None:
    refused = terminal.run("notifications", "create", "webhook", "https://10.0.0.1/x", "--event", "job.failed")
    assert (refused.returncode, "public https address" in refused.stderr) == (ExitCode.REFUSED, True)
    made = terminal.run("notifications", "create", "mail", "oncall@example.org", "--event", "job.failed")
    assert made.returncode == 0, made.stderr
    (row,) = terminal.json("notifications", "list")
    assert (row["address_hint"], row["events"]) == ("oncall@example.org", ["job.failed"])
    assert terminal.run("notifications", "test", row["id"][:8]).returncode == 0
    (delivery,) = terminal.json("notifications", "log")
    assert delivery["title"] == "A test from Runyard"
    assert terminal.run("notifications", "resend", str(delivery["id"])).returncode == 0
    assert terminal.run("notifications", "set", row["id"][:8], "--off").returncode == 0
    assert terminal.run("notifications", "remove", row["id"][:8], "--yes").returncode == 0


def test_the_update_policy_by_command(terminal: Terminal) -> None:
    changed = terminal.run(
        "rollouts", "policy", "window", "--days", "sat,sun", "--hours", "22:00-04:00", "--zone", "Europe/Lisbon"
    )
    assert changed.returncode == 0, changed.stderr
    shown = terminal.json("rollouts", "policy")
    assert (shown["mode"], shown["days"], shown["begins_at"]) == ("WINDOW", [6, 0], "22:00")
    assert terminal.run("rollouts", "policy", "window", "--days", "someday").returncode == ExitCode.USAGE


def test_reports_to_a_git_provider_by_command(terminal: Terminal) -> None:
    url = "https://git.example.com/infra/edge.git"
    made = terminal.run("git", "connect", url, "--provider", "gitea")
    assert made.returncode == 0, made.stderr
    assert "Off: no API token" in terminal.run("git", "status").stdout
    assert terminal.run("git", "set", "infra/edge", "--token").returncode == ExitCode.USAGE
    assert terminal.run("git", "set", "infra/edge", "--token", "--no-token").returncode == ExitCode.USAGE
    address = "https://git.example.com/forge/api/v1"
    changed = terminal.run("git", "set", "infra/edge", "--base-url", address, "--token", typed="a-token-of-the-test\n")
    assert changed.returncode == 0, changed.stderr
    (row,) = terminal.json("git", "status")
    assert (row["has_token"], row["base_url"]) == (True, address)
    assert "Off:" not in terminal.run("git", "status").stdout
    assert terminal.run("git", "set", "infra/edge", "--base-url", "").returncode == 0
    assert "Off: no API token" in terminal.run("git", "status").stdout, "a token is for one address"
    terminal.run("git", "set", "infra/edge", "--token", typed="a-token-of-the-test\n")
    assert terminal.run("git", "set", "infra/edge", "--no-token").returncode == 0
    assert terminal.json("git", "status")[0]["has_token"] is False
