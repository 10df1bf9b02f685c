"""Every shell block of the documentation runs as the page shows it, against a real stack."""

import re
import shutil
from pathlib import Path

import pytest

from tests.integration.docs_reader import BEFORE, FILES, MODULES, PLACEHOLDERS, TOGETHER, Reader
from tests.integration.worker_bench import find_tofu
from tests.support.must import unavailable
from tests.support.pages import PAGES, Block, blocks_of, name_of, pattern_of
from tests.support.stack import RunningStack

RUN = {name_of(page): [block for block in blocks_of(page) if not block.reason] for page in PAGES}
RUN = {name: blocks for name, blocks in RUN.items() if blocks}
# Faults by hand: tests/faults kills runners with every push.
SLOW = {"docs/break-something.md"}
READINGS = [
    pytest.param(names, id=names[0], marks=[pytest.mark.slow] if SLOW.intersection(names) else [])
    for names in (TOGETHER, *((name,) for name in RUN if name not in TOGETHER))
]


@pytest.mark.parametrize("names", READINGS)
def test_the_shell_blocks_of_a_page_run(names: tuple[str, ...], running_stack: RunningStack, tmp_path: Path) -> None:
    reader = Reader(running_stack, {name: RUN[name] for name in names}, tmp_path)
    scripts = "\n".join(map(reader.script, names))
    if "runyard-worker run" in scripts and find_tofu() is None:
        unavailable("engine", "OpenTofu is missing; `make engines` provides it")
    if "curl " in scripts and shutil.which("curl") is None:
        pytest.skip("curl is missing")
    code, output = reader.read()
    assert code == 0, output
    for name, blocks in reader.pages.items():
        for number, lines in (each for block in blocks for each in block.transcript().items()):
            shown, wanted = (tmp_path / f"shown-{number}").read_text(), [reader.filled(line) for line in lines]
            assert re.fullmatch(pattern_of(wanted), shown), f"{name}:{number} prints\n{shown}and not\n{wanted}"


def test_a_failing_command_is_named_with_its_page_and_line(running_stack: RunningStack, tmp_path: Path) -> None:
    block = Block("sh", 7, ("true", "runyard modules show apps/nowhere", "touch later"), "")
    code, output = Reader(running_stack, {"docs/wrong.md": [block]}, tmp_path).read()
    assert code != 0
    assert "docs/wrong.md:8: exit code 1: runyard modules show apps/nowhere" in output
    assert not (tmp_path / "later").exists()


def test_every_entry_of_the_tables_is_used() -> None:
    """An entry that no page needs any more would hide a mistake in a later one."""
    texts = {name: "\n".join(line for block in blocks for line in block.lines) for name, blocks in RUN.items()}
    everything = "\n".join([*texts.values(), *FILES.values()])
    assert [text for text in PLACEHOLDERS if text not in everything] == []
    assert {*TOGETHER, *MODULES, *BEFORE} <= RUN.keys()
    assert [text for page, entries in BEFORE.items() for text in entries if text not in texts[page]] == []
