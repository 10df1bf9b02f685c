"""The page's description of a fault, from the launcher's answer, even an incomplete one."""

import asyncio
import json
from pathlib import Path

import pytest

from app.faults.view import COLUMNS, NOTHING, build
from app.project.errors import NotThere, Refused, Unreachable
from app.project.launcher import ask


def test_before_the_first_fault_there_are_zeros_and_no_steps() -> None:
    shown = build({"run": None, "ledger": {"jobs": 1200, "applies": 3, "lost": 0}, "faults": 0})
    assert (shown["steps"], shown["ended"], shown["is_running"]) == ([], "", False)
    assert shown["said"] == "1,200 jobs checked, 0 drills"
    assert {count["count"] for count in shown["counts"]} == {"0"}
    assert len(shown["counts"]) == len(COLUMNS)


def test_a_broken_promise_is_marked() -> None:
    [lost] = [each for each in build({"ledger": {"jobs": 2, "lost": 1}})["counts"] if each["key"] == "lost"]
    assert (lost["count"], lost["of"], lost["is_broken"]) == ("1", "of 2 jobs", True)


def test_steps_show_the_time_since_the_start_and_the_bar_the_time_left() -> None:
    steps = [{"at": 100.0, "text": "Asked."}, {"at": 104.4, "text": "Cut."}]
    run = {"kind": "network", "job": 7, "is_running": True, "steps": steps, "left_seconds": 15, "lasts_seconds": 20}
    shown = build({"run": run, "faults": 1})
    assert [step["after"] for step in shown["steps"]] == ["0 s", "4 s"]
    assert (shown["left"], shown["done"], shown["said"]) == ("15 s left", "25%", "0 jobs checked, 1 drill")


@pytest.mark.parametrize(("recovered", "word"), [(True, "recovered"), (False, "not recovered")])
def test_an_ended_run_shows_whether_it_recovered(recovered: bool, word: str) -> None:
    assert build({"run": {"is_running": False, "has_recovered": recovered}})["ended"] == word


def test_an_empty_answer_gives_an_empty_page() -> None:
    assert build({}) == {**NOTHING, "said": "0 jobs checked, 0 drills"}


def test_a_missing_launcher_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotThere):
        asyncio.run(ask(None, {"do": "read"}))
    with pytest.raises(Unreachable):
        asyncio.run(ask(tmp_path / "none.sock", {"do": "read"}))


@pytest.mark.parametrize(
    ("line", "error"),
    [(b"", Unreachable), (b"nonsense\n", Unreachable), (b"[]\n", Refused), (b'{"refused": "No."}\n', Refused)],
)
def test_an_odd_answer_is_an_error_that_people_read(tmp_path: Path, line: bytes, error: type[Exception]) -> None:
    async def meet() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            assert json.loads(await reader.readline()) == {"do": "read"}
            writer.write(line)
            writer.close()

        server = await asyncio.start_unix_server(answer, tmp_path / "s")
        async with server:
            await ask(tmp_path / "s", {"do": "read"})

    with pytest.raises(error):
        asyncio.run(meet())
