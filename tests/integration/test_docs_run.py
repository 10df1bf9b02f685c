"""Every shell block of the documentation runs as the page shows it, page by page, against a real stack."""

import re
from pathlib import Path

import pytest

from tests.integration.docs_reader import Reader
from tests.support.must import unavailable
from tests.support.pages import PAGES, blocks_of, name_of, pattern_of
from tests.support.stack import RunningStack
from tests.integration.worker_bench import find_tofu

RUN = [page for page in PAGES if any(not block.reason for block in blocks_of(page))]


@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_the_shell_blocks_of_a_page_run(page: Path, running_stack: RunningStack, tmp_path: Path) -> None:
    reader = Reader(running_stack, page, tmp_path)
    if find_tofu() is None and re.search(r"runyard-worker run", reader.script()):
        unavailable("engine", "OpenTofu is missing; `make engines` provides it")
    code, output = reader.read()
    assert code == 0, output
    for number, lines in ((number, lines) for block in reader.blocks for number, lines in block.transcript().items()):
        shown, wanted = (tmp_path / f"shown-{number}").read_text(), [reader.filled(line) for line in lines]
        assert re.fullmatch(pattern_of(wanted), shown), f"{reader.name}:{number} prints\n{shown}and not\n{wanted}"
