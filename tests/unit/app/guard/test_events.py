"""Every handler of every state is an address on the web: nobody gets in who should not, nothing that does not fit."""

from inspect import unwrap
from typing import Any, cast, get_args

import pytest
import reflex as rx
from reflex.event import Event
from reflex.istate.data import HeaderData
from reflex_base.registry import RegisteredEventHandler, RegistrationContext

import app.app  # noqa: F401  every page, and so every state
from app.frame.session import SessionState
from app.guard.events import BadArguments, DenyByDefault, check_arguments, hints_of, is_public
from app.http.cookies import NAME
from app.project.models import BrowserSession
from app.project.runtime import runtime
from app.runners.state.runners import RunnersState

WRONG: list[Any] = [{"$ne": None}, ["x"], 1.5, None, "text", 7, True]


def handlers() -> dict[str, RegisteredEventHandler]:
    registered = RegistrationContext.get().event_handlers
    ours = {
        name: handler
        for name, handler in registered.items()
        if handler.states and handler.states[0].__module__.startswith("app.") and not name.endswith(".setvar")
    }
    assert len(ours) > 50
    return ours


HANDLERS = handlers()


def fits(hint: Any, value: Any) -> bool:
    kinds = get_args(hint) or (hint,)
    if hint is Any or str(hint).startswith("dict"):
        return isinstance(value, dict)
    if str(hint).startswith("list"):
        return isinstance(value, list)
    return any(
        type(value) is kind or (kind is float and type(value) is int) or (str(kind) == "list[str]" and value == ["x"])
        for kind in kinds
    )


def is_refused(fn: Any, payload: dict[str, Any]) -> bool:
    try:
        check_arguments(fn, payload)
    except BadArguments:
        return True
    return False


def test_every_argument_has_a_type_to_be_checked_against() -> None:
    for name, registered in HANDLERS.items():
        fn = registered.handler.fn
        code = unwrap(fn).__code__
        arguments = code.co_varnames[1 : code.co_argcount]
        assert set(hints_of(fn)) == set(arguments), name
        assert Any not in hints_of(fn).values(), name


def test_no_handler_accepts_a_value_of_another_type() -> None:
    accepted = [
        (name, argument, value)
        for name, registered in HANDLERS.items()
        for argument, hint in hints_of(registered.handler.fn).items()
        for value in WRONG
        if not fits(hint, value) and not is_refused(registered.handler.fn, {argument: value})
    ]
    assert accepted == []


def test_no_handler_accepts_an_unknown_argument() -> None:
    unknown = {"nobody_has_this": 1}
    assert [name for name, each in HANDLERS.items() if not is_refused(each.handler.fn, unknown)] == []


def test_every_handler_requires_a_session() -> None:
    assert [name for name, handler in HANDLERS.items() if is_public(handler.handler.fn)] == []


def visitor(sid: str = "") -> rx.State:
    root = rx.State(_reflex_internal_init=True)
    root.rx_router_headers = HeaderData(cookie=f"{NAME}={sid}" if sid else "")
    return root


@pytest.mark.anyio
async def test_an_anonymous_event_is_sent_to_the_sign_in_page() -> None:
    for name in HANDLERS:
        update = await DenyByDefault().preprocess(cast("Any", None), visitor(), Event(name=name, payload={}))
        assert update is not None, name
        assert [event.name for event in update.events] == ["_redirect"], name
        assert update.events[0].payload["path"] == "/login", name


@pytest.mark.anyio
async def test_a_made_up_or_ended_session_leads_to_the_sign_in_page_with_its_reason() -> None:
    name = next(iter(HANDLERS))
    update = await DenyByDefault().preprocess(cast("Any", None), visitor("made-up"), Event(name=name, payload={}))
    assert update is not None
    assert ["signInAgain" in str(event.payload) for event in update.events] == [True]


@pytest.mark.anyio
async def test_a_signed_in_event_passes_with_the_right_arguments_and_only_with_those() -> None:
    await runtime().authorized.sessions.put(BrowserSession("good", "u", "ops@example.com", "a", "r", 9e12, 0.0))
    name = next(name for name in HANDLERS if name.endswith("runners_state.search_for"))
    guard, root = DenyByDefault(), visitor("good")
    assert await guard.preprocess(cast("Any", None), root, Event(name=name, payload={"text": "prod"})) is None
    for payload in ({"text": {"$ne": None}}, {}, {"text": "a", "more": 1}, {"text": "x" * 300_000}):
        update = await guard.preprocess(cast("Any", None), root, Event(name=name, payload=payload))
        assert update is not None
        assert not update.events
    await runtime().authorized.sessions.delete("good")
    assert await guard.preprocess(cast("Any", None), root, Event(name=name, payload={"text": "prod"})) is not None


@pytest.mark.anyio
async def test_setting_a_var_from_outside_is_refused_too() -> None:
    name = next(name for name in RegistrationContext.get().event_handlers if name.endswith("session_state.setvar"))
    payload = {"var_name": "can_admin", "value": True}
    update = await DenyByDefault().preprocess(cast("Any", None), visitor(), Event(name=name, payload=payload))
    assert update is not None


@pytest.mark.anyio
async def test_states_are_emptied_when_another_visitor_uses_the_tabs_token() -> None:
    root = visitor()
    who = await root.get_state(SessionState)
    who.user_id, who.email = "u", "ops@example.com"
    runners = await root.get_state(RunnersState)
    runners.job_words = "4 queued"
    hydrate = next(name for name in RegistrationContext.get().event_handlers if name.endswith("state.hydrate"))
    await DenyByDefault().preprocess(cast("Any", None), root, Event(name=hydrate, payload={}))
    assert (who.email, runners.job_words) == ("", "")


def test_no_event_waits_for_a_connection_to_be_done_later() -> None:
    assert [name for name, each in HANDLERS.items() if each.handler.event_actions.get("temporal") is not True] == []


@pytest.mark.anyio
async def test_a_removed_members_tab_is_emptied_and_redirected(monkeypatch: pytest.MonkeyPatch) -> None:
    await runtime().authorized.sessions.put(BrowserSession("former", "u", "ops@example.com", "a", "r", 9e12, 0.0))
    root = visitor("former")
    who = await root.get_state(SessionState)
    who.user_id, who.org_id = "u", "org-1"
    runners = await root.get_state(RunnersState)
    runners.job_words = "4 queued"
    asked: list[str] = []

    async def rpc(session: BrowserSession, function: str, args: Any = None) -> list[dict[str, str]]:
        asked.append(function)
        return [{"id": "org-2"}]

    monkeypatch.setattr(runtime().authorized, "rpc", rpc)
    name = next(name for name in HANDLERS if name.endswith("runners_state.search_for"))
    update = await DenyByDefault().preprocess(cast("Any", None), root, Event(name=name, payload={"text": "x"}))
    assert update is not None
    assert [event.name for event in update.events] == ["_redirect", "_call_function"]
    assert "You are no longer a member" in str(update.events[1].payload)
    assert (who.org_id, runners.job_words, asked) == ("", "", ["my_organizations"])
    await runtime().authorized.sessions.delete("former")
