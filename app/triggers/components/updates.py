"""The update policy: off, in a window, at once."""

import reflex as rx

from app.frame.pick import ZONES, picks
from app.frame.session import SessionState
from app.triggers.state.updates import DAYS, UpdatesState
from app.ui.controls import plain_button
from app.ui.elements import date
from app.ui.form.elements import check_field, labelled, problem_line, text_field
from app.ui.panel import or_problem, settings_panel

State = UpdatesState
MODES = (
    ("OFF", "Off", "You press Update. Outdated runners are marked."),
    ("WINDOW", "In a window", "Between the hours below, in waves."),
    ("NOW", "At once", "As soon as a release is published, in waves."),
)


def _mode(key: str, title: str, text: str) -> rx.Component:
    return rx.el.button(
        rx.el.i(),
        rx.el.b(title),
        rx.el.small(text),
        type="button",
        role="radio",
        aria_checked=rx.cond(State.mode == key, "true", "false"),
        on_click=State.set_mode(key),
        disabled=~SessionState.can_admin,
        class_name="rt-reset ry-radio",
    )


def _window() -> rx.Component:
    errors = State.errors
    days = [
        check_field(
            day, checked=State.days.contains(day), on_change=lambda is_on, day=day: State.set_day(day, is_on), size="1"
        )
        for day in (*DAYS[1:], DAYS[0])
    ]
    wrong = problem_line("days", errors["days"])
    return rx.fragment(
        labelled(
            "A window begins on", rx.el.div(*days, class_name="ry-row wrap"), rx.cond(errors.contains("days"), wrong)
        ),
        rx.el.div(
            text_field("begins_at", "From", State.begins_at, errors),
            text_field("ends_at", "Until", State.ends_at, errors, "Before From: the next day."),
            text_field("zone", "Time zone", State.zone, errors, "Follows daylight saving time.", **picks(ZONES)),
            class_name="ry-grid3",
            style={"gap": "12px"},
        ),
    )


def updates_panel() -> rx.Component:
    modes = rx.el.div(
        *[_mode(*each) for each in MODES],
        role="radiogroup",
        aria_label="Update policy",
        class_name="ry-grid3",
        style={"gap": "12px"},
    )
    next_window = rx.cond(
        State.next_window != "",
        rx.el.span("Next window ", date(State.next_window), ". ", custom_attrs={"data-testid": "next-window"}),
    )
    acts = rx.el.div(
        plain_button("Save", type="submit", disabled=~SessionState.can_admin),
        rx.el.span(next_window, State.hint, class_name="ry-hint"),
        class_name="ry-acts",
    )
    form = rx.form(
        modes,
        rx.cond(State.mode == "WINDOW", _window()),
        acts,
        key=State.revision.to_string(),
        on_submit=State.save,
        class_name="ry-pb",
        style={"display": "grid", "gap": "16px"},
    )
    text = "How runners move to a new version. A runner finishes its jobs first. Nothing is interrupted."
    return settings_panel("Updates", text, rx.fragment(), or_problem(State, "The policy", form))
