"""Deny by default: every event handler is a public address, so each event is judged here first."""

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, get_type_hints
from urllib.parse import quote, urlencode

import reflex as rx
import structlog
from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from reflex.event import Event, EventSpec
from reflex.state import BaseState, StateUpdate
from reflex_base.registry import RegistrationContext
from reflex_base.utils.form import FORM_DATA_ENTRIES_KEY, transform_form_data

from app.frame.session import SessionState, lead_outside, sign_in_again
from app.http.cookies import read_sid
from app.project.errors import AppError
from app.project.models import BrowserSession
from app.project.runtime import runtime

MAX_TEXT = 256 * 1024

log = structlog.get_logger(__name__)

_OURS = "app."


def is_public(fn: Callable[..., Any]) -> bool:
    return bool(getattr(fn, "is_public", False))


def _way_to_sign_in(state: BaseState) -> EventSpec:
    """Come back after signing in to the page that was requested; a browser that still has a cookie learns that its session ended."""
    if read_sid(state.router.headers.cookie or ""):
        return sign_in_again()
    path, query = state.router.url.path.rstrip("/"), state.router.url.query
    if path == "/device":
        query = urlencode({"code": str(state.router.url.query_parameters.get("code") or "")[:20]})
    path += f"?{query}" if query else ""
    return rx.redirect(f"/login?next={quote(path)}" if path.startswith(("/dashboard", "/o/", "/device")) else "/login")


class DenyByDefault(rx.Middleware):
    """Allow an event only for somebody signed in, with arguments of the right types."""

    async def preprocess(self, app: rx.App, state: BaseState, event: Event) -> StateUpdate | None:
        """Judge one event; an update in return means: the handler does not run."""
        who = await state.get_state(SessionState)
        session = await who._session()
        if who.user_id and (session is None or session.user_id != who.user_id):
            # A tab's token is enough to be handed its states: they go when their owner is not the one who asks.
            state._get_root_state().reset()
        is_outside = session is not None and await _is_outside(session, who.org_id)
        if is_outside:
            # Also a tab that was away while its membership ended: what it was shown goes with the next thing it asks.
            state._get_root_state().reset()
        registered = RegistrationContext.get().event_handlers.get(event.name)
        if registered is None or event.name.endswith(".setvar"):
            return StateUpdate()
        if not registered.states or not registered.states[0].__module__.startswith(_OURS):
            return None
        fn = registered.handler.fn
        if is_outside:
            return StateUpdate(events=Event.from_event_type(lead_outside()))
        if session is None and not is_public(fn):
            return StateUpdate(events=Event.from_event_type(_way_to_sign_in(state)))
        return _refuse_misfits(fn, event)


async def _is_outside(session: BrowserSession, org_id: str) -> bool:
    """Return whether this person no longer belongs to the organisation that the tab shows; not while nobody can tell."""
    try:
        return bool(org_id) and not await runtime().hub.members.is_member(session, org_id)
    except AppError:
        return False


def _refuse_misfits(fn: Callable[..., Any], event: Event) -> StateUpdate | None:
    try:
        check_arguments(fn, event.payload)
    except BadArguments as error:
        log.warning("event_refused", handler=event.name, reason=str(error))
        return StateUpdate()
    return None


class BadArguments(Exception):
    """An event carried arguments that its handler does not take."""


@cache
def _adapter(hint: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(hint, config=ConfigDict(strict=True))
    except PydanticUserError:  # models and typed dicts bring their own configuration
        return TypeAdapter(hint)


@cache
def hints_of(fn: Callable[..., Any]) -> dict[str, Any]:
    """Name the hint of each argument a handler takes, without self."""
    hints = get_type_hints(fn)
    names = list(inspect.signature(fn).parameters)[1:]
    return {name: hints[name] for name in names if name in hints}


def _is_too_long(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) > MAX_TEXT
    if isinstance(value, Mapping):
        return any(_is_too_long(item) for item in value.values())
    return isinstance(value, list) and any(_is_too_long(item) for item in value)


def _check_value(name: str, hint: Any, value: Any) -> None:
    if isinstance(value, Mapping) and FORM_DATA_ENTRIES_KEY in value:
        value = transform_form_data(value, hint)
    if _is_too_long(value):
        raise BadArguments(f"{name} is too long")
    try:
        _adapter(hint).validate_python(value, strict=True)
    except ValidationError as error:
        raise BadArguments(f"{name} is not a {hint}") from error


def check_arguments(fn: Callable[..., Any], payload: Mapping[str, Any]) -> None:
    """Refuse a payload that does not fit the handler's signature exactly."""
    hints = hints_of(fn)
    parameters = dict(list(inspect.signature(fn).parameters.items())[1:])
    unknown = payload.keys() - parameters.keys()
    if unknown:
        raise BadArguments(f"{', '.join(sorted(unknown))} is not an argument")
    for name, parameter in parameters.items():
        if name not in payload:
            if parameter.default is inspect.Parameter.empty:
                raise BadArguments(f"{name} is missing")
        elif name not in hints:
            raise BadArguments(f"{name} has no type to be checked against")
        else:
            _check_value(name, hints[name], payload[name])
