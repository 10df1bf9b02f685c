"""The page shows what the project refuses to an event handler."""

from typing import Any

import pytest

from app.project.errors import AppError, Refused, SignedOut, Unreachable
from app.settings.state.audit import AuditState

pytestmark = pytest.mark.anyio


async def _answer(monkeypatch: pytest.MonkeyPatch, error: AppError) -> tuple[AuditState, str]:
    """Search the audit log of a project that answers with an error: the page, and what its browser is sent."""

    async def again(_state: AuditState, *_: Any) -> None:
        raise error

    monkeypatch.setattr(AuditState, "_again", again)
    state = AuditState(_reflex_internal_init=True)
    return state, str(await state.search_for("ann@example.org"))


@pytest.mark.parametrize(
    "error", [Refused("Only an admin may see this.", "Ask an owner."), Unreachable("No answer.", "Try again.")]
)
async def test_error_of_a_handler_is_a_toast_with_its_hint(monkeypatch: pytest.MonkeyPatch, error: AppError) -> None:
    _, sent = await _answer(monkeypatch, error)
    assert "toast" in sent
    assert error.message in sent
    assert error.hint in sent


async def test_ended_session_leads_to_the_sign_in_page(monkeypatch: pytest.MonkeyPatch) -> None:
    _, sent = await _answer(monkeypatch, SignedOut())
    assert "signInAgain" in sent


async def test_handler_keeps_what_it_assigned_before_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    state, _ = await _answer(monkeypatch, Unreachable())
    assert state.actor == "ann@example.org"
