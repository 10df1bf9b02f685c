"""The modules page's state: its tree and the menu beside it agree."""

import pytest
import reflex as rx

from app.frame.session import SessionState
from app.modules.state.modules import ModulesState
from app.project.store import OrgStore


@pytest.mark.anyio
async def test_the_menu_counts_a_module_as_soon_as_the_tree_does() -> None:
    state = rx.State(_reflex_internal_init=True).substates[ModulesState.get_name()]
    assert isinstance(state, ModulesState)
    who = await state.get_state(SessionState)
    store = OrgStore("org")
    for total in (5, 6, 0):
        [summary] = state._queries()
        store.live_queries.take(store.live_queries.hold(summary), {"total": total, "counts": {}, "rows": []})
        await state._show_tree(store)
        assert who.module_count == state.total == total
