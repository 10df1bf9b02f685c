"""An export is complete and harmless in a spreadsheet."""

import csv
import io
import json

import pytest

from app.http.export import export_rows, header, lines
from app.project.errors import NotThere
from app.project.models import Row
from app.settings.routes import COLUMNS

EVENT = {
    "at": "2026-11-15T14:02:09+00:00",
    "actor_label": "owner@example.com",
    "action": "job.approve",
    "target_label": "#4828",
    "address": "203.0.113.9",
    "detail": {"comment": 'said "yes", twice\n'},
    "org_id": "not exported",
}


def test_csv_reads_back() -> None:
    [names, cells] = csv.reader(io.StringIO(header(COLUMNS) + lines(COLUMNS, [EVENT]), newline=""))
    read = dict(zip(names, cells, strict=True))
    assert tuple(names) == COLUMNS
    assert (read["action"], read["address"]) == ("job.approve", "203.0.113.9")
    assert json.loads(read["detail"]) == EVENT["detail"]


@pytest.mark.parametrize("formula", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", '=HYPERLINK("https://evil.example")'])
def test_no_cell_is_a_formula(formula: str) -> None:
    [cells] = csv.reader(io.StringIO(lines(COLUMNS, [{"target_label": formula}]), newline=""))
    assert cells[COLUMNS.index("target_label")] == f"'{formula}"


async def export_of(rows: int, kind: str = "jsonl", page: int = 2, most: float = float("inf")) -> list[str]:
    """The lines of a file of so many rows, read in pages by the row before them and by their place."""

    async def read(last: Row | None, count: int) -> list[Row]:
        assert count == (0 if last is None else last["id"] + 1)
        return [{**EVENT, "id": number} for number in range(count, min(count + page, rows))]

    response = await export_rows("audit", kind, (*COLUMNS, "id"), read, page, most)
    assert response.headers["content-disposition"] == f'attachment; filename="runyard-audit.{kind}"'
    return "".join([str(part) async for part in response.body_iterator]).splitlines()


async def test_json_lines_read_back_without_the_organisation() -> None:
    [line] = await export_of(1)
    assert json.loads(line)["detail"] == EVENT["detail"]
    assert "org_id" not in json.loads(line)


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 4])
async def test_a_file_has_every_row_once(rows: int) -> None:
    assert [json.loads(line)["id"] for line in await export_of(rows)] == list(range(rows))


async def test_a_file_ends_with_the_page_that_reaches_its_limit() -> None:
    assert len(await export_of(9, most=4)) == 4


async def test_only_known_formats_are_exported() -> None:
    with pytest.raises(NotThere):
        await export_of(1, kind="xlsx")
