"""Every code that an error can have is explained on docs/reference/errors.md, and nothing else is."""

import ast
import re
from collections.abc import Iterator

from cli.errors import EXPLANATIONS as COMMAND_ENDS
from stack.settings import PROJECT
from worker.attempt.control import StopCause
from worker.cloud.session import NO_RIGHTS
from worker.errors import EXPLANATIONS as RUNNER_ENDS

PAGE = (PROJECT / "docs" / "reference" / "errors.md").read_text()
# Codes that the code does not spell out at the place where it raises them.
COMPOSED = {
    NO_RIGHTS,
    *(f"runner_{cause}" for cause in StopCause if cause not in (StopCause.CANCELLED, StopCause.TIME)),
}


def texts(folder: str, pattern: str) -> Iterator[str]:
    for file in (PROJECT / folder).rglob(pattern):
        yield file.read_text()


def raised_by_the_runner() -> set[str]:
    """Codes that the runner's source names, also where it chooses between two."""
    calls = (
        node for text in texts("worker", "*.py") for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)
    )
    given = [word.value for call in calls for word in call.keywords if word.arg == "code"]
    chosen = [part for value in given if isinstance(value, ast.IfExp) for part in (value.body, value.orelse)]
    return {str(one.value) for one in (*given, *chosen) if isinstance(one, ast.Constant) and one.value}


def raised_by_the_project() -> set[str]:
    sql, edge = "".join(texts("supabase/schemas", "*.sql")), "".join(texts("supabase/functions", "*.ts"))
    found = re.findall(r"private\.fail\('(RY\d+)'", sql) + re.findall(r"'code',\s*'(\w+)'", sql)
    return set(found) | set(re.findall(r'\bcode: "(RY\d+)"', edge))


def test_every_code_is_explained_and_nothing_else() -> None:
    explained = re.findall(r"^### (\w+)$", PAGE, re.MULTILINE)
    assert len(explained) == len(set(explained))
    assert set(explained) == raised_by_the_runner() | raised_by_the_project() | COMPOSED


def test_every_entry_shows_a_likely_cause_and_a_remedy() -> None:
    for entry in PAGE.split("\n### ")[1:]:
        assert re.search(r"\S\. \*Likely cause:\* \S.*\. \*What to do:\* \S", entry), entry


def test_exit_codes_are_those_of_the_programs() -> None:
    for ends in (COMMAND_ENDS, RUNNER_ENDS):
        assert "\n".join(f"| {int(code)} | {words} |" for code, words in ends.items()) in PAGE
