"""The dialog that changes a module's state."""

from typing import Any

import reflex as rx

from app.frame.pick import picks
from app.frame.session import may
from app.modules.state.modules import ModulesState
from app.modules.state.state_change import ACTIONS, StateChangeState
from app.ui.controls import act_button, icon, segments, small_button
from app.ui.dialog import alert, cancel, dialog_acts, dialog_field

State = StateChangeState


def change_button() -> rx.Component:
    """Opens the dialog; for admins, where Runyard has a state or may get its first resource."""
    button = small_button(icon("pencil"), "Change", on_click=State.show(True))
    is_possible = (ModulesState.module["backend"] != "own") & ~ModulesState.module["engine"].to(str).contains("Pulumi")
    return rx.cond(may("state.write") & is_possible, button)


def _field(name: str, label: str, hint: str, *, is_long: bool = False, **more: Any) -> rx.Component:
    key, props = f"change-{name}", dict[str, Any](class_name="ry-mono", custom_attrs={"spellCheck": "false"})
    props |= {"id": key, "name": name, "placeholder": hint, "required": True, **more}
    control = rx.text_area(rows="3", **props) if is_long else rx.input(auto_complete="off", **props)
    return dialog_field(key, label, control)


def state_change_dialog() -> rx.Component:
    """The dialog to change the state, with fields for the action and its resources."""
    choice = segments("What to do", ACTIONS, value=State.action, on_change=State.choose)
    address = "aws_instance.web"
    fields = rx.match(
        State.action,
        ("remove", _field("addresses", "Addresses, one per line", address, is_long=True)),
        ("import", rx.fragment(_field("addresses", "Address", address), _field("id", "Provider's id", "i-0abc"))),
        rx.fragment(
            _field("addresses", "From address", address),
            _field("to", "To address", "aws_instance.site"),
            _field("module", "Into another module (optional)", "apps/site", required=False, **picks("modules")),
        ),
    )
    acts = dialog_acts(cancel(State.show(False)), act_button("Queue the change", type="submit"))
    return alert(
        "Change the state",
        "A job on a runner. No infrastructure changes, and the state before stays as a version.",
        rx.el.div(choice, class_name="ry-dialog-field"),
        rx.el.p(State.effect, class_name="mut"),
        rx.form(fields, acts, on_submit=State.submit),
        is_open=State.is_open,
        on_escape=State.show(False),
        width="480px",
    )
