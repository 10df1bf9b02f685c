"""The rail of a runner's page: assignments, tokens, switches."""

from typing import Any

import reflex as rx

from app.frame.pick import picks
from app.frame.session import SessionState
from app.runners.state.actions import RunnerActionState
from app.runners.state.runner import RunnerState
from app.ui.badges import pill
from app.ui.controls import act_button, icon, icon_button, quiet_button, small_button
from app.ui.dialog import cancel, dialog, dialog_acts, dialog_input, question
from app.ui.elements import ago, date
from app.ui.panel import titled_panel

State = RunnerState


def _may_change() -> rx.Var[bool]:
    return SessionState.can_admin & ~State.row["is_shared"].to(bool)


def _assignment(item: Any) -> rx.Component:
    mark = rx.cond(item["icon"] == "module", icon("box"), icon("folder"))
    remove = icon_button(
        "x", "Stop serving " + item["path"].to(str), State.unassign(item["path"]), title="Stop serving this"
    )
    return rx.el.li(
        rx.el.span(mark, class_name="mut"),
        rx.el.div(rx.el.span(item["path"], class_name="ry-mono ry-el"), rx.el.small(item["kind"]), class_name="grow"),
        rx.cond(_may_change(), remove),
        key=item["path"],
        custom_attrs={"data-assignment": item["path"]},
    )


def _choice() -> rx.Component:
    field = dialog_input("assign-path", "Group or module", required=True, **picks("groups", "modules"))
    acts = dialog_acts(cancel(State.set_assigning(False)), act_button("Assign", type="submit"))
    return dialog(
        rx.fragment("Assign ", State.row["name"]),
        "It may run jobs of every module at this path and below. Choose as little as it needs.",
        rx.form(field, acts, on_submit=State.assign),
        is_open=State.is_assigning,
        on_open_change=State.set_assigning,
        width="440px",
    )


def _switch(label: str, text: str, value: Any, on_change: Any) -> rx.Component:
    return rx.el.li(
        rx.el.div(rx.el.span(label), rx.el.small(text), class_name="grow"),
        rx.switch(checked=value, on_change=on_change, disabled=~_may_change(), size="1", aria_label=label),
    )


def assignments() -> rx.Component:
    add = small_button(icon("plus"), "Assign", on_click=State.set_assigning(True))
    return titled_panel(
        "Assignments",
        (rx.el.span(class_name="grow"), rx.cond(_may_change(), add)),
        rx.el.ul(
            rx.foreach(State.assignments, _assignment),
            rx.cond(
                State.row["is_shared"],
                rx.el.li(rx.el.span("Every module of every organisation", class_name="mut")),
                _switch(
                    "All modules", "Serves every path when nothing nearer does", State.serves_all, State.set_serves_all
                ),
            ),
            class_name="ry-list",
        ),
        _choice(),
    )


def _token(token: Any) -> rx.Component:
    used = rx.cond(
        token["last_used_at"] != "", rx.fragment("Used ", ago(token["last_used_at"])), rx.fragment("Never used")
    )
    ends = rx.match(
        token["word"],
        ("ended", rx.fragment(", ended ", date(token["ends_at"]))),
        rx.cond(token["ends_at"] != "", rx.fragment(", ends ", date(token["ends_at"]))),
    )
    badge = rx.match(
        token["word"],
        ("in use", pill("in use", color="green", custom_attrs={"data-testid": "token-in-use"})),
        ("new, not used yet", pill(token["word"], color="blue", custom_attrs={"data-testid": "token-new"})),
        pill(token["word"]),
    )
    revoke = quiet_button(
        "Revoke", on_click=State.ask_revoke(token["id"]), aria_label="Revoke the token ending " + token["hint"].to(str)
    )
    return rx.el.li(
        rx.el.span(icon("key-round"), class_name="mut"),
        rx.el.div(
            rx.el.div(rx.el.span("…", token["hint"], class_name="ry-mono"), badge, class_name="ry-row c6"),
            rx.el.small(used, ends),
            class_name="grow",
        ),
        rx.cond(token["is_live"], revoke),
        key=token["id"],
    )


def tokens() -> rx.Component:
    """Its tokens: hints, use and end; never more."""
    rotate = small_button(icon("refresh-cw"), "Rotate", on_click=RunnerActionState.ask("rotate", State.row["id"]))
    panel = titled_panel(
        "Tokens",
        (rx.el.span(class_name="grow"), rotate),
        rx.el.ul(rx.foreach(State.tokens, _token), class_name="ry-list"),
        question(
            is_open=State.revoking_id != "",
            title="Revoke the token ending " + State.revoking_hint + "?",
            text=State.revoking_effect,
            act="Revoke token",
            on_act=State.revoke_token,
            on_keep=State.keep_token,
        ),
    )
    return rx.cond(_may_change() & ~State.row["is_cloud"].to(bool), panel)


def _disabled_switch() -> rx.Component:
    def turn(is_on: Any) -> Any:
        return rx.cond(
            is_on, RunnerActionState.ask("disable", State.row["id"]), RunnerActionState.enable(State.row["id"])
        )

    return _switch("Disabled", "Takes no new jobs, running ones finish", State.row["is_disabled"], turn)


def behaviour() -> rx.Component:
    """Switches; each takes effect at once, with a toast."""
    return titled_panel(
        "Behaviour",
        None,
        rx.el.ul(
            _switch("Several instances", "Each needs its own name", State.allows_many, State.set_allows_many),
            _disabled_switch(),
            class_name="ry-list",
        ),
    )
