"""The page of roles."""

import reflex as rx

from app.frame.layout import admin_button
from app.frame.session import SessionState
from app.settings.components.settings_page import settings_page
from app.settings.state.roles import TICKED, RolesState, RoleView
from app.ui.form.elements import Fields, check_field, form_dialog, problem_line
from app.ui.resource import Act, Column, removal, resource_panel, row_menu, strong

State = RolesState


def _verbs(row: rx.Var[RoleView]) -> rx.Component:
    verbs = row["verbs"].to(list[str])
    head = rx.el.summary(rx.cond(verbs.length() == 1, "1 verb", verbs.length().to_string() + " verbs"))
    return rx.el.details(head, rx.el.span(verbs.join(", "), class_name="ry-mono ry-breaks sm"))


COLUMNS = (
    Column("Name", strong("name"), "n-a"),
    Column("About", "about", "mut wrap n-c"),
    Column("May", _verbs, "wrap n-c"),
    Column("Made by", lambda row: rx.cond(row["is_own"], "You", "Runyard"), "mut hide-s"),
    Column(
        "Actions",
        row_menu(
            Act("pencil", "Edit", State.edit),
            Act("trash-2", "Delete", State.ask_remove, is_danger=True),
            may=lambda row: SessionState.can_admin & row["is_own"].to(bool),
        ),
        "r n-d",
    ),
)


def _tick(verb: rx.Var[str]) -> rx.Component:
    is_in = State.chosen["verbs"].to(list[str]).contains(verb)
    return check_field(verb, name=TICKED + verb, default_checked=is_in, key=verb)


def _fields() -> list[rx.Component]:
    text = Fields(State).text
    return [
        text(
            "name",
            "Name",
            "Lower-case letters, digits and hyphens.",
            disabled=~State.is_new,
            placeholder="release-manager",
        ),
        text("description", "Description", "One sentence for those who give it."),
        rx.el.div(
            rx.el.div(rx.foreach(State.offered, _tick), class_name="ry-ticks", role="group", aria_label="May"),
            rx.cond(State.errors.contains("verbs"), problem_line("verbs", State.errors["verbs"])),
            class_name="ry-f",
        ),
    ]


def roles() -> rx.Component:
    about = "What a role may do. Give it at a group or module: Access on its page."
    text = "A name for verbs. You can tick what you may do yourself in the whole organisation."
    add = admin_button("Add role", "plus", State.add)
    return settings_page(
        "roles",
        resource_panel(State, "Roles", about, COLUMNS, rx.fragment(), add=add),
        dialogs=[
            form_dialog(State, "Add role", text, _fields()),
            removal(State, "Delete", "Only a role that nobody has can be deleted.", "Delete role"),
        ],
    )
