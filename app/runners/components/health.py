"""The health of a runner: a mark in the lists, and a note at the top of its page with what to do."""

from typing import Any

import reflex as rx

from app.runners.state.runner import RunnerState
from app.runners.view.health import Advice
from app.ui.controls import icon
from app.ui.panel import notice

ICONS = ("circle-alert", "circle-pause", "clock-alert", "circle-arrow-up", "circle-dashed", "shield-off", "unplug")
MARKS = {
    "outdated": ("circle-arrow-up", "t-amb"),
    "degraded": ("circle-alert", "t-amb"),
    "clock_off": ("clock-alert", "t-amb"),
    "takes_no_jobs": ("circle-pause", "t-amb"),
    "never_contacted": ("circle-dashed", ""),
    "out_of_contact": ("unplug", "t-red"),
    "not_isolated": ("circle-slash", ""),
}


def _note(advice: rx.Var[Advice]) -> rx.Component:
    marks = [(name, icon(name, "")) for name in ICONS]
    more = rx.el.a("How to fix it", href="/docs/" + advice["doc"].to(str) + "/", target="_blank", class_name="ry-link")
    mark, title = (
        rx.match(advice["icon"], *marks, icon("circle-alert", "")),
        rx.el.b(advice["title"], class_name="ry-strong"),
    )
    words = (title, " ", rx.el.span(advice["text"]))
    return notice(mark, *words, tone=advice["tone"], beside=(more,), test_id="advice-" + advice["code"].to(str))


def health_notes() -> rx.Component:
    """One note for each condition; none where nothing is wrong."""
    return rx.foreach(RunnerState.advice, _note)


def health_mark(code: Any, otherwise: rx.Component) -> rx.Component:
    """Draw the icon of a health word; `otherwise` for a word without one."""
    marks = [(known, icon(name, "xs", class_name=tone)) for known, (name, tone) in MARKS.items()]
    return rx.match(code, *marks, otherwise)
