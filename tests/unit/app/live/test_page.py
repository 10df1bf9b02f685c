"""A page that cannot be opened shows since when, and tries again."""

import pytest
import reflex as rx

from app.events.state import EventsState
from app.frame.session import SessionState
from app.project.errors import Unreachable
from app.project.store import Link

pytestmark = pytest.mark.anyio
LONG_AGO = "2026-11-01T10:00:00+00:00"


async def test_a_page_without_a_database_keeps_showing_when_the_outage_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def opened(_page: EventsState) -> None:
        raise Unreachable

    monkeypatch.setattr(EventsState, "_open", opened)
    page = rx.State(_reflex_internal_init=True).substates[EventsState.get_name()]
    assert isinstance(page, EventsState)
    who = await page.get_state(SessionState)
    who.link, who.link_since = Link.LIVE.value, LONG_AGO
    await page.load()
    assert who.link == Link.OFFLINE.value
    since = who.link_since
    assert since > LONG_AGO, "that was when it became live"
    await page.load()
    assert who.link_since == since
