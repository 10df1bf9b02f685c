"""The sheet that a schedule or a rule is written in."""

from collections.abc import Sequence
from typing import Any

import reflex as rx

from app.ui.button import act_button, plain_button
from app.ui.sheet import sheet_head


def form_sheet(state: Any, title: Any, about: str, act: Any, fields: Sequence[rx.Component]) -> rx.Component:
    """A form over the page's right side; Escape and Cancel close it without saving."""
    place: dict[str, Any] = {"left": "auto", "right": "8px", "top": "8px", "bottom": "8px"}
    leave = plain_button("Cancel", type="button", on_click=state.set_open(False))
    wrong = rx.el.span("Fix the highlighted fields.", class_name="err sm", role="status")
    form = rx.form(
        rx.el.div(*fields, class_name="ry-sb"),
        rx.el.div(
            rx.cond(state.errors.length() > 0, wrong),
            rx.el.span(class_name="grow"),
            leave,
            act_button(act, type="submit"),
            class_name="ry-sf",
        ),
        on_submit=state.save,
        class_name="ry-sheet-form",
        key=state.revision.to_string(),
    )
    return rx.drawer.root(
        rx.drawer.portal(
            rx.drawer.overlay(background="var(--ry-scrim)", z_index="40"),
            rx.drawer.content(
                sheet_head(title, about, state.set_open(False)),
                form,
                class_name="ry-sheet",
                custom_attrs={"data-vaul-no-drag": ""},
                **place,
            ),
        ),
        open=state.is_open,
        on_open_change=state.set_open,
        direction="right",
        handle_only=True,
    )


def choice(label: str, value: Any, on_change: Any, options: dict[str, str], **props: Any) -> rx.Component:
    """One of a few."""
    return rx.select.root(
        rx.select.trigger(aria_label=label, width="100%"),
        rx.select.content(*[rx.select.item(words, value=key) for key, words in options.items()]),
        value=value,
        on_change=on_change,
        **props,
    )
