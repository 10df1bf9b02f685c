"""Releases of the runner."""

import reflex as rx

from app.frame.releases.state import ReleaseNotesState
from app.settings.components.settings_page import settings_page
from app.settings.state.releases import ReleaseRow, ReleasesState
from app.ui.button import quiet_button
from app.ui.feedback import empty
from app.ui.resource import Column, moment, resource_panel, unmarked


def _version(row: rx.Var[ReleaseRow]) -> rx.Component:
    marks = rx.fragment(
        rx.cond(row["is_latest"], rx.badge("latest", color_scheme="indigo", radius="full")),
        rx.cond(row["is_breaking"], rx.badge("breaking", color_scheme="amber", radius="full")),
        rx.cond(row["channel"] != "stable", rx.badge(row["channel"], color_scheme="gray", radius="full")),
    )
    return rx.el.span(rx.el.b(row["version"], class_name="num ry-medium"), marks, class_name="ry-row")


def _notes(row: rx.Var[ReleaseRow]) -> rx.Component:
    version = row["version"].to(str)
    return quiet_button("Notes", on_click=ReleaseNotesState.show(version), aria_label="Notes of " + version)


COLUMNS = (
    Column("Version", _version, "n-a"),
    Column("What is new", "first_line", "mut n-c wrap"),
    Column("Runners on it", "runners", "r num hide-s"),
    Column("Published", moment("published_at"), "r mut num n-d"),
    Column("Actions", _notes, "r n-b"),
)


def releases() -> rx.Component:
    """The releases page."""
    none = empty(
        "megaphone", "No releases yet", "CI publishes runner versions with their notes, and they show up here."
    )
    about = "Runner versions. Published by CI, newest first."
    return settings_page(
        "releases", resource_panel(ReleasesState, "Releases", about, COLUMNS, none, key="version", mark=unmarked)
    )
