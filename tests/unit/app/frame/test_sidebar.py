"""The menu's counts."""

import pytest

from app.frame.session import SessionState
from app.frame.sidebar import _count
from app.project.store import OrgStore


@pytest.mark.parametrize("key", ["runners", "modules"])
def test_a_count_is_shown_once_it_is_known(key: str) -> None:
    assert str(SessionState.is_counted) in str(_count(key))


def test_counts_are_known_when_the_database_has_answered() -> None:
    state = SessionState(_reflex_internal_init=True)
    assert not state.is_counted
    state._show_link(OrgStore("org"))
    assert state.is_counted
