"""Schedules: the table of all, the sheet, and the list that a module or group shows."""

import reflex as rx

from app.frame.session import SessionState
from app.triggers.components.marks import run_mark
from app.triggers.components.sheets import choice, form_sheet
from app.triggers.state.schedules import SchedulesState
from app.triggers.view.schedules import ScheduleView
from app.ui.dialog import question
from app.ui.feedback import empty
from app.ui.form.elements import field, problem_line, text_field
from app.ui.icons import icon
from app.ui.panel import item_table, menu, menu_item, settings_panel
from app.ui.table import cell

State = SchedulesState
HEADS = (
    ("On", ""), ("What", ""), ("When", ""), ("Time zone", ""), ("Next", ""), ("Last result", ""), ("Actions", "r"),
)  # fmt: skip
OPERATIONS = {"DRIFT": "Check for drift", "PLAN": "Plan", "APPLY": "Apply", "DESTROY": "Destroy"}
ABOUT = "Jobs that start on a schedule. A module is skipped while its job of the previous run is unfinished."


def _menu(row: rx.Var[ScheduleView]) -> rx.Component:
    key = row["id"].to(str)
    return rx.cond(
        SessionState.can_operate,
        menu(
            "More actions for " + row["name"].to(str),
            menu_item("pencil", "Edit", State.edit(key)),
            menu_item("play", "Run now", State.run_now(key)),
            rx.dropdown_menu.separator(),
            menu_item("trash-2", "Remove", State.ask_remove(key), color_scheme="red"),
        ),
        rx.fragment(),
    )


def _row(row: rx.Var[ScheduleView]) -> rx.Component:
    switch = rx.switch(
        checked=row["is_on"].to(bool),
        on_change=lambda is_on: State.switch(row["id"].to(str), is_on),
        disabled=~SessionState.can_operate,
        size="1",
        aria_label="On: " + row["name"].to(str),
    )
    what = rx.el.span(
        rx.el.span(row["type"], class_name="ry-tag mono"),
        rx.el.span(row["where"], class_name="ry-mono"),
        class_name="ry-row c6",
    )
    note = rx.cond(
        row["last_note"] != "", rx.el.span(row["last_note"], class_name="mut"), run_mark(row["last"].to(str))
    )
    return rx.el.tr(
        cell(switch, class_name="hide-s"),
        cell(what, class_name="n-a"),
        cell(rx.el.span(row["words"], title=row["cron"].to(str)), class_name="n-c"),
        cell(row["zone"], class_name="mut hide-s"),
        cell(rx.el.span(row["next"], title=row["next_at"].to(str)), class_name="num n-d"),
        cell(note, class_name="n-b"),
        cell(_menu(row), class_name="r hide-s"),
        role="row",
        key=row["id"],
        custom_attrs={"data-row": row["id"]},
    )


def _create_button() -> rx.Component:
    button = rx.button(icon("plus"), "Create schedule", on_click=State.add(""), color_scheme="gray", high_contrast=True)
    return rx.cond(SessionState.can_operate, button, rx.fragment())


def schedules_panel() -> rx.Component:
    """All schedules of the organisation."""
    text = rx.cond(
        SessionState.can_operate,
        "Create one to run drift checks and plans regularly.",
        "With one, drift checks and plans run regularly. An operator can create it.",
    )
    none = empty("calendar-clock", "No schedules yet", text)
    return settings_panel("Schedules", ABOUT, _create_button(), item_table(State, "Schedules", HEADS, _row, none))


def _kinds() -> rx.Component:
    kinds = (("Hourly", "hourly"), ("Daily", "daily"), ("Weekly", "weekly"), ("Cron", "cron"))
    return rx.segmented_control.root(
        *[rx.segmented_control.item(words, value=key) for words, key in kinds],
        value=State.kind,
        on_change=State.set_kind,
        aria_label="When",
    )


def _times() -> rx.Component:
    times = rx.el.ol(
        rx.foreach(State.times, lambda each: rx.el.li(rx.el.span(each, class_name="num grow"))),
        class_name="ry-nextruns",
        style={"list_style": "none"},
    )
    wrong = problem_line("times", State.wrong)
    return rx.el.div(
        rx.el.span("Next 5 runs", class_name="ry-lab"), rx.cond(State.wrong != "", wrong, times), class_name="ry-f"
    )


def _line(key: str, value: rx.Var[str], on_change: rx.event.EventType[str], *, is_mono: bool) -> rx.Component:
    return rx.input(
        id=f"s-{key}",
        name=key,
        value=value,
        on_change=on_change,
        auto_complete="off",
        class_name="ry-mono" if is_mono else "",
        custom_attrs={"spellCheck": "false"},
    )


def _fields() -> list[rx.Component]:
    errors = State.errors
    operation = choice("Operation", State.operation, State.set_operation, OPERATIONS)
    return [
        rx.el.div(
            rx.el.div(rx.el.span("Operation", class_name="ry-lab"), operation, class_name="ry-f"),
            text_field(
                "path",
                "Module or group",
                State.chosen["path"],
                errors,
                "Empty: all modules.",
                class_name="ry-mono",
                placeholder="platform/network",
            ),
            class_name="ry-two",
        ),
        rx.el.div(rx.el.span("When", class_name="ry-lab"), _kinds(), class_name="ry-f"),
        rx.el.div(
            field("cron", "Cron", _line("cron", State.cron, State.set_cron, is_mono=True), errors, State.words),
            field(
                "zone",
                "Time zone",
                _line("zone", State.zone, State.set_zone, is_mono=False),
                errors,
                "Follows daylight saving time.",
            ),
            class_name="ry-two",
        ),
        _times(),
    ]


def schedule_dialogs() -> list[rx.Component]:
    """The sheet, and the question before one is removed."""
    title = rx.cond(State.is_new, "Create schedule", "Edit schedule")
    return [
        form_sheet(
            State, title, "Starts jobs at these times.", rx.cond(State.is_new, "Create schedule", "Save"), _fields()
        ),
        question(
            is_open=State.removing != "",
            title=rx.fragment("Remove ", State.removing_name, "?"),
            text="It starts no more jobs. The jobs that it started stay.",
            act="Remove schedule",
            on_act=State.remove,
            on_keep=State.keep,
        ),
    ]
