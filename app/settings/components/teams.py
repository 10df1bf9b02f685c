"""The teams on the page of members."""

import reflex as rx

from app.frame.layout import admin_button
from app.frame.session import SessionState
from app.settings.state.members import MembersState
from app.settings.state.teams import Person, TeamsState
from app.ui.controls import act_button
from app.ui.dialog import alert, dialog_acts
from app.ui.form.elements import dialog_form, text_field
from app.ui.panel import empty, settings_panel
from app.ui.resource import Act, Column, moment, removal, row_menu, strong, waiting_table

State = TeamsState
COLUMNS = (
    Column("Name", strong("name"), "n-a"),
    Column("Members", "count", "r num n-b"),
    Column("Created", moment("since"), "r mut num n-c"),
    Column(
        "Actions",
        row_menu(
            Act("users", "Members", State.choose),
            Act("trash-2", "Delete", State.ask_remove, is_danger=True),
            may=SessionState.can_admin,
        ),
        "r n-d",
    ),
)


def teams_panel() -> rx.Component:
    text = "With one, several members get a role at a group or module together."
    none = empty("users", "No teams yet", text)
    waiting = MembersState.is_loading & (State.rows.length() == 0)
    return settings_panel(
        "Teams",
        "Members that get roles at paths together. A team itself has none until it is given access.",
        admin_button("Create team", "plus", State.add),
        waiting_table(waiting, State.rows, "Teams", COLUMNS, none, skeleton=1),
    )


def _person(person: rx.Var[Person]) -> rx.Component:
    key, email = person["id"].to(str), person["email"].to(str)
    box = rx.checkbox(
        checked=State.chosen["members"].to(list[str]).contains(key),
        on_change=lambda is_member: State.put(key, is_member),
        aria_label=email,
    )
    return rx.el.label(box, email, class_name="ry-row c6 ry-check ry-breaks", key=key)


def team_dialogs() -> list[rx.Component]:
    names = [text_field("name", "Name", "", State.errors, "Such as sre.", required=True, max_length=63)]
    return [
        dialog_form(State, "Create team", "Without members and roles at first.", names, act="Create"),
        alert(
            rx.fragment("Members of ", State.chosen["name"]),
            "They get each role that the team has. A tick counts at once.",
            rx.el.div(rx.foreach(State.people, _person), class_name="ry-dialog-form ry-ticks wide"),
            dialog_acts(act_button("Done", on_click=State.close)),
            is_open=State.is_choosing,
            on_escape=State.close,
        ),
        removal(State, "Delete", "Its members lose the roles that it has. They stay members.", "Delete team"),
    ]
