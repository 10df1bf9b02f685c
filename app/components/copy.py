"""Copy buttons that say that they copied."""

import reflex as rx

from app.components.icons import icon


def copy_button(
    text: rx.Var[str] | str, label: str, on_copy: rx.event.EventType[()] | None = None
) -> rx.Component:
    """Copy a text to the clipboard; runyard.js does it and shows 'Copied' for a moment."""
    handlers = {"on_click": on_copy} if on_copy is not None else {}
    return rx.button(
        icon("copy"),
        rx.el.span("Copy"),
        variant="ghost",
        color_scheme="gray",
        size="1",
        aria_label=label,
        custom_attrs={"data-copy": text},
        **handlers,
    )


def copy_icon(text: rx.Var[str] | str, label: str) -> rx.Component:
    """Copy a text with a button that is only an icon."""
    return rx.icon_button(
        icon("copy"),
        variant="ghost",
        color_scheme="gray",
        size="1",
        aria_label=label,
        title=label,
        custom_attrs={"data-copy": text},
    )


def code_block(text: rx.Var[str] | str, label: str) -> rx.Component:
    """Show a command as plain text with a copy button."""
    return rx.el.div(
        rx.el.div(copy_icon(text, label), class_name="cp"),
        rx.el.pre(text, tab_index=0),
        class_name="ry-code",
    )
