"""Which other modules' jobs may read a module's outputs."""

import reflex as rx

from app.frame.session import SessionState
from app.modules.state.grants import ModuleGrantsState
from app.modules.view.grants import Reader
from app.ui.elements import ago
from app.ui.icons import icon

State = ModuleGrantsState


def _reader(reader: rx.Var[Reader]) -> rx.Component:
    revoke = rx.icon_button(
        icon("x"),
        on_click=State.revoke(reader["id"].to(str)),
        variant="ghost",
        color_scheme="gray",
        size="1",
        aria_label="Stop " + reader["path"].to(str) + " from reading",
        title="Revoke",
    )
    return rx.el.li(
        rx.el.div(
            rx.link(
                reader["path"], href="/dashboard/modules?path=" + reader["path"].to(str), class_name="ry-a ry-mono"
            ),
            rx.el.small(ago(reader["since"].to(str))),
            class_name="grow",
        ),
        rx.cond(SessionState.can_admin, revoke, rx.fragment()),
        key=reader["id"].to(str),
    )


def _add() -> rx.Component:
    """A field for the path of the module that reads."""
    return rx.form(
        rx.input(
            name="reader",
            placeholder="apps/site",
            aria_label="Path of the module that reads",
            required=True,
            auto_complete="off",
            class_name="grow ry-mono",
            custom_attrs={"spellCheck": "false"},
        ),
        rx.button("Grant", type="submit", variant="surface", color_scheme="gray"),
        on_submit=State.grant,
        class_name="ry-row ry-pb",
        key=State.revision.to_string(),
    )


def output_readers() -> rx.Component:
    """The readers, for everybody; giving and taking is for admins, as the database has it."""
    about = "Jobs of these modules read the outputs (terraform_remote_state), and nothing else of the state."
    panel = rx.el.section(
        rx.el.div(
            rx.el.h2("Readers of the outputs"),
            rx.el.span(State.readers.length(), class_name="mut num"),
            class_name="ry-ph",
        ),
        rx.el.div(about, class_name="ry-pb mut"),
        rx.el.ul(rx.foreach(State.readers, _reader), class_name="ry-list"),
        rx.cond(SessionState.can_admin, _add(), rx.fragment()),
        class_name="ry-panel",
        aria_label="Readers of the outputs",
        custom_attrs={"data-testid": "output-readers"},
    )
    return rx.cond(SessionState.can_admin | (State.readers.length() > 0), panel, rx.fragment())
