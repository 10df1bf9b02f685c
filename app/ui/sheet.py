"""Sheets over the page's right side, and the form of one."""

from collections.abc import Sequence
from typing import Any

import reflex as rx

from app.ui.button import act_button, icon_button
from app.ui.dialog import cancel

PLACE: dict[str, Any] = {"left": "auto", "right": "8px", "top": "8px", "bottom": "8px"}


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
