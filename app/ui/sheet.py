"""The head of a sheet: title, one sentence, and the way out."""

import reflex as rx

from app.ui.button import icon_button


def sheet_head(title: rx.Var[str] | str, about: rx.Var[str] | str, on_close: rx.event.EventType[()]) -> rx.Component:
    """Write it; the button closes the sheet as Escape does."""
    close = icon_button("x", "Close", on_close, type="button")
    return rx.el.div(
        rx.el.div(
            rx.drawer.title(title, as_child=False, class_name="ry-sheet-title"),
            rx.drawer.description(about, class_name="mut"),
            class_name="grow",
        ),
        close,
        class_name="ry-sh",
    )
