"""The variables that a job was given, beside its log."""

import reflex as rx

from app.jobs.state.given import GivenView, JobVariablesState
from app.ui.icons import icon


def _line(row: rx.Var[GivenView]) -> rx.Component:
    note = rx.cond(row["note"] != "", rx.fragment(", ", row["note"]), rx.fragment())
    text = rx.el.div(rx.el.span(row["name"], class_name="ry-mono"), rx.el.small(row["source"], note), class_name="grow")
    return rx.el.li(icon("variable", class_name="mut"), text)


def given_variables(job: rx.Var[int]) -> rx.Component:
    """Names and versions; nothing where the job was given none."""
    rows = JobVariablesState.rows
    panel = rx.el.section(
        rx.el.div(rx.el.h2("Variables"), rx.el.span(rows.length(), class_name="mut num"), class_name="ry-ph"),
        rx.el.ul(rx.foreach(rows, _line), class_name="ry-list"),
        class_name="ry-panel",
        aria_label="Variables",
    )
    loader = rx.el.span(on_mount=JobVariablesState.show(job), key=job.to_string(), class_name="sr")
    return rx.fragment(loader, rx.cond(rows.length() > 0, panel, rx.fragment()))
