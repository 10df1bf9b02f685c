"""Handlers that assign one value: what is typed is cut, and only what is offered is taken."""

import pytest

from app.guard.events import BadArguments, check_arguments
from app.jobs.state.run import RunState
from app.modules.state.form import ModuleFormState
from app.runners.state.add_runner import AddRunnerState
from app.triggers.state.work import WorkState


def test_typed_text_is_cut_to_its_length() -> None:
    state = WorkState(_reflex_internal_init=True)
    state.set_typed("x" * 600)
    assert state.typed == "x" * 500


def test_only_what_is_offered_is_taken() -> None:
    state = RunState(_reflex_internal_init=True)
    state.set_priority("50")
    state.set_priority("7")
    assert state.priority == "50"


def test_a_state_may_have_what_is_offered() -> None:
    state = AddRunnerState(_reflex_internal_init=True)
    state.regions = ["eu-west-1"]
    state.set_region("us-east-1")
    assert state.region == ""
    state.set_region("eu-west-1")
    assert state.region == "eu-west-1"


def test_several_segments_at_once_are_none() -> None:
    state = ModuleFormState(_reflex_internal_init=True)
    state.set_source_kind(["archive"])
    assert state.source_kind == "git"


def test_states_that_are_closed_share_no_list() -> None:
    first, second = (RunState(_reflex_internal_init=True) for _ in range(2))
    for state in (first, second):
        state.close()
    first.modules.append("platform/vpc")
    assert second.modules == []


@pytest.mark.parametrize("payload", [{"value": 1}, {"value": None}, {}, {"value": "a", "more": "b"}])
def test_a_value_of_another_type_is_refused(payload: dict[str, object]) -> None:
    with pytest.raises(BadArguments):
        check_arguments(WorkState.event_handlers["set_typed"].fn, payload)
