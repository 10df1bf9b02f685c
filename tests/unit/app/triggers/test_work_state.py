"""A running set at a path is followed until its end was read."""

import pytest

from app.project.errors import AppError, Refused, SignedOut, Unreachable
from app.triggers.state.work import WorkState

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("error", "is_running", "is_followed"),
    [
        (Unreachable(), True, True),
        (Refused("no"), True, True),
        (SignedOut(), True, False),
        (Unreachable(), False, False),
    ],
)
async def test_a_running_set_is_requested_again_after_a_failure(
    monkeypatch: pytest.MonkeyPatch, error: AppError, is_running: bool, is_followed: bool
) -> None:
    async def read(_state: WorkState) -> None:
        raise error

    monkeypatch.setattr(WorkState, "_read", read)
    state = WorkState(_reflex_internal_init=True)
    state.is_running = is_running
    state.path = "a/b"
    assert (await state.poll("a/b") is not None) is is_followed
    assert await state.poll("left") is None
    assert state.is_running is is_running
