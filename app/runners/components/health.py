"""What is wrong with a runner, at the top of its page: what, what it means for jobs, what to do."""

import reflex as rx

from app.runners.state.runner import RunnerState
from app.runners.view.health import Advice
from app.ui.icons import icon

ICONS = ("circle-alert", "circle-pause", "clock-alert", "circle-arrow-up", "circle-dashed", "shield-off", "unplug")


def _note(advice: rx.Var[Advice]) -> rx.Component:
    marks = [(name, icon(name, "")) for name in ICONS]
    more = rx.el.a("How to fix it", href="/docs/" + advice["doc"].to(str) + "/", target="_blank", class_name="ry-link")
    return rx.el.div(
        rx.match(advice["icon"], *marks, icon("circle-alert", "")),
        rx.el.p(rx.el.b(advice["title"], style={"font_weight": "600"}), " ", rx.el.span(advice["text"])),
        more,
        class_name="ry-note",
        custom_attrs={"data-accent-color": advice["tone"], "data-testid": "advice-" + advice["code"].to(str)},
    )


def health_notes() -> rx.Component:
    """One note for each condition; none where nothing is wrong."""
    return rx.foreach(RunnerState.advice, _note)
