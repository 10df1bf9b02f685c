"""Filters that the browser kept: its storage may contain anything."""

import pytest

from app.frame.saved_filters import read

GOOD = {"name": "Failed", "address": "/dashboard/jobs?status=FAILED"}


def test_filters_are_read_by_organisation() -> None:
    assert read('{"org": [{"name": "Failed", "address": "/dashboard/jobs?status=FAILED"}]}') == {"org": [GOOD]}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        '{"org": 3}',
        '{"org": [1, {"name": "x"}, {"name": "", "address": "/dashboard/jobs"}]}',
        '{"org": [{"name": "x", "address": "https://elsewhere.example/"}, {"name": "x", "address": "javascript:x"}]}',
    ],
)
def test_malformed_storage_gives_no_filters(text: str) -> None:
    assert [one for rows in read(text).values() for one in rows] == []
