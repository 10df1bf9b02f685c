"""The panel of a fresh organisation's first steps."""

from typing import Any

import reflex as rx

from app.frame.session import SessionState
from app.runners.state.first_steps import FirstStepsState
from app.runners.view.first_steps import Step
from app.ui.controls import icon, page_link, quiet_button
from app.ui.panel import titled_panel


def _act(step: rx.Var[Step], on_add: Any) -> rx.Component:
    def button(**props: Any) -> rx.Component:
        return rx.button(step["act"], color_scheme="gray", **props)

    ink = rx.cond(
        step["href"] != "",
        page_link(button(high_contrast=True), href=step["href"], underline="none"),
        rx.cond(SessionState.can_admin, button(high_contrast=True, on_click=on_add)),
    )
    quiet = rx.cond(step["href"] != "", page_link(button(variant="surface"), href=step["href"], underline="none"))
    return rx.match(step["state"], ("ok", rx.fragment()), ("next", ink), quiet)


def _line(step: rx.Var[Step], at: rx.Var[int], on_add: Any) -> rx.Component:
    mark = rx.match(
        step["state"],
        ("ok", rx.el.span(icon("check", "s", aria_label="done"), class_name="ry-step ok")),
        ("next", rx.el.span(at + 1, class_name="ry-step now num")),
        rx.el.span(at + 1, class_name="ry-step num"),
    )
    return rx.el.li(
        mark,
        rx.el.div(rx.el.b(step["title"]), rx.el.small(step["text"], class_name="sm ry-block")),
        rx.el.span(_act(step, on_add)),
        class_name=step["state"].to(str),
        custom_attrs={"data-step": step["state"]},
    )


def first_steps(on_add: Any) -> rx.Component:
    """The panel; `on_add` opens the sheet that registers a runner."""
    state = FirstStepsState
    hide = quiet_button("Hide", on_click=state.hide)
    panel = titled_panel(
        "First steps",
        (
            rx.el.span(state.done, " of ", state.steps.length(), " done", class_name="mut num"),
            rx.el.span(class_name="grow"),
            hide,
        ),
        rx.el.ol(
            rx.foreach(state.steps, lambda step, at: _line(step, at, on_add)),
            class_name="ry-first",
            style={"list_style": "none"},
        ),
        custom_attrs={"data-testid": "first-steps"},
    )
    return rx.cond(state.is_shown & SessionState.can_operate, panel)
