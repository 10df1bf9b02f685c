"""Copy buttons that confirm the copy."""

from typing import Any

import reflex as rx

from app.ui.button import icon_button, quiet_button
from app.ui.elements import secret
from app.ui.icons import icon


def _what(text: rx.Var[str] | str, owner: rx.Var[str] | str) -> dict[str, Any]:
    return {"data-copy": text, "data-owner": owner}


def copy_button(
    text: rx.Var[str] | str, label: str, on_copy: rx.event.EventType[()] | None = None, owner: rx.Var[str] | str = ""
) -> rx.Component:
    """Copy a text to the clipboard; runyard.js does it and shows 'Copied' for a moment.

    `owner` names the runner whose token replaces %TOKEN% in the text.
    """
    handlers: dict[str, Any] = {"on_click": on_copy} if on_copy is not None else {}
    return quiet_button(icon("copy"), rx.el.span("Copy"), aria_label=label, custom_attrs=_what(text, owner), **handlers)


def copy_icon(
    text: rx.Var[str] | str,
    label: rx.Var[str] | str,
    on_copy: rx.event.EventType[()] | None = None,
    owner: rx.Var[str] | str = "",
) -> rx.Component:
    """Copy a text with a button that is only an icon."""
    handlers: dict[str, Any] = {"on_click": on_copy} if on_copy is not None else {}
    return icon_button("copy", label, custom_attrs=_what(text, owner), **handlers)


def code_block(
    text: rx.Var[str] | str, label: str, on_copy: rx.event.EventType[()] | None = None, owner: rx.Var[str] | str = ""
) -> rx.Component:
    """Show a command as plain text with a copy button; `owner` as for copy_button."""
    shown = secret(owner, text) if isinstance(owner, rx.Var) else text
    return rx.el.div(
        rx.el.pre(shown, tab_index=0),
        rx.el.span(copy_icon(text, label, on_copy, owner), class_name="cp"),
        class_name="ry-code",
    )


def once_line(label: str, shown: rx.Component, button: rx.Component) -> rx.Component:
    """A line of what is shown once: its label, itself, and its copy button."""
    return rx.el.div(rx.el.span(label, class_name="k"), shown, button, class_name="ry-sec1")


def secret_line(label: Any, owner: rx.Var[str], copy_label: str, **attrs: str) -> rx.Component:
    """The line of a secret, which the browser puts there and copies; no state has it."""
    shown = secret(owner, "%TOKEN%", class_name="ry-el", custom_attrs=attrs)
    return once_line(label, shown, copy_button("%TOKEN%", copy_label, owner=owner))
