"""The actions on a runner: a question stays open until its page is left or loaded again."""

import pytest
import reflex as rx
from reflex.istate.data import ReflexURL, SessionData, URLData

from app.runners.state.actions import RunnerActionState

HERE, THERE = "http://localhost/dashboard/runners", "http://localhost/dashboard/jobs"


def load(root: rx.State, address: str, socket: str) -> None:
    root.rx_router_url = URLData.from_url(ReflexURL(address))
    root.rx_router_session = SessionData(session_id=socket)


@pytest.mark.parametrize(
    ("address", "socket", "kind"), [(HERE, "first", "drain"), (THERE, "first", ""), (HERE, "reloaded", "")]
)
def test_a_question_stays_on_its_page_until_that_is_left_or_loaded_again(address: str, socket: str, kind: str) -> None:
    root = rx.State(_reflex_internal_init=True)
    state = root.get_substate(RunnerActionState.get_full_name().split("."))
    assert isinstance(state, RunnerActionState)
    load(root, HERE, "first")
    state.kind, state._asked_on = "drain", state._here()
    load(root, address, socket)
    state.leave()
    assert state.kind == kind
