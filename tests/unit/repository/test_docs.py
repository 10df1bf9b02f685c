"""The documentation is found, has one form, and names things that exist."""

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from stack.settings import PROJECT
from tests.support.pages import MARK, PAGES, blocks_of, name_of
from tests.unit.repository.test_rules import tracked

DOCS = PROJECT / "docs"
DECISIONS = sorted((DOCS / "decisions").glob("*.md"))


def pages_of(nav: object) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    values = nav.values() if isinstance(nav, dict) else nav
    return [page for value in values for page in pages_of(value)]  # type: ignore[attr-defined]


def test_every_page_is_in_the_navigation_once() -> None:
    nav = tomllib.loads((PROJECT / "zensical.toml").read_text())["project"]["nav"]
    assert sorted(pages_of(nav)) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def test_the_documentation_has_the_dashboard_s_mark_and_fonts() -> None:
    project = tomllib.loads((PROJECT / "zensical.toml").read_text())["project"]
    theme, [sheet] = project["theme"], project["extra_css"]
    text = (DOCS / sheet).read_text()
    files = [theme["logo"], theme["favicon"], *re.findall(r'url\("([^"]+)"\)', text)]
    assert all((PROJECT / "assets" / file.removeprefix("/")).is_file() for file in files), files
    families = re.findall(r'font-family:"([^"]+)"', (PROJECT / "assets/css/tokens.css").read_text())
    assert (theme["font"], set(families)) == (False, set(re.findall(r'font-family:"([^"]+)"', text)))


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.name)
def test_decisions_have_one_form(page: Path) -> None:
    text = page.read_text()
    assert text.startswith(f"# {int(page.name[:4])}. ")
    places = [text.find(f"\n**{part}") for part in ("Status:**", "Context.**", "Decision.**", "Consequences.**")]
    assert -1 not in places, "status, context, decision and consequences"
    assert places == sorted(places)


def test_the_readme_names_every_folder() -> None:
    folders = {path.relative_to(PROJECT).parts[0] for path in tracked() if len(path.relative_to(PROJECT).parts) > 1}
    named = set(re.findall(r"^\| `([\w.]+)/` \|", (PROJECT / "README.md").read_text(), re.MULTILINE))
    assert named == {folder for folder in folders if not folder.startswith(".")}


@pytest.mark.parametrize("page", [PROJECT / "CONTRIBUTING.md", *DECISIONS], ids=lambda page: page.name)
def test_pages_for_developers_name_files_that_exist(page: Path) -> None:
    text = page.read_text()
    if "**Status:** superseded" in text:  # it describes a past state
        return
    paths = [path for path in re.findall(r"`([\w.-]+/[\w./…-]+)`", text) if (PROJECT / path.split("/")[0]).is_dir()]
    assert {path for path in paths if not any(PROJECT.glob(path.replace("…", "*").rstrip("/")))} == set()


@cache
def everything() -> str:
    kinds = (".py", ".sql", ".ts", ".toml")
    return "\n".join(path.read_text() for path in tracked() if path.suffix in kinds and "tests" not in path.parts)


def test_names_in_the_glossary_exist() -> None:
    lines = [line for line in (DOCS / "glossary.md").read_text().splitlines() if line.startswith("| ")]
    names = {name for line in lines for name in re.findall(r"`([\w./]+)`", line.split("|")[-2])}
    paths = {name for name in names if "/" in name}
    assert {path for path in paths if not (PROJECT / path).exists()} == set()
    assert {name for name in names - paths if name.removeprefix("private.") not in everything()} == set()


PAGE = """
```sh
runyard jobs list
```

<!-- not run: needs a cloud -->
```sh
runyard run plan apps/site
```

    ```sh
    TOKEN=x docker run runyard-worker
    ```

```toml
supabase = 1
```

```console
$ echo supabase
```
"""


def test_a_shell_block_runs_unless_a_mark_or_a_program_is_the_reason_not_to(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(PAGE)
    found = [(block.start, block.reason) for block in blocks_of(tmp_path / "page.md")]
    assert found == [(3, ""), (8, "needs a cloud"), (12, "needs Docker"), (20, "")]


def test_marks_are_above_shell_blocks_and_name_tests_that_exist() -> None:
    for page in PAGES:
        lines = page.read_text().splitlines()
        marks = [number for number, line in enumerate(lines, 1) if line.strip().startswith("<!-- not run")]
        starts = [block.start for block in blocks_of(page)]
        wrong = [number for number in marks if number + 2 not in starts or not MARK.match(lines[number - 1])]
        named = [name for number in marks for name in re.findall(r"tests/[\w/]+\.py", lines[number - 1])]
        wrong += [name for name in named if not (PROJECT / name).is_file()]
        assert wrong == [], name_of(page)


# Releases offer files: anyone may claim these names on an index.
BY_NAME = re.compile(
    r"\b(?:pipx?|uv tool) install(?: -\S+)* ['\"]?runyard(?:[-_](?:cli|worker))?(?:[\[=<>~ '\"`.,)]|$)", re.MULTILINE
)


def test_nothing_of_ours_is_installed_by_its_name() -> None:
    files = [path for path in tracked() if path.suffix in (".py", ".md", ".yml", ".sh")]
    assert {str(path): found for path in files if (found := BY_NAME.findall(path.read_text()))} == {}


def test_no_wheel_of_ours_depends_on_another_of_ours() -> None:
    pinned = (PROJECT / "requirements.txt").read_text().splitlines()
    for file in (PROJECT / "packaging").glob("*/pyproject.toml"):
        project = tomllib.loads(file.read_text())["project"]
        own = pinned if "dependencies" in project["dynamic"] else project["dependencies"]
        asked = [own, *project.get("optional-dependencies", {}).values()]
        assert [name for names in asked for name in names if name.startswith("runyard")] == [], file
