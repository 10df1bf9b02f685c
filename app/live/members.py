"""Membership: anyone who may look no longer is shown no more."""

import asyncio
import contextlib
import time

import reflex as rx
import structlog
from reflex.event import Event
from reflex.state import StateUpdate

from app.frame.session import SessionState, lead_outside, sign_in_again
from app.project.errors import AppError, SignedOut
from app.project.hub import View
from app.project.runtime import runtime

PRUNE_SECONDS = 10.0
MEMBER_SECONDS = 20.0

WayOut = rx.event.EventSpec | list[rx.event.EventSpec]

log = structlog.get_logger(__name__)


async def evict(app: rx.App, view: View, way_out: WayOut | None = None) -> None:
    """End a tab's view: its session or membership is over, so its states are emptied too."""
    runtime().hub.leave(view.tab)
    token = rx.BaseStateToken(ident=view.tab, cls=SessionState)
    async with app.modify_state(token) as root:
        root.reset()
    update = StateUpdate(events=Event.from_event_type(way_out or sign_in_again()))
    await app.event_namespace.emit_update(update=update, token=view.tab)


async def check_members(app: rx.App) -> None:
    """Drop tabs that closed, and end the views of people who are no longer members."""
    checked_at: dict[tuple[str, str], float] = {}
    while True:
        await asyncio.sleep(PRUNE_SECONDS)
        with contextlib.suppress(Exception):
            await runtime().hub.prune(app.event_namespace.token_to_sid)
        now = time.monotonic()
        checked_at = {key: at for key, at in checked_at.items() if now - at < MEMBER_SECONDS}
        looking = {(view.sid, view.org_id) for view in runtime().hub.all_views()}
        # A few times a minute per session, however many tabs it has; a change of members wakes it at once.
        for key in looking - checked_at.keys():
            checked_at[key] = now
            await check_member(app, *key)


async def check_member(app: rx.App, sid: str, org_id: str) -> None:
    """End every view that a session has of an organisation, if its person is no longer a member or sees something else."""
    try:
        way_out, room = await _way_out(sid, org_id)
        for view in runtime().hub.all_views():
            if (view.sid, view.org_id) == (sid, org_id) and (way_out or room not in (None, view.room)):
                await evict(app, view, way_out or rx.call_script("window.location.reload()"))
    except Exception:
        # A failure for one session concerns nobody else.
        log.exception("member_check_failed")


async def _way_out(sid: str, org_id: str) -> tuple[WayOut | None, str | None]:
    """Find the way out for a person whose session or membership is over, else the feed of a member; neither while the project is silent."""
    try:
        session = await runtime().authorized.sessions.get(sid)
        if session is None:
            return sign_in_again(), None
        room = await runtime().hub.members.room(session, org_id)
        return (lead_outside() if room is None else None), room
    except SignedOut:
        return sign_in_again(), None
    except AppError:
        return None, None
