"""The sheet that creates and edits a schedule, and the question before one is removed."""

import reflex as rx

from app.frame.pick import ZONES, picks
from app.triggers.state.triggers import TriggersState
from app.ui.controls import choice, segments
from app.ui.dialog import form_sheet
from app.ui.form.elements import Fields, exact_input, field, labelled, problem_line
from app.ui.resource import removal

State = TriggersState
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
