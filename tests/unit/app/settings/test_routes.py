"""An export is complete and harmless in a spreadsheet."""

import csv
import io
import json

import pytest

from app.settings.routes import COLUMNS, FORMATS, json_lines

_, HEADER, csv_lines = FORMATS["csv"]

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
    [names, cells] = csv.reader(io.StringIO(HEADER + csv_lines([EVENT]), newline=""))
    read = dict(zip(names, cells, strict=True))
    assert tuple(names) == COLUMNS
    assert (read["action"], read["address"]) == ("job.approve", "203.0.113.9")
    assert json.loads(read["detail"]) == EVENT["detail"]


@pytest.mark.parametrize("formula", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", '=HYPERLINK("https://evil.example")'])
def test_no_cell_is_a_formula(formula: str) -> None:
    [cells] = csv.reader(io.StringIO(csv_lines([{"target_label": formula}]), newline=""))
    assert cells[COLUMNS.index("target_label")] == f"'{formula}"


def test_json_lines_read_back_without_the_organisation() -> None:
    [line] = json_lines([EVENT]).splitlines()
    assert json.loads(line)["detail"] == EVENT["detail"]
    assert "org_id" not in json.loads(line)
