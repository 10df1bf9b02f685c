"""Tables in which new rows wait while somebody is at them; assets/runyard.js watches the pointer and the focus."""

from collections.abc import Callable

import reflex as rx

from app.shared.icons import icon

Hold = Callable[[bool], rx.event.EventType[()]]


def _switch(name: str, event: rx.event.EventType[()]) -> rx.Component:
    return rx.el.button(type="button", hidden=True, on_click=event, custom_attrs={"data-hold": name})


def holding(table: rx.Component, on_hold: Hold, is_held: rx.Var[bool]) -> rx.Component:
    """Wrap a table; `on_hold` is told when somebody comes to it and when they leave, `is_held` says that it was heard."""
    switches = (_switch("on", on_hold(True)), _switch("off", on_hold(False)))
    return rx.el.div(table, *switches, class_name="ry-tw", custom_attrs={"data-held": is_held})


def fresh_button(count: rx.Var[int], on_show: rx.event.EventType[()]) -> rx.Component:
    """Say how many rows wait, and let them in."""
    button = rx.button(
        icon("arrow-up"), count, " new", on_click=on_show, variant="surface", color_scheme="gray", size="1"
    )
    return rx.cond(count > 0, button, rx.fragment())
