"""The panel of the other modules whose jobs may read a module's outputs."""

import reflex as rx

from app.frame.pick import picks
from app.frame.session import may
from app.modules.components.dependencies import linked_module, unlink_button
from app.modules.state.grants import ModuleGrantsState, Reader
from app.ui.controls import plain_button
from app.ui.elements import ago
from app.ui.form.elements import exact_input
from app.ui.panel import titled_panel

State = ModuleGrantsState


def _reader(reader: rx.Var[Reader]) -> rx.Component:
    label = "Stop " + reader["path"].to(str) + " from reading"
    revoke = unlink_button(label, "Revoke", State.revoke(reader["id"].to(str)))
    since = rx.el.small(ago(reader["since"].to(str)))
    return linked_module(reader, since, action=rx.cond(may("state.write"), revoke))


def _add() -> rx.Component:
    return rx.form(
        exact_input(
            name="reader",
            placeholder="apps/site",
            aria_label="Path of the module that reads",
            required=True,
            class_name="grow ry-mono",
            **picks("modules"),
        ),
        plain_button("Grant", type="submit"),
        on_submit=State.grant,
        class_name="ry-row ry-pb",
        key=State.revision.to_string(),
    )


def output_readers() -> rx.Component:
    """The panel of readers, for everybody; only admins grant and revoke access, as in the database."""
    about = "These modules can read the outputs (terraform_remote_state), not the state."
    panel = titled_panel(
        "Output access",
        rx.el.span(State.readers.length(), class_name="mut num"),
        rx.el.div(about, class_name="ry-pb mut"),
        rx.el.ul(rx.foreach(State.readers, _reader), class_name="ry-list"),
        rx.cond(may("state.write"), _add()),
        custom_attrs={"data-testid": "output-readers"},
    )
    return rx.cond(may("state.write") | (State.readers.length() > 0), panel)
