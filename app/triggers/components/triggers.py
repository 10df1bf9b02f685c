"""Triggers: one table of pushes, pull requests and schedules, each with its last event."""

import reflex as rx

from app.frame.session import SessionState
from app.triggers.components.marks import trigger_mark
from app.triggers.state.triggers import PAGE_SIZE, TriggersState
from app.triggers.view.triggers import KINDS, TriggerView
from app.ui.elements import ago
from app.ui.feedback import empty
from app.ui.icons import icon
from app.ui.panel import item_table, link_button, menu, menu_item, settings_panel
from app.ui.table import cell, page_foot, search_box, show_all

State = TriggersState
HEADS = (("On", ""), ("Starts", ""), ("When", ""), ("Last event", ""), ("Actions", "r"))
ABOUT = "Pushes, pull requests and schedules that start jobs. A schedule skips a module whose last job has not ended."
GIT = "/dashboard/settings/git"


def _menu(row: rx.Var[TriggerView]) -> rx.Component:
    key = row["id"].to(str)
    entries = menu(
        "More actions for " + row["name"].to(str),
        menu_item("pencil", "Edit", State.edit(key)),
        menu_item("play", "Run now", State.run_now(key)),
        rx.dropdown_menu.separator(),
        menu_item("trash-2", "Remove", State.ask_remove(key), color_scheme="red"),
    )
    return rx.cond((row["kind"] == "schedule") & SessionState.can_operate, entries)


def _switch(row: rx.Var[TriggerView]) -> rx.Component:
    """A schedule is switched here; whether pushes plan a module, on the module's page."""
    switch = rx.switch(
        checked=row["is_on"].to(bool),
        on_change=lambda is_on: State.switch(row["id"].to(str), is_on),
        disabled=~SessionState.can_operate,
        size="1",
        aria_label="On: " + row["name"].to(str),
    )
    return rx.cond(row["kind"] == "schedule", switch, rx.el.span(rx.cond(row["is_on"], "On", "Off"), class_name="mut"))


def _small(text: rx.Var[str], class_name: str = "sm ry-breaks") -> rx.Component:
    return rx.cond(text != "", rx.el.small(text, class_name=class_name))


def _starts(row: rx.Var[TriggerView]) -> rx.Component:
    place = rx.link(row["where"], href=row["href"].to(str), class_name="ry-a ry-mono ry-breaks")
    shown = rx.el.span(rx.el.span(row["type"], class_name="ry-tag mono"), place, class_name="ry-row c6")
    return rx.el.div(shown, _small(row["applies"].to(str)))


def _when(row: rx.Var[TriggerView]) -> rx.Component:
    problem = row["problem"].to(str)
    below = rx.fragment(_small(row["detail"].to(str)), _small(problem))
    return rx.el.div(rx.el.span(row["words"], title=row["cron"].to(str)), below)


def _linked(text: rx.Var[str], href: rx.Var[str]) -> rx.Component:
    link = rx.link(text, href=href, class_name="ry-a num")
    return rx.cond(text != "", rx.fragment(" · ", rx.cond(href != "", link, text)))


def _last(row: rx.Var[TriggerView]) -> rx.Component:
    facts = rx.el.small(
        ago(row["at"].to(str)),
        _linked(row["event"].to(str), row["event_href"].to(str)),
        rx.cond(row["job"] != "", _linked("job " + row["job"].to(str), row["job_href"].to(str))),
        rx.cond(row["why_href"] != "", _linked(rx.Var.create("delivery"), row["why_href"].to(str))),
        class_name="sm",
    )
    return rx.el.div(
        rx.cond(row["last"] != "", trigger_mark(row["last"].to(str))),
        rx.cond(row["at"] != "", facts),
        _small(row["last_note"].to(str)),
        custom_attrs={"data-testid": "last-event"},
    )


def _row(row: rx.Var[TriggerView]) -> rx.Component:
    return rx.el.tr(
        cell(_switch(row), class_name="hide-s"),
        cell(_starts(row), class_name="n-a wrap"),
        cell(_when(row), class_name="n-c wrap"),
        cell(_last(row), class_name="n-w wrap"),
        cell(_menu(row), class_name="r n-b"),
        role="row",
        key=row["id"],
        custom_attrs={"data-row": row["id"], "data-kind": row["kind"]},
    )


def _bar() -> rx.Component:
    kinds = rx.segmented_control.root(
        *[rx.segmented_control.item(words, value=key) for key, words in KINDS.items()],
        value=State.only,
        on_change=State.choose_only,
        aria_label="Kind of trigger",
    )
    search = search_box("trigger-search", "Search triggers", State.search_for, State.clear, value=State.search)
    return rx.el.div(kinds, rx.el.span(class_name="grow hide-s"), search, class_name="ry-bar ry-pb")


def _none() -> rx.Component:
    hidden = empty(
        "search-x", "No triggers match", "Others are hidden by the search or the kind.", show_all(State.clear)
    )
    text = rx.cond(
        SessionState.can_operate,
        "Create a schedule for drift checks and plans, or connect a repository: its pushes and pull requests plan modules.",
        "Schedules, and pushes and pull requests of connected repositories show up here. An operator creates schedules, an "
        "admin connects repositories.",
    )
    none = empty("calendar-clock", "No triggers yet", text, link_button("Repositories", href=GIT, size="2", attrs={}))
    return rx.cond((State.search != "") | (State.only != "any"), hidden, none)


def triggers_panel() -> rx.Component:
    """All triggers of the organisation."""
    create = rx.button(icon("plus"), "Create schedule", on_click=State.add(""), color_scheme="gray", high_contrast=True)
    return settings_panel(
        "Triggers",
        ABOUT,
        rx.cond(SessionState.can_operate, create),
        _bar(),
        item_table(State, "Triggers", HEADS, _row, _none()),
        rx.cond(State.total > PAGE_SIZE, page_foot(State, PAGE_SIZE, State.total)),
    )
