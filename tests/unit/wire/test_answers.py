"""Answers that pass, and answers that refuse."""

import pytest

from wire.answers import is_passing


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "RY429"), (402, ""), (408, ""), (425, ""), (429, "429"), (500, "RY500"), (503, "RY503"), (522, ""),
        (546, "WORKER_LIMIT"), (400, "40001"), (400, "40P01"), (400, "53300"), (400, "57014"), (400, "57P01"),
        (400, "08006"), (400, "55P03"), (405, "25006"), (400, "PGRST001"),
    ],
)  # fmt: skip
def test_an_answer_that_refuses_nothing_passes(status: int, code: str) -> None:
    assert is_passing(status, code)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "RY413"), (400, "RY403"), (404, "PGRST202"), (409, "23505"), (405, ""), (400, "22P02"), (400, "400"),
        (404, "404"), (403, "42501"),
    ],
)  # fmt: skip
def test_a_refusal_does_not_pass(status: int, code: str) -> None:
    assert not is_passing(status, code)
