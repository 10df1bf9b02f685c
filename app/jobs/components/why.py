"""The explanation of a waiting job: one sentence with the way out, then one line per runner."""

from collections.abc import Callable

import reflex as rx

from app.frame.session import SessionState
from app.jobs.view.queue import Runner, Why
from app.ui.controls import icon, page_link, small_button
from app.ui.elements import ago
from app.ui.panel import titled_panel

Enable = Callable[[rx.Var[str]], rx.event.EventType[()]]


def _mark(runner: rx.Var[Runner]) -> rx.Component:
    return rx.match(
        runner.icon,
        ("circle-check", icon("circle-check", class_name="t-grn")),
        ("hourglass", icon("hourglass", class_name="t-amb")),
        rx.match(
            runner.tone,
            ("t-red", icon("circle-slash", class_name="t-red")),
            ("t-amb", icon("circle-slash", class_name="t-amb")),
            icon("circle-slash", class_name="mut"),
        ),
    )


def _line(runner: rx.Var[Runner], on_enable: Enable) -> rx.Component:
    button = small_button("Enable", aria_label="Enable " + runner.name, on_click=on_enable(runner.id))
    return rx.el.li(
        _mark(runner),
        page_link(runner.name, href="/dashboard/runners/" + runner.id, class_name="ry-a"),
        rx.el.span(runner.reason, rx.cond(runner.help != "", " " + runner.help, ""), class_name="why"),
        rx.el.span(rx.cond(runner.can_enable & SessionState.can_admin, button)),
    )


def why_body(why: rx.Var[Why], on_enable: Enable, *, is_flat: bool = False) -> rx.Component:
    """Write the answer; `on_enable` gets a runner's id from admins, who may switch it on again."""
    return rx.el.div(
        rx.el.p(rx.el.b(why.summary, style={"font_weight": "600"}), " ", rx.el.span(why.help, class_name="mut")),
        rx.cond(
            why.runners.length() > 0,
            rx.el.ul(rx.foreach(why.runners, lambda runner: _line(runner, on_enable)), class_name="ry-wl"),
        ),
        class_name="ry-wb flat" if is_flat else "ry-wb",
    )


def why_row(why: rx.Var[Why], columns: int, on_enable: Enable) -> rx.Component:
    """The answer as a row that opens under a job's row."""
    return rx.el.tr(
        rx.el.td(why_body(why, on_enable), col_span=columns, role="cell"), class_name="ry-explain", role="row"
    )


def why_panel(why: rx.Var[Why], on_enable: Enable) -> rx.Component:
    return titled_panel(
        "Why is it waiting?",
        (
            rx.cond(why.position != "", rx.el.span(why.position, class_name="mut")),
            rx.el.span(class_name="grow"),
            rx.el.span("checked ", ago(why.checked_at), class_name="mut num"),
        ),
        why_body(why, on_enable, is_flat=True),
    )
