"""Confirmations about modules, and two versions of a state side by side."""

from typing import Any

import reflex as rx

from app.modules.state.actions import ModuleActionState
from app.modules.view.compare import Difference
from app.ui.controls import act_button, code_block, plain_button
from app.ui.dialog import alert, cancel, dialog, dialog_acts, dialog_input, question, typed_field

State = ModuleActionState


def _question(kind: str, title: Any, text: str, act: str, label: Any) -> rx.Component:
    return question(
        typed_field("module-typed", label, value=State.typed, on_change=State.set_typed),
        is_open=State.kind == kind,
        title=title,
        text=text,
        act=act,
        on_act=State.confirm,
        on_keep=State.close,
        is_disabled=State.typed != State.name,
    )


def _lock() -> rx.Component:
    close = State.ask_lock(False)
    field = dialog_input("lock-reason", "Reason", required=True, max_length=500, auto_complete="off")
    acts = dialog_acts(cancel(close), act_button("Lock module", type="submit"))
    return alert(
        "Lock this module?",
        "Plans still run. Nothing is applied, destroyed or confirmed until somebody unlocks it.",
        rx.form(field, acts, on_submit=State.lock_it),
        is_open=State.is_locking,
        on_escape=close,
    )


def _roll_back() -> rx.Component:
    return question(
        is_open=State.roll_back_to > 0,
        title=rx.fragment("Roll back to serial ", State.roll_back_to, "?"),
        text="That version becomes the newest state. No infrastructure changes: resources created since "
        "then stay, and the state no longer contains them.",
        act="Roll back",
        on_act=State.roll_back,
        on_keep=State.ask_roll_back(0),
    )


def _difference(each: rx.Var[Difference]) -> rx.Component:
    return rx.el.li(
        rx.el.span(each["symbol"], class_name="ry-sym " + each["style"].to(str)),
        rx.el.span(each["address"]),
        rx.el.small(each["word"]),
    )


def _comparison() -> rx.Component:
    same = rx.el.p("Both versions have the same resources with the same values.", class_name="mut ry-dialog-field")
    found = rx.el.ul(rx.foreach(State.differences, _difference), class_name="ry-pl ry-compare")
    return dialog(
        rx.fragment("Serial ", State.older, " to ", State.newer),
        "What differs, by resource. Values are not shown.",
        rx.cond(State.differences.length() > 0, found, same),
        dialog_acts(rx.dialog.close(plain_button("Close"))),
        is_open=State.is_compared,
        on_open_change=State.show_comparison,
        width="560px",
    )


def _part(words: str, text: Any, label: str) -> rx.Component:
    return rx.fragment(rx.el.p(words, class_name="sm ry-dialog-field"), code_block(text, label))


def _terminal() -> rx.Component:
    return dialog(
        "Use from your terminal",
        "With OpenTofu or Terraform. plan uploads your folder and shows the log; apply waits for approvals and checks.",
        rx.cond(State.cloud_host != "", _part("Once, in ~/.terraformrc", State.cloud_host, "Copy the host")),
        _part("Sign in once", State.login, "Copy the sign-in"),
        _part("In the module's code, in place of a backend block", State.cloud, "Copy the block"),
        dialog_acts(rx.dialog.close(plain_button("Close"))),
        is_open=State.cloud != "",
        on_open_change=State.show_terminal,
        width="560px",
    )


def module_dialogs() -> list[rx.Component]:
    to_confirm = rx.fragment("Type ", rx.el.span(State.name, class_name="ry-mono"), " to confirm")
    return [
        _question(
            "remove_module",
            rx.fragment("Remove ", State.name, "?"),
            "Its jobs and logs stay, its assignments are removed. Its resources in the cloud are not destroyed: "
            "destroy it first, to remove them too.",
            "Remove module",
            to_confirm,
        ),
        _question(
            "remove_group",
            rx.fragment("Remove ", State.name, "?"),
            "It has no modules. Its hooks and variables go with it.",
            "Remove group",
            to_confirm,
        ),
        _question(
            "unlock",
            "Unlock the state?",
            "Do this only when nothing writes the state any more. Type the id of the lock as proof that you read it.",
            "Unlock",
            rx.fragment("Lock ", rx.el.span(State.name, class_name="ry-mono")),
        ),
        _lock(),
        _roll_back(),
        _comparison(),
        _terminal(),
    ]
