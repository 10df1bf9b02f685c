"""`runyard modules`, `run` and `jobs` with a real runner and a real OpenTofu."""

import json
import os
import re
import signal
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest

from cli.errors import ExitCode
from stack.settings import PROJECT
from tests.integration.worker_bench import MODULE, Bench, bench
from tests.support.stack import RunningStack, clean_environment
from tests.support.terminal import Terminal
from tests.support.waiting import wait_until
from worker.enums import JobStatus

__all__ = ["bench"]
BROKEN = 'output "x" { value = local.missing }'


@pytest.fixture
def terminal(bench: Bench, running_stack: RunningStack, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path / "config", {**running_stack.client_environment, "RUNYARD_ACCESS_TOKEN": bench.token})


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A folder with a module's files."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "main.tf").write_text(MODULE)
    return folder


# Where the tests run in the background of a shell, their children would ignore SIGINT.
INTERRUPTIBLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from cli.main import main
main()
"""


def process(terminal: Terminal, *arguments: str) -> "subprocess.Popen[str]":
    """The program as a process of its own, which can be interrupted."""
    environment = {**clean_environment(), "RUNYARD_CONFIG_HOME": str(terminal.home), **terminal.environment}
    command = [sys.executable, "-c", INTERRUPTIBLE, *arguments]
    return subprocess.Popen(
        command, cwd=PROJECT, env=environment, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip


def test_a_pipeline_waits_until_somebody_has_confirmed_its_plan(terminal: Terminal, bench: Bench, code: Path) -> None:
    bench.runner()
    assert terminal.run("modules", "create", "apps/reviewed", "--from", str(code)).returncode == 0
    pipeline = process(terminal, "run", "apply", "apps/reviewed", "--review", "--wait")
    waiting = wait_until(
        lambda: terminal.json("jobs", "list", "--status", "AWAITING_APPROVAL", "--module", "apps/reviewed"), 300
    )
    number = str(waiting[0]["number"])
    assert pipeline.stderr is not None
    # It asks now and then: anyone who confirms at once would be faster than its next question.
    heard = list(takewhile(lambda line: "waits for somebody to confirm its plan" not in line, pipeline.stderr))
    assert pipeline.poll() is None, heard
    shown = terminal.run("jobs", "changes", number).stdout
    assert 'input: (not set) -> "hello world"' in shown
    assert "(known after apply)" in shown
    assert "correct-horse-battery" not in shown
    assert terminal.run("jobs", "comment", number, "looks right").returncode == 0
    assert terminal.run("jobs", "approve", number, "--yes").returncode == 0
    _, said = pipeline.communicate(timeout=180)
    assert pipeline.returncode == 0, said
    resources = terminal.json("state", "list", "apps/reviewed")
    assert [row["address"] for row in resources] == ["terraform_data.greeting", "terraform_data.secret"]
    assert "Not locked." in terminal.run("state", "lock", "apps/reviewed").stdout
    assert terminal.run("modules", "lock", "apps/reviewed", "--reason", "frozen").returncode == 0
    refused = terminal.run("run", "destroy", "apps/reviewed", "--auto-approve")
    assert "has locked the module: frozen" in refused.stderr
    assert terminal.run("modules", "unlock", "apps/reviewed").returncode == 0


def test_from_a_folder_to_outputs(terminal: Terminal, bench: Bench, code: Path) -> None:
    bench.runner()
    assert terminal.run("modules", "create", "apps/site", "--from", str(code)).returncode == 0
    plan = terminal.run("run", "plan", "apps/site", "--wait")
    assert plan.returncode == 0, plan.stderr
    assert "terraform_data.greeting" in plan.stdout
    assert "correct-horse-battery" not in plan.stdout
    assert "succeeded: 2 to create" in plan.stderr
    (planned,) = terminal.json("jobs", "list", "--module", "apps/site")
    applied = terminal.run("run", "apply", "--plan", str(planned["number"]), "--auto-approve", "--wait")
    assert applied.returncode == 0, applied.stderr
    outputs = {row["name"]: row["value"] for row in terminal.json("modules", "outputs", "apps/site")}
    assert outputs == {"greeting": "hello world", "password": "(sensitive)"}
    assert terminal.run("modules", "outputs", "apps/site", "greeting").stdout == "hello world\n"
    newest = terminal.json("jobs", "list", "--limit", "1")[0]
    number = str(newest["number"])
    assert number == str(planned["number"]), "the plan and its apply are one job"
    log = terminal.run("jobs", "logs", number).stdout
    headings = [line for line in log.splitlines() if line.startswith("---")]
    assert [line.split(" on ")[0] for line in headings] == [
        f"--- {phase} of job {number}" for phase in ("Plan", "Apply")
    ]
    assert log.index("will be created") < log.index(headings[1]) < log.index("Apply complete")
    shown = terminal.json("jobs", "show", number)
    assert [(each["type"], each["status"]) for each in shown["phases"]] == [
        ("PLAN", "SUCCEEDED"),
        ("APPLY", "SUCCEEDED"),
    ]
    text = terminal.run("jobs", "show", number).stdout
    assert re.search(r"^  Plan on \S+: succeeded: 2 to create$", text, re.MULTILINE)
    assert [row["event"] for row in terminal.json("jobs", "events", str(newest["number"]))][-1] == "succeeded"
    assert json.loads(terminal.run("state", "pull", "apps/site").stdout)["resources"]
    assert terminal.json("state", "versions", "apps/site")["versions"]
    assert terminal.run("run", "destroy", "apps/site", "--auto-approve", "--wait").returncode == 0


def test_a_folder_on_this_disk_is_planned_with_the_real_state_and_applied_only_by_leave(
    terminal: Terminal, bench: Bench, code: Path
) -> None:
    bench.runner()
    terminal.run("modules", "create", "apps/site", "--from", str(code))
    assert terminal.run("run", "apply", "apps/site", "--auto-approve", "--wait").returncode == 0
    (code / "more.tf").write_text('resource "terraform_data" "more" { input = var.who }\n')
    unnamed = terminal.run("run", "plan", str(code))
    assert (unnamed.returncode, "Which module is" in unnamed.stderr) == (ExitCode.USAGE, True)
    (code / "runyard.toml").write_text('path = "apps/site"\n')
    done = terminal.run("run", "plan", str(code), "--wait", "--var", "who=moon")
    assert done.returncode == 0, done.stderr
    assert "terraform_data.more will be created" in done.stdout
    assert "hello moon" in done.stdout, "the variable counts for this job"
    assert "1 to create" in done.stderr, "the rest is in the real state already"
    job = str(terminal.json("jobs", "list", "--limit", "1")[0]["number"])
    refused = terminal.run("run", "apply", "--plan", job, "--auto-approve")
    assert (refused.returncode, "that may not be applied to apps/site" in refused.stderr) == (ExitCode.REFUSED, True)
    terminal.run("modules", "edit", "apps/site", "--set", "can_apply_uploads=true", "--yes")
    applied = terminal.run("run", "apply", "--plan", job, "--auto-approve", "--wait")
    assert applied.returncode == 0, applied.stdout + applied.stderr
    assert terminal.run("modules", "outputs", "apps/site", "greeting").stdout == "hello moon\n"


def test_run_and_logs_exit_with_the_code_of_a_failed_job(terminal: Terminal, bench: Bench, code: Path) -> None:
    bench.runner()
    (code / "main.tf").write_text(BROKEN)
    terminal.run("modules", "create", "apps/broken", "--from", str(code))
    failed = terminal.run("run", "plan", "apps/broken", "--wait")
    assert failed.returncode == ExitCode.JOB_FAILED, failed.stdout
    assert "local.missing" in failed.stdout
    (job,) = terminal.json("jobs", "list")
    again = terminal.json("jobs", "retry", str(job["number"]))
    assert again["retry_of"] == job["id"]
    assert terminal.run("jobs", "logs", "-f", str(again["number"])).returncode == ExitCode.JOB_FAILED


def test_a_waiting_job_shows_its_reason_and_can_be_cancelled(terminal: Terminal, code: Path) -> None:
    terminal.run("modules", "create", "apps/waiting", "--from", str(code))
    (job,) = terminal.json("run", "plan", "apps/waiting", "--key", "once")
    assert terminal.json("run", "plan", "apps/waiting", "--key", "once")[0]["id"] == job["id"]
    why = terminal.run("jobs", "why", str(job["number"]))
    assert (why.returncode, why.stdout.strip() != "") == (0, True)
    following = process(terminal, "jobs", "logs", "-f", str(job["number"]))
    assert terminal.run("jobs", "cancel", str(job["number"]), "--reason", "not needed").returncode == 0
    _, said = following.communicate(timeout=180)
    assert (following.returncode, "cancelled" in said) == (ExitCode.JOB_CANCELLED, True)
    again = terminal.run("jobs", "cancel", str(job["number"]))
    assert (again.returncode, "CANCELLED already" in again.stderr) == (ExitCode.REFUSED, True)


def test_an_interrupted_follower_leaves_the_job_running(terminal: Terminal, code: Path) -> None:
    terminal.run("modules", "create", "apps/site", "--from", str(code))
    following = process(terminal, "run", "plan", "apps/site", "--wait")
    (job,) = wait_until(lambda: terminal.json("jobs", "list"))
    assert following.stderr is not None
    assert "queued" in following.stderr.readline()
    following.send_signal(signal.SIGINT)
    _, said = following.communicate(timeout=180)
    assert (following.returncode, "continues" in said) == (ExitCode.INTERRUPTED, True)
    assert terminal.json("jobs", "show", str(job["number"]))["status"] == "QUEUED"


def test_an_apply_that_needs_approval_shows_its_plan_first(terminal: Terminal, bench: Bench, code: Path) -> None:
    bench.runner()
    terminal.run("modules", "create", "apps/guarded", "--from", str(code), "--set", "approvals_required=1")
    (planned,) = terminal.json("run", "plan", "apps/guarded", "--wait")
    (job,) = terminal.json("run", "apply", "--plan", str(planned["number"]), "--auto-approve")
    assert job["status"] == "AWAITING_APPROVAL"
    asked = terminal.run("jobs", "approve", str(job["number"]))
    assert (asked.returncode, "+ terraform_data.greeting" in asked.stderr) == (ExitCode.USAGE, True)
    own = terminal.run("jobs", "approve", str(job["number"]), "--yes")
    assert own.returncode == ExitCode.REFUSED, own.stderr
    reason = ("--override-reason", "nobody else is here")
    done = terminal.run("jobs", "approve", str(job["number"]), "--yes", "--wait", *reason)
    assert done.returncode == 0, done.stderr
    (second,) = terminal.json("run", "destroy", "apps/guarded", "--auto-approve")
    assert terminal.json("jobs", "reject", str(second["number"]), "--comment", "not today")["status"] == "CANCELLED"


def test_many_modules_are_queued_at_once(terminal: Terminal, code: Path) -> None:
    for name in ("a", "b", "c"):
        terminal.run("modules", "create", f"apps/{name}", "--from", str(code))
    made = terminal.json("run", "drift", "--group", "apps")
    assert sorted(row["module_path"] for row in made) == ["apps/a", "apps/b", "apps/c"]
    assert {row["status"] for row in terminal.json("jobs", "list", "--status", "queued")} == {"QUEUED"}
    plain = terminal.run("jobs", "list", "--limit", "2").stdout.splitlines()
    assert [line.split("\t")[1] for line in plain] == ["DRIFT", "DRIFT"]


def test_a_group_may_have_any_number_of_modules(terminal: Terminal, bench: Bench, code: Path) -> None:
    assert terminal.run("modules", "create", "many/m0", "--from", str(code)).returncode == 0
    more = """insert into public.modules (org_id, group_id, group_path, name, path)
      select org_id, group_id, group_path, 'm' || n, group_path || '/m' || n from public.modules, generate_series(1, 1001) as n
      where org_id = %s and path = 'many/m0'"""
    with bench.database() as connection:
        connection.execute(more, [bench.org])
    made = terminal.json("run", "output", "--group", "many", "--key", "once")
    assert len({row["module_path"] for row in made}) == 1002
    again = terminal.json("run", "output", "--group", "many", "--key", "once")
    assert {row["id"] for row in again} == {row["id"] for row in made}


def test_modules_are_files(terminal: Terminal, code: Path, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    terminal.run(
        "modules",
        "create",
        "apps/site",
        "--from",
        str(code),
        "--set",
        'inputs={"who":"you"}',
        "--set",
        "auto_apply=true",
    )
    assert terminal.run("modules", "export", "--to", str(folder)).returncode == 0
    file = folder / "apps" / "site.toml"
    same = terminal.run("modules", "import", str(folder))
    assert (same.returncode, "Already up to date" in same.stdout) == (0, True)
    file.write_text(file.read_text().replace('who = "you"', 'who = "all"').replace("auto_apply = true\n", ""))
    unsure = terminal.run("modules", "import", str(file))
    assert (unsure.returncode, '-who = "you"' in unsure.stderr, '+who = "all"' in unsure.stderr) == (2, True, True)
    assert terminal.json("modules", "show", "apps/site")["inputs"] == {"who": "you"}
    assert terminal.run("modules", "import", str(file), "--yes").returncode == 0
    changed = terminal.json("modules", "show", "apps/site")
    assert (changed["inputs"], changed["auto_apply"]) == ({"who": "all"}, False)
    (folder / "apps" / "second.toml").write_text(file.read_text().replace("apps/site", "apps/second"))
    assert terminal.json("modules", "import", str(folder), "--yes") == [{"path": "apps/second", "action": "created"}]
    assert terminal.run("modules", "import", str(folder), "--yes").stdout.startswith("Already up to date")
    assert terminal.run("modules", "delete", "apps/second", "--yes").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("run", "plan", "apps/none"), ExitCode.PROBLEM, "There is no module"),
        (("run", "plan"), ExitCode.USAGE, "Which module?"),
        (("run", "plan", "--group", "none"), ExitCode.USAGE, 'at or below "none"'),
        (("run", "apply", "apps/none"), ExitCode.USAGE, "--auto-approve"),
        (("run", "plan", "apps/none", "--runner", "none"), ExitCode.PROBLEM, "no runner"),
        (("jobs", "show", "999999999"), ExitCode.PROBLEM, "There is no job"),
        (("jobs", "show", "x"), ExitCode.PROBLEM, "There is no job"),
        (("jobs", "list", "--status", "DANCING"), ExitCode.USAGE, ", ".join(JobStatus)),
        (("jobs", "list", "--type", "DANCING"), ExitCode.USAGE, "Choose from PLAN, APPLY, DESTROY"),
        (("jobs", "cancel", "1", "--kind", "softly"), ExitCode.USAGE, "after-step"),
        (("modules", "create", "alone"), ExitCode.USAGE, "no group"),
        (("modules", "create", "apps/x", "--from", "/nowhere"), ExitCode.USAGE, "not a folder"),
        (("modules", "create", "apps/x", "--set", "colour=red"), ExitCode.REFUSED, "colour"),
        (("modules", "import", "/nowhere.toml"), ExitCode.MISSING, "cannot be read"),
        (("jobs", "list", "--organization", "another"), ExitCode.PROBLEM, "no organisation another"),
        (("jobs", "dance"), ExitCode.USAGE, "No such command"),
    ],
)
def test_invalid_commands_are_refused_with_their_exit_codes(
    terminal: Terminal, arguments: tuple[str, ...], code: ExitCode, said: str
) -> None:
    done = terminal.run(*arguments)
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr


def test_a_role_without_the_right_is_refused(
    terminal: Terminal, bench: Bench, running_stack: RunningStack, code: Path
) -> None:
    terminal.run("modules", "create", "apps/site", "--from", str(code))
    other = Bench(running_stack, bench.folder, bench.tofu)
    other.sign_up()
    guest = terminal.also(RUNYARD_ACCESS_TOKEN=other.token)
    at_home = terminal.also(RUNYARD_DASHBOARD_URL="https://yard.example.com")
    invited = at_home.json("members", "invite", guest.json("whoami")["email"], "--role", "viewer")
    assert invited["secret"].isalnum(), "a dash at its beginning would make it an option"
    assert invited["link"] == f"https://yard.example.com/invite#{invited['id']}.{invited['secret']}"
    assert guest.run("members", "accept", invited["id"], invited["secret"]).returncode == 0
    slug = terminal.json("orgs", "list")[0]["slug"]
    refused = guest.run("run", "plan", "apps/site", "--organization", slug)
    assert refused.returncode == ExitCode.REFUSED, refused.stderr
    assert guest.run("jobs", "list", "--organization", slug).returncode == 0
    assert os.environ.get("RUNYARD_ACCESS_TOKEN") is None
