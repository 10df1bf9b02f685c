"""First steps: which is next, and that those that are shown are checked until they are done."""

from types import SimpleNamespace

import pytest

from app.project.errors import AppError, SignedOut, Unreachable
from app.project.models import Query
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


async def test_the_first_of_each_is_named_and_a_plan_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Query] = []

    async def org_id(_state: FirstStepsState) -> str:
        return "org"

    async def select(_state: FirstStepsState, _table: str, query: Query) -> SimpleNamespace:
        asked.append(query)
        return SimpleNamespace(rows=[{"name": "edge", "path": "a/b", "id": 900, "number": 12}])

    async def who(_state: FirstStepsState) -> SimpleNamespace:
        return SimpleNamespace(user_id="me")

    for name, stub in {"_org_id": org_id, "_select": select, "_who": who}.items():
        monkeypatch.setattr(FirstStepsState, name, stub)
    state = FirstStepsState(_reflex_internal_init=True)
    await state._read()
    assert {query.order for query in asked} == {"created_at"}
    assert "Plan #12 succeeded." in [step["text"] for step in state.steps]
