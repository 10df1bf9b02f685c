"""The program as a whole: its start, its list of commands, its plain arguments and its output."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli.errors import EXPLANATIONS, ExitCode
from cli.main import LAZY, SECTIONS, load
from cli.output import Printer, cell
from scripts.command_page import entries, page
from stack.settings import PROJECT
from tests.support.terminal import Terminal

HEAVY = ("app", "asyncio", "httpx", "pydantic", "rich", "ssl", "stack", "supabase", "worker")
ADDED = """
import sys
sys.argv = ["runyard", *{arguments!r}]
from cli.main import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize(
    "arguments", [["--help"], ["jobs", "list"], ["run", "plan", "x"], ["runners", "list"], ["whoami"]]
)
def test_a_client_command_starts_without_heavy_imports(arguments: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ADDED.format(arguments=arguments)],
        cwd=PROJECT, env={"RUNYARD_CONFIG_HOME": str(tmp_path), "PATH": "/usr/bin"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    imported = {name.partition(".")[0] for name in done.stderr.splitlines()[-1].split()}
    assert "cli" in imported
    assert imported & set(HEAVY) == set()
    commands = {name for name in done.stderr.splitlines()[-1].split() if name.startswith("cli.commands.")}
    assert len(commands) <= 1, "a command imports no other"


def test_every_name_in_the_list_is_a_command() -> None:
    assert {name for name in LAZY if load(name).name != name} == set()


def test_the_help_has_sections_of_a_size_that_one_reads(tmp_path: Path) -> None:
    shown = Terminal(tmp_path).run("--help").stdout
    sections = re.findall(r"^(\S[^\n:]*):\n((?:  .*\n)+)", shown, re.MULTILINE)
    named = {title: re.findall(r"^  ([a-z][a-z-]+) ", lines, re.MULTILINE) for title, lines in sections}
    del named["Options"]
    assert set(named) == set(SECTIONS.values())
    assert sorted(name for names in named.values() for name in names) == sorted(LAZY)
    assert max(map(len, named.values())) <= 10


@pytest.mark.parametrize(("typed", "meant"), [(("runz",), "run"), (("jobs", "lst"), "list")])
def test_a_mistyped_command_gets_the_nearest_one(typed: tuple[str, ...], meant: str, tmp_path: Path) -> None:
    done = Terminal(tmp_path).run(*typed)
    assert (done.returncode, f"Did you mean '{meant}'?" in done.stderr) == (ExitCode.USAGE, True), done.stderr


@pytest.mark.parametrize("option", ["--status", "--type"])
def test_a_value_that_is_none_of_the_known_is_a_wrong_argument_before_any_call(option: str, tmp_path: Path) -> None:
    done = Terminal(tmp_path).run("jobs", "list", option, "WRONG")
    assert (done.returncode, "Choose from " in done.stderr) == (ExitCode.USAGE, True), done.stderr


def test_every_command_explains_itself(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    for entry in entries():
        done = terminal.run(*entry.command.split()[1:], "--help")
        assert (done.returncode, "--json" in done.stdout) == (0, True), entry.command


@pytest.mark.parametrize("words", [["engines"], ["engines", "ensure"], ["jobs", "list"]])
def test_all_help_is_plain_text(words: list[str], tmp_path: Path) -> None:
    shown = Terminal(tmp_path).run(*words, "--help").stdout
    assert "--help" in shown
    assert not re.search("[╭│]|--help <bool>", shown)


def test_a_login_beside_a_running_stack_names_its_address(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "ready").touch()
    done = Terminal(tmp_path / "config", {"RUNYARD_HOME": str(tmp_path)}).run("login")
    assert (done.returncode, 'eval "$(runyard env)"' in done.stderr) == (ExitCode.USAGE, True)


def test_the_table_of_commands_is_in_step_with_the_program() -> None:
    written = (PROJECT / "docs" / "reference" / "commands.md").read_text()
    assert written == page(), "run `python -m scripts.command_page`"


def called(module: Path) -> set[str]:
    """The database's functions that a module names in its calls."""
    found = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            texts = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            found |= set(texts[:1]) if name in ("call", "_act") else set()
    return found


def test_a_command_declares_the_functions_that_it_calls() -> None:
    declared = {name for entry in entries() for name in entry.calls}
    for module in sorted((PROJECT / "cli" / "commands").glob("*.py")):
        assert called(module) <= declared, module.name


def test_the_documented_exit_codes_are_the_program_s() -> None:
    assert set(EXPLANATIONS) == set(ExitCode)
    text = (PROJECT / "docs" / "cli.md").read_text()
    assert [code for code, words in EXPLANATIONS.items() if f"| {code.value} | {words} |" not in text] == []


@pytest.mark.parametrize(
    ("limit", "said"), [("x", "not a whole number"), ("0", "not between"), ("1001", "not between")]
)
def test_a_number_out_of_range_is_a_wrong_argument(limit: str, said: str, tmp_path: Path) -> None:
    done = Terminal(tmp_path).run("jobs", "list", "--limit", limit)
    assert (done.returncode, said in done.stderr) == (ExitCode.USAGE, True)


def test_a_value_is_one_cell_whatever_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    values = [None, [], "", ["a", "b"], True, {"a": 1}, "two\n lines", 0]
    assert [cell(value) for value in values] == ["-", "-", "-", "a,b", "yes", '{"a": 1}', "two lines", "0"]
    Printer().rows([{"a": 1, "b": "x\ty"}], ("a", "b", "c"))
    assert capsys.readouterr().out == "1\tx y\t-\n"
    Printer(as_json=True).rows([], ("a",))
    assert json.loads(capsys.readouterr().out) == []


LISTED = """
from cli.commands.jobs import COLUMNS, CUT
from cli.output import Printer
job = {"number": 1234567, "type": "DESTROY", "status": "AWAITING_APPROVAL", "module_path": "payments/ledger/database",
       "worker_name": "payments-eu-central-1a", "created_by_label": "somebody.with.a.name@example.com",
       "created_at": "2026-11-17T18:29:50.123456+00:00"}
Printer().rows([job, job, job], COLUMNS, cut=CUT)
"""


def test_a_job_takes_one_line_of_a_terminal() -> None:
    reader, writer = os.openpty()
    environment = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1"}
    subprocess.run([sys.executable, "-c", LISTED], cwd=PROJECT, env=environment, stdout=writer, check=True, timeout=60)
    os.close(writer)
    with os.fdopen(reader, "rb") as terminal:
        text = re.sub(r"\x1b\[[0-9;]*m", "", terminal.read1(65536).decode())
    lines = [line for line in text.splitlines() if line.strip()]
    assert len(lines) == 5, "headings, a rule and three jobs"
    assert lines[0].split() == ["NUMBER", "TYPE", "STATUS", "MODULE", "RUNNER", "REQUESTED", "BY", "CREATED"]
    assert all("1234567" in line and "2026-11-17 18:29" in line for line in lines[2:])


@pytest.mark.parametrize(("package", "words"), [("stack", ["status"]), ("reflex", ["dashboard"])])
def test_a_command_without_its_packages_reports_that_they_are_missing(
    package: str, words: list[str], tmp_path: Path
) -> None:
    without = f"import sys; sys.modules[{package!r}] = None; sys.argv = ['runyard', *{words}]\nfrom cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", without],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        env={"HOME": str(tmp_path)},
    )
    assert (done.returncode, "is not installed here" in done.stderr) == (ExitCode.MISSING, True), done.stderr


def test_the_command_line_and_the_runner_are_of_one_version() -> None:
    from cli.version import __version__ as own
    from worker.version import __version__ as runner

    assert own == runner
