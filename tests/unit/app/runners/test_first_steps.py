"""First steps: which is next, and that those that are shown are checked until they are done."""

import pytest

from app.project.errors import AppError, SignedOut, Unreachable
from app.runners.state.first_steps import FirstStepsState
from app.runners.view.first_steps import steps

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("error", "is_shown", "is_checked"),
    [(Unreachable(), True, True), (SignedOut(), True, False), (Unreachable(), False, False)],
)
async def test_steps_that_are_shown_are_checked_again_after_a_failure(
    monkeypatch: pytest.MonkeyPatch, error: AppError, is_shown: bool, is_checked: bool
) -> None:
    async def read(_state: FirstStepsState) -> None:
        raise error

    async def org_id(_state: FirstStepsState) -> str:
        return "org"

    monkeypatch.setattr(FirstStepsState, "_read", read)
    monkeypatch.setattr(FirstStepsState, "_org_id", org_id)
    state = FirstStepsState(_reflex_internal_init=True)
    state.is_shown = is_shown
    assert (await state._check() is not None) is is_checked
    assert state.is_shown is is_shown


def test_first_steps_are_ticked_in_any_order_and_one_is_next() -> None:
    found = steps({"name": "r"}, {}, {}, {"user_id": "x"})
    assert [step["state"] for step in found] == ["ok", "next", "todo", "ok"]
