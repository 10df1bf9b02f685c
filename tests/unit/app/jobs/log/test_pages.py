"""The browser gets an index first and lines when it needs them."""

from app.jobs.log.pages import index, page, text
from app.jobs.log.sgr import MAX_LINE

ROWS = [
    {
        "seq": 1,
        "step": "init",
        "body": "one\ntwo\n",
        "line_count": 2,
        "bytes": 8,
        "created_at": "2026-11-15T14:00:00+00:00",
    },
    {
        "seq": 2,
        "step": "plan",
        "body": "\x1b[31mred\n",
        "line_count": 1,
        "bytes": 9,
        "created_at": "2026-11-15T14:00:01+00:00",
    },
    {"seq": 4, "step": "plan", "body": "still\x1b[0m off", "line_count": 1, "bytes": 13, "created_at": None},
]


def test_the_index_names_steps_once_and_carries_no_text() -> None:
    answer = index(ROWS)
    assert answer["steps"] == ["init", "plan"]
    assert answer["chunks"][0] == [1, 0, 2, 8, "2026-11-15T14:00:00+00:00"]
    assert [chunk[0] for chunk in answer["chunks"]] == [1, 2, 4]
    assert "red" not in str(answer)


def test_a_page_carries_colour_from_the_chunk_before() -> None:
    assert page(ROWS[2:], before=ROWS[1]) == [{"seq": 4, "open": True, "lines": [["still", "a-r", " off", ""]]}]


def test_plain_lines_are_plain_strings() -> None:
    assert page(ROWS[:1])[0]["lines"] == ["one", "two"]


def test_a_cut_line_is_marked() -> None:
    [chunk] = page([{"seq": 1, "body": "x" * (MAX_LINE + 61_000)}])
    assert chunk["lines"][0][-2:] == [" … 61,000 characters more. The download has them.", "a-cut"]


def test_the_download_is_plain_text() -> None:
    assert text(ROWS) == "one\ntwo\nred\nstill off"
