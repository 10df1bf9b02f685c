"""The prose check finds odd phrases wherever people read them."""

from pathlib import Path

import pytest

from scripts import prose


def found(text: str) -> list[tuple[int, str]]:
    return [(finding.line, finding.phrase) for finding in prose.findings("a.py", text)]


def test_planted_sentences_are_found_with_their_line() -> None:
    assert found('def a() -> bool:\n    """Say whether it runs."""\n') == [(2, "Say whether")]
    assert found("-- It goes by itself.\n") == [(1, "by itself")]
    assert found('raise Error("The runner is gone.")\n') == [(1, "is gone")]


@pytest.mark.parametrize(
    "text",
    ["# The runner is\n# told later.", "-- The runner is\n  -- told later.", '"The runner is "\n    "told later."'],
)
def test_a_phrase_is_found_across_a_line_break(text: str) -> None:
    assert [line for line, _ in found(text)] == [1]


def test_plain_sentences_pass() -> None:
    assert (
        found("Return whether it runs. The runner restarts automatically. Is there a lease? The file is removed.") == []
    )


def test_the_files_with_prose_are_searched_and_generated_ones_are_not() -> None:
    searched = prose.searched_files()
    assert {
        "README.md",
        "Makefile",
        "docs/index.md",
        "supabase/schemas/claim.sql",
        "assets/palette.js",
        "worker/main.py",
        "tests/conftest.py",
    } <= set(searched)
    assert "supabase/schemas/api.sql" not in searched
    assert all((prose.ROOT / path).is_file() for path in searched)


def test_a_finding_fails_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("The page says so.\n")
    assert prose.main([str(page)]) == 1
    assert f'{page}:1: "says so"' in capsys.readouterr().out
    page.write_text("The page shows it.\n")
    assert prose.main([str(page)]) == 0
