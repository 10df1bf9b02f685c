"""Sheets over the page's right side, and dialogs that ask before something is done: one look, whatever they ask."""

from collections.abc import Sequence
from typing import Any

import reflex as rx

from app.ui.controls import act_button, icon, icon_button, plain_button

PLACE: dict[str, Any] = {"left": "auto", "right": "8px", "top": "8px", "bottom": "8px"}


def cancel(on_cancel: Any, label: str = "Cancel") -> rx.Component:
    """The button that keeps things as they are."""
    return plain_button(label, type="button", on_click=on_cancel)


def dialog_acts(*buttons: rx.Component) -> rx.Component:
    return rx.el.div(*buttons, class_name="ry-acts ry-dialog-acts")


def alert(
    title: Any, text: Any, *inside: rx.Component, is_open: Any, on_escape: Any = None, width: str = "440px"
) -> rx.Component:
    """A dialog that waits for an answer: a click beside it does not close it, nor Escape where nothing is given for it."""
    return rx.alert_dialog.root(
        rx.alert_dialog.content(
            rx.alert_dialog.title(title, size="4", margin_bottom="6px"),
            rx.alert_dialog.description(text, size="2", class_name="mut"),
            *inside,
            max_width=width,
            **({"on_escape_key_down": on_escape} if on_escape is not None else {}),
        ),
        open=is_open,
    )


def question(
    *inside: rx.Component,
    is_open: Any,
    title: Any,
    text: Any,
    act: Any,
    on_act: Any,
    on_keep: Any,
    is_danger: bool = True,
    is_disabled: Any = False,
    keep: str = "Cancel",
) -> rx.Component:
    go = act_button(act, is_danger=is_danger, on_click=on_act, disabled=is_disabled)
    return alert(title, text, *inside, dialog_acts(cancel(on_keep, keep), go), is_open=is_open, on_escape=on_keep)


def dialog_field(key: str, label: str, control: rx.Component, *below: Any) -> rx.Component:
    """A field of a dialog: its label, its control, and hints below it."""
    return rx.el.div(rx.el.label(label, html_for=key), control, *below, class_name="ry-f ry-dialog-field")


def dialog_input(key: str, label: str, *below: Any, **props: Any) -> rx.Component:
    """A line of text in the form of a dialog; the last part of its id is its name."""
    return dialog_field(key, label, rx.input(id=key, name=key.rpartition("-")[2], **props), *below)


def error_line(error: Any, test_id: str) -> rx.Component:
    """The problem of a dialog's form."""
    said = rx.el.p(error, class_name="t-red sm", role="alert", custom_attrs={"data-testid": test_id})
    return rx.cond(error != "", said)


def typed_field(
    key: str, *label: Any, value: Any, on_change: Any, class_name: str = "ry-f ry-dialog-field", **props: Any
) -> rx.Component:
    """A field whose text, such as a name, must be typed to confirm an act."""
    text = rx.input(
        id=key, value=value, on_change=on_change, auto_complete="off", custom_attrs={"spellCheck": "false"}, **props
    )
    return rx.el.div(rx.el.label(*label, html_for=key), text, class_name=class_name)


def dialog(
    title: Any, text: Any, *inside: Any, is_open: Any, on_open_change: Any, width: str = "520px", **props: Any
) -> rx.Component:
    """A dialog that Escape and a click beside it close."""
    content = rx.dialog.content(
        rx.dialog.title(title, size="4", margin_bottom="6px"),
        rx.dialog.description(text, size="2", class_name="mut"),
        *inside,
        max_width=width,
        **props,
    )
    return rx.dialog.root(content, open=is_open, on_open_change=on_open_change)


def secret_dialog(
    *more: rx.Component, owner: Any, title: str, text: Any, lines: Sequence[rx.Component], on_close: Any
) -> rx.Component:
    """Show something once; it closes by its own button only."""
    return alert(
        title,
        text,
        rx.el.div(*lines, class_name="ry-code ry-dialog-field"),
        *more,
        dialog_acts(act_button(icon("check"), "Done", on_click=on_close)),
        is_open=owner != "",
        width="560px",
    )


def sheet(state: Any, is_open: Any, title: Any, about: Any, *inside: Any) -> rx.Component:
    """A sheet with its title, one sentence, and the way out, which does as Escape does."""
    words = rx.el.div(
        rx.drawer.title(title, as_child=False, class_name="ry-sheet-title"),
        rx.drawer.description(about, class_name="mut"),
        class_name="grow",
    )
    head = rx.el.div(words, icon_button("x", "Close", state.set_open(False), type="button"), class_name="ry-sh")
    content = rx.drawer.content(head, *inside, class_name="ry-sheet", custom_attrs={"data-vaul-no-drag": ""}, **PLACE)
    return rx.drawer.root(
        rx.drawer.portal(rx.drawer.overlay(background="var(--ry-scrim)", z_index="40"), content),
        open=is_open,
        on_open_change=state.set_open,
        direction="right",
        handle_only=True,
    )


def sheet_form(state: Any, act: Any, *fields: rx.Component, on_submit: Any) -> rx.Component:
    """The form of a sheet; Cancel closes it without saving."""
    wrong = rx.el.span("Fix the highlighted fields.", class_name="err sm", role="status")
    foot = rx.el.div(
        rx.cond(state.errors.length() > 0, wrong),
        rx.el.span(class_name="grow"),
        cancel(state.set_open(False)),
        act_button(act, type="submit"),
        class_name="ry-sf",
    )
    body = rx.el.div(*fields, class_name="ry-sb")
    return rx.form(body, foot, on_submit=on_submit, class_name="ry-sheet-form", key=state.revision.to_string())


def form_sheet(state: Any, title: Any, about: str, act: Any, fields: Sequence[rx.Component]) -> rx.Component:
    """The form of an item in a sheet."""
    return sheet(state, state.is_open, title, about, sheet_form(state, act, *fields, on_submit=state.save))
