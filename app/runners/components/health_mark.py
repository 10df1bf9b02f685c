"""The icon of each thing that can be wrong with a runner."""

from typing import Any

import reflex as rx

from app.ui.icons import icon

ICONS = {
    "outdated": ("circle-arrow-up", "t-amb"),
    "degraded": ("circle-alert", "t-amb"),
    "clock_off": ("clock-alert", "t-amb"),
    "takes_no_jobs": ("circle-pause", "t-amb"),
    "never_contacted": ("circle-dashed", ""),
    "out_of_contact": ("unplug", "t-red"),
    "not_isolated": ("circle-slash", ""),
}


def health_mark(code: Any, otherwise: rx.Component) -> rx.Component:
    """Draw the icon of a health word, or the other thing for what has none."""
    marks = [(known, icon(name, "xs", class_name=tone)) for known, (name, tone) in ICONS.items()]
    return rx.match(code, *marks, otherwise)
