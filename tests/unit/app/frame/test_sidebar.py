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
    store = OrgStore("org")
    state._show_link(store)
    assert state.is_counted

    jobs = {"AWAITING_APPROVAL": 2, "NEEDS_ATTENTION": 1, "QUEUED": 9}
    store.set_overview({"counts": {"jobs": jobs, "modules": {"total": 7}, "waits_for_others": {"me": 2, "you": 1}}})
    state.user_id = "me"
    state._show_link(store)
    assert (state.module_count, state.needs_me_count) == (7, 0), "a viewer decides nothing"
    state.can_decide = True
    state._show_link(store)
    assert state.needs_me_count == 1
