"""Units of Terragrunt that cannot work: what a person reads at the import, at the acceptance, at the job and in its queue."""

import re
from pathlib import Path

from tests.integration.test_cli_state import commit
from tests.integration.test_dependencies import terminal
from tests.integration.test_terragrunt import fleet, terragrunt, written
from tests.integration.worker_bench import Bench, bench
from tests.support.terminal import Terminal

__all__ = ["bench", "fleet", "terminal", "terragrunt"]
TAKE = 'dependency "%(name)s" {\n  config_path = "../%(name)s"\n}\ninputs = { x = dependency.%(name)s.outputs.x }\n'
UNITS = {
    "a": TAKE % {"name": "b"},
    "b": TAKE % {"name": "a"},
    "c": TAKE % {"name": "b"},
    "outside": 'dependencies {\n  paths = ["../../elsewhere"]\n}\n',
    "gone": TAKE % {"name": "moved"},
    "itself": TAKE % {"name": "itself"},
    "away": 'terraform {\n  source = "git::https://127.0.0.1:9/none.git"\n}\n',
    "new": 'terragrunt_version_constraint = ">= 99"\n',
    "broken": "inputs = {",
}
NOT_PREPARED = "Correct the unit's files, or see that the runner reaches the unit's source. The job's log has the rest."
LOST = "It depends on a folder that is not in the repository: {}."


def planned(terminal: Terminal, unit: str) -> str:
    """The end of a job, as the command that waits for it prints it."""
    done = terminal.run("run", "plan", unit, "--wait")
    assert done.returncode == 20, done.stdout + done.stderr
    return done.stderr.rpartition(": failed\n")[2]


def test_each_wrong_unit_says_why_and_what_to_do_next(fleet: Bench, terminal: Terminal, tmp_path: Path) -> None:
    code = {f"{name}/main.tf": 'variable "x" { default = 1 }\noutput "x" { value = 1 }\n' for name in UNITS}
    url = commit(written(tmp_path / "bad", code | {f"{name}/terragrunt.hcl": text for name, text in UNITS.items()}))
    done = terminal.run("modules", "import", url, "--group", "bad", "--all", "--yes", "--on-runner")
    assert done.returncode == 0, done.stderr
    notes = {line.split("\t")[1]: line.split("\t")[-1] for line in done.stdout.splitlines() if line.count("\t") == 7}
    kept = {"outside": LOST.format("../elsewhere"), "gone": LOST.format("moved"), "itself": "It depends on itself."}
    assert notes == dict.fromkeys(UNITS, "-") | kept

    # The cycle is refused, and what is none is accepted beside it.
    accepted = terminal.run("dependencies", "proposals", "bad", "--accept")
    assert (accepted.returncode, accepted.stdout.split()) == (8, ["bad/a", "bad/b", "b:x=x", "bad/c", "bad/b", "b:x=x"])
    assert re.search("This would be a cycle: (bad/[ab]) → bad/[ab] → \\1\\.", accepted.stderr), accepted.stderr
    assert "Remove one of these dependencies first." in accepted.stderr

    away = planned(terminal, "bad/away")
    assert ("error downloading 'https://127.0.0.1:9/none.git'" in away, NOT_PREPARED in away) == (True, True), away
    assert f"Missing expression · ./terragrunt.hcl:1\n  {NOT_PREPARED}" in planned(terminal, "bad/broken")
    (queued,) = terminal.json("run", "plan", "bad/new")
    why = terminal.run("jobs", "why", str(queued["number"])).stdout
    assert "No runner that may run it has terragrunt >= 99." in why
    assert "Install that version on one of them, or change the module's requirement." in why

    # Made by hand, as no import brings them.
    for unit, words in (
        ("outside", "terragrunt.hcl depends on ../elsewhere, which is not in the repository.\n  Depend on units"),
        ("gone", "terragrunt.hcl depends on moved, which is not in the repository.\n  Depend on units"),
        ("itself", "terragrunt.hcl depends on its own unit.\n  Remove that dependency."),
    ):
        module = fleet.module(engine="terragrunt", source_kind="git", source={"url": url, "subfolder": unit})
        assert words in planned(terminal, fleet.rows("modules", id=module)[0]["path"])
