"""Many spellings are found as surely as few, and ordinary text is not searched for each of them."""

import random
import string

from hypothesis import given
from hypothesis import strategies as st

from worker.logs.secret_forms import FEWEST_SAMPLED, SHORTEST_SAMPLED, FormFinder

LINE = "module.network.aws_subnet.private[2]: Creation complete after 12s [id=subnet-0a1b2c3d]\n"


def tokens(count: int, length: int = 30) -> list[str]:
    dice = random.Random(7)
    return ["".join(dice.choices(string.ascii_letters + string.digits, k=length)) for _ in range(count)]


def places(forms: list[str], text: str) -> set[tuple[int, int]]:
    """Return the places that the finder must find, by a check of every position."""
    return {(at, at + len(form)) for form in forms for at in range(len(text)) if text.startswith(form, at)}


@st.composite
def forms_and_text(draw: st.DrawFn) -> tuple[list[str], str]:
    words = st.text("ab", min_size=SHORTEST_SAMPLED - 2, max_size=SHORTEST_SAMPLED + 8)
    forms = draw(st.lists(words, min_size=FEWEST_SAMPLED, max_size=30, unique=True))
    parts = st.one_of(st.sampled_from(forms), st.text("ab", max_size=9))
    return forms, "".join(draw(st.lists(parts, max_size=12)))


@given(forms_and_text())
def test_every_place_is_found_overlapping_ones_too(case: tuple[list[str], str]) -> None:
    forms, text = case
    assert set(FormFinder(forms).spans(text)) == places(forms, text)


def test_a_form_is_found_at_every_offset() -> None:
    forms = [*tokens(40), "x" * SHORTEST_SAMPLED]
    finder = FormFinder(forms)
    for form in (forms[3], forms[-1]):
        for offset in range(60):
            assert list(finder.spans("-" * offset + form + "-" * 5)) == [(offset, offset + len(form))]


def test_ordinary_text_is_searched_for_none_of_many_forms() -> None:
    assert list(FormFinder(tokens(300)).candidates(LINE * 500)) == []


def test_short_forms_are_always_searched_for() -> None:
    short = ["hunter2", "opensesame"]
    finder = FormFinder([*tokens(40), *short])
    assert set(finder.candidates(LINE)) == set(short)
    assert list(finder.spans("say opensesame")) == [(4, 14)]
