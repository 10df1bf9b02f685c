"""The head of a sheet: title, one sentence, and the way out."""

import reflex as rx

from app.ui.icons import icon


def sheet_head(title: rx.Var[str] | str, about: rx.Var[str] | str, on_close: rx.event.EventType[()]) -> rx.Component:
    """Write it; the button closes the sheet as Escape does."""
    close = rx.icon_button(
        icon("x"),
        on_click=on_close,
        variant="ghost",
        color_scheme="gray",
        size="1",
        type="button",
        aria_label="Close",
        title="Close",
    )
    return rx.el.div(
        rx.el.div(
            rx.drawer.title(title, as_child=False, class_name="ry-sheet-title"),
            rx.drawer.description(about, class_name="mut"),
            class_name="grow",
        ),
        close,
        class_name="ry-sh",
    )
