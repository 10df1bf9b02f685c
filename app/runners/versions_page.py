"""The versions of the runner, under Runners."""

import reflex as rx

from app.frame.layout import RUNNERS, Route, head, page, place_tabs
from app.frame.releases.state import ReleaseNotesState
from app.triggers.components.updates import updates_panel
from app.triggers.state.updates import ReleaseRow, UpdatesState
from app.ui.badges import pill
from app.ui.controls import quiet_button
from app.ui.panel import empty
from app.ui.resource import Column, moment, resource_panel, unmarked


def _version(row: rx.Var[ReleaseRow]) -> rx.Component:
    marks = rx.fragment(
        rx.cond(row["is_latest"], pill("latest", color="indigo")),
        rx.cond(row["is_breaking"], pill("breaking", color="amber")),
        rx.cond(row["channel"] != "stable", pill(row["channel"])),
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


def versions() -> rx.Component:
    """The page of versions: how runners move to them, and all that there are."""
    none = empty(
        "megaphone", "No releases yet", "CI publishes runner versions with their notes, and they show up here."
    )
    about = "Runner versions. Published by CI, newest first."
    return page(
        head("Versions", "Versions of the runner, and when runners move to the newest one."),
        place_tabs("Runners", RUNNERS, "Versions"),
        updates_panel(),
        resource_panel(UpdatesState, "Releases", about, COLUMNS, none, key="version", mark=unmarked),
        title="Versions",
        active="runners",
        crumbs=RUNNERS[:1],
    )


ROUTES = (Route("/dashboard/runners/versions", "Versions", versions, UpdatesState.load),)
