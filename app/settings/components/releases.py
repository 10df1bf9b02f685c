"""Releases of the runner."""

import reflex as rx

from app.frame.releases.state import ReleaseNotesState
from app.settings.components.frame import or_problem, settings_page, settings_panel
from app.settings.state.releases import ReleaseRow, ReleasesState
from app.ui.button import quiet_button
from app.ui.elements import ago
from app.ui.feedback import empty, skeleton_rows
from app.ui.table import cell, heads, table


def _release(row: rx.Var[ReleaseRow]) -> rx.Component:
    marks = rx.fragment(
        rx.cond(row["is_latest"], rx.badge("latest", color_scheme="indigo", radius="full")),
        rx.cond(row["is_breaking"], rx.badge("breaking", color_scheme="amber", radius="full")),
        rx.cond(row["channel"] != "stable", rx.badge(row["channel"], color_scheme="gray", radius="full")),
    )
    notes = quiet_button(
        "Notes",
        on_click=ReleaseNotesState.show(row["version"].to(str)),
        aria_label="Notes of " + row["version"].to(str),
    )
    return rx.el.tr(
        cell(
            rx.el.span(rx.el.b(row["version"], class_name="num ry-medium"), marks, class_name="ry-row"),
            class_name="n-a",
        ),
        cell(row["first_line"], class_name="mut n-c wrap"),
        cell(row["runners"], class_name="r num hide-s"),
        cell(ago(row["published_at"].to(str)), class_name="r mut num n-d"),
        cell(notes, class_name="r n-b"),
        role="row",
        key=row["version"],
    )


def releases() -> rx.Component:
    """The releases page."""
    labels = (("Version", ""), ("What is new", ""), ("Runners on it", "r"), ("Published", "r"), ("Actions", "r"))
    waiting = ReleasesState.is_loading & (ReleasesState.rows.length() == 0)
    none = empty(
        "megaphone", "No releases yet", "CI publishes runner versions with their notes, and they show up here."
    )
    rows = rx.cond(waiting, skeleton_rows(labels, 3), rx.foreach(ReleasesState.rows, _release))
    body = rx.cond(
        waiting | (ReleasesState.rows.length() > 0), table("Releases", heads(*labels), rows, aria_busy=waiting), none
    )
    return settings_page(
        "releases",
        settings_panel(
            "Releases",
            "Runner versions. Published by CI, newest first.",
            rx.fragment(),
            or_problem(ReleasesState, "Releases", body),
        ),
    )
