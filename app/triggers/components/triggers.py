"""Triggers: one table of pushes, pull requests and schedules, each with its last event."""

from typing import Any

import reflex as rx

from app.frame.pick import ZONES, picks
from app.frame.session import SessionState
from app.triggers.components.marks import trigger_mark
from app.triggers.state.triggers import TriggersState
from app.triggers.view.triggers import KINDS, TriggerView
from app.ui.controls import act_button, choice, icon, link_button, page_link, segments
from app.ui.dialog import form_sheet
from app.ui.elements import ago
from app.ui.form.elements import Fields, exact_input, field, labelled, problem_line
from app.ui.panel import empty
from app.ui.resource import Act, Column, removal, resource_panel, row_menu
from app.ui.table import page_foot, search_box, show_all

State = TriggersState
ABOUT = "Pushes, pull requests and schedules that start jobs. A schedule skips a module whose last job has not ended."
GIT = "/dashboard/settings/git"


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
    place = page_link(row["where"], href=row["href"].to(str), class_name="ry-a ry-mono ry-breaks")
    shown = rx.el.span(rx.el.span(row["type"], class_name="ry-tag mono"), place, class_name="ry-row c6")
    return rx.el.div(shown, _small(row["applies"].to(str)))


def _when(row: rx.Var[TriggerView]) -> rx.Component:
    problem = row["problem"].to(str)
    below = rx.fragment(_small(row["detail"].to(str)), _small(problem))
    return rx.el.div(rx.el.span(row["words"], title=row["cron"].to(str)), below)


def _linked(text: rx.Var[str], href: rx.Var[str]) -> rx.Component:
    link = page_link(text, href=href, class_name="ry-a num")
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


ACTS = row_menu(
    Act("pencil", "Edit", State.edit),
    Act("play", "Run now", State.run_now),
    Act("trash-2", "Remove", State.ask_remove, is_danger=True),
    may=lambda row: (row["kind"] == "schedule") & SessionState.can_operate,
)
COLUMNS = (
    Column("On", _switch, "hide-s"),
    Column("Starts", _starts, "n-a wrap"),
    Column("When", _when, "n-c wrap"),
    Column("Last event", _last, "n-w wrap"),
    Column("Actions", ACTS, "r n-b"),
)


def _mark(row: rx.Var[TriggerView]) -> dict[str, Any]:
    return {"data-row": row["id"], "data-kind": row["kind"]}


def _bar() -> rx.Component:
    kinds = segments("Kind of trigger", KINDS, value=State.choices.kind, on_change=State.choose_only)
    search = search_box("trigger-search", "Search triggers", State.search_for, State.clear, value=State.choices.search)
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
    return rx.cond(State.is_filtered, hidden, none)


def triggers_panel() -> rx.Component:
    create = act_button(icon("plus"), "Create schedule", on_click=State.add(""))
    foot = rx.cond(State.total > State.PAGE_SIZE, page_foot(State, State.PAGE_SIZE, State.total))
    add = rx.cond(SessionState.can_operate, create)
    return resource_panel(State, "Triggers", ABOUT, COLUMNS, _none(), _bar(), add=add, mark=_mark, foot=foot)


OPERATIONS = {"DRIFT": "Check for drift", "PLAN": "Plan", "APPLY": "Apply", "DESTROY": "Destroy"}


def _kinds() -> rx.Component:
    kinds = {"hourly": "Hourly", "daily": "Daily", "weekly": "Weekly", "cron": "Cron"}
    return segments("When", kinds, value=State.kind, on_change=State.set_kind)


def _times() -> rx.Component:
    times = rx.el.ol(
        rx.foreach(State.times, lambda each: rx.el.li(rx.el.span(each, class_name="num grow"))),
        class_name="ry-nextruns",
        style={"list_style": "none"},
    )
    wrong = problem_line("times", State.wrong)
    return labelled("Next 5 runs", rx.cond(State.wrong != "", wrong, times))


def _fields() -> list[rx.Component]:
    errors, follows = State.errors, "Follows daylight saving time."
    operation = choice("Operation", OPERATIONS, value=State.operation, on_change=State.set_operation)
    cron = exact_input(id="s-cron", name="cron", value=State.cron, on_change=State.set_cron, class_name="ry-mono")
    zone = exact_input(
        **{**picks(ZONES), "id": "s-zone", "name": "zone", "value": State.zone, "on_change": State.set_zone}
    )
    where = {"class_name": "ry-mono", "placeholder": "platform/network", **picks("groups", "modules")}
    return [
        rx.el.div(
            labelled("Operation", operation),
            Fields(State).text("path", "Module or group", "If empty, all modules.", **where),
            class_name="ry-two",
        ),
        labelled("When", _kinds()),
        rx.el.div(
            field("cron", "Cron", cron, errors, State.words),
            field("zone", "Time zone", zone, errors, follows),
            class_name="ry-two",
        ),
        _times(),
    ]


def schedule_dialogs() -> list[rx.Component]:
    title = rx.cond(State.is_new, "Create schedule", "Edit schedule")
    return [
        form_sheet(
            State, title, "Starts jobs at these times.", rx.cond(State.is_new, "Create schedule", "Save"), _fields()
        ),
        removal(State, "Remove", "It starts no more jobs. The jobs that it started stay.", "Remove schedule"),
    ]
