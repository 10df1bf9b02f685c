"""A destroy or removal requires the typed name: the server refuses without it, whatever a browser sends."""

from types import SimpleNamespace
from typing import Any

import pytest

from app.frame.session import AppState
from app.jobs.state.run import RunState
from app.modules.state.actions import ModuleActionState
from app.runners.state.actions import RunnerActionState
from app.triggers.state.work import WorkState

NAME = "vpc"
DESTROY = {"type": "DESTROY", "is_open": True, "module_id": "m", "name": NAME}
GROUP = {"path": NAME, "asking": "DESTROY"}
CASES: list[tuple[type[AppState], str, dict[str, Any], tuple[Any, ...], str]] = [
    (RunState, "confirm", DESTROY, ({},), "enqueue_job"),
    (WorkState, "start", GROUP, ("DESTROY",), "start_set"),
    (ModuleActionState, "confirm", {"kind": "remove_module", "name": NAME}, (), "delete_module"),
    (ModuleActionState, "confirm", {"kind": "remove_group", "name": NAME}, (), "delete_group"),
    (ModuleActionState, "confirm", {"kind": "unlock", "name": NAME}, (), "force_unlock_state"),
    (RunnerActionState, "confirm", {"kind": "remove", "worker_id": "w", "worker_name": NAME}, (), "remove_worker"),
]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the database's functions that were called."""
    called: list[str] = []

    async def rpc(_: AppState, name: str, __: dict[str, Any]) -> dict[str, Any]:
        called.append(name)
        return {"number": 1, "rows": []}

    async def org_id(_: AppState) -> str:
        return "org"

    async def page(_: AppState) -> Any:
        async def reload() -> None:
            return None

        return SimpleNamespace(module={"id": "m"}, group={"id": "g"}, _reload=reload)

    async def poll(_: AppState, __: str) -> None:
        return None

    monkeypatch.setattr(AppState, "_rpc", rpc)
    monkeypatch.setattr(AppState, "_org_id", org_id)
    monkeypatch.setattr(ModuleActionState, "_page", page)
    monkeypatch.setattr(WorkState, "poll", poll)
    return called


@pytest.mark.parametrize("typed", ["", "vp", "VPC", " vpc", "vpc2", NAME])
@pytest.mark.parametrize(("kind", "handler", "values", "arguments", "function"), CASES)
async def test_nothing_is_destroyed_or_removed_before_the_name_is_typed(
    calls: list[str],
    kind: type[AppState],
    handler: str,
    values: dict[str, Any],
    arguments: tuple[Any, ...],
    function: str,
    typed: str,
) -> None:
    state = kind(_reflex_internal_init=True)
    for name, value in {**values, "typed": typed}.items():
        setattr(state, name, value)
    await getattr(kind, handler).fn(state, *arguments)
    assert (function in calls) == (typed == NAME)
    assert not set(calls) - {function, "list_runners"}


async def test_a_group_that_was_not_asked_about_is_not_destroyed(calls: list[str]) -> None:
    state = WorkState(_reflex_internal_init=True)
    state.path = state.typed = NAME
    await WorkState.start.fn(state, "DESTROY")
    assert calls == []


async def test_a_dialog_that_is_closed_destroys_nothing(calls: list[str]) -> None:
    state = RunState(_reflex_internal_init=True)
    state.type, state.module_id, state.name, state.typed = "DESTROY", "m", NAME, NAME
    assert await RunState.confirm.fn(state, {}) is None
    assert calls == []
