"""The variables that a job was given, beside its log."""

import reflex as rx

from app.jobs.state.job import JobState
from app.jobs.view.given import GivenView
from app.ui.icons import icon
from app.ui.panel import titled_panel


def _line(row: rx.Var[GivenView]) -> rx.Component:
    note = rx.cond(row["note"] != "", rx.fragment(", ", row["note"]))
    text = rx.el.div(rx.el.span(row["name"], class_name="ry-mono"), rx.el.small(row["source"], note), class_name="grow")
    return rx.el.li(icon("variable", class_name="mut"), text)


def given_variables() -> rx.Component:
    """Names and versions; nothing where the job was given none."""
    rows = JobState.given
    panel = titled_panel(
        "Variables",
        rx.el.span(rows.length(), class_name="mut num"),
        rx.el.ul(rx.foreach(rows, _line), class_name="ry-list"),
    )
    return rx.cond(rows.length() > 0, panel)
