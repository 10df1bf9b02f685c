"""Panels with items: title, one sentence, what can be done, the table, and each row's menu."""

from typing import Any

import reflex as rx

from app.ui.button import icon_button
from app.ui.feedback import failed
from app.ui.icons import icon


def settings_panel(title: str, text: str, aside: rx.Component, *children: rx.Component) -> rx.Component:
    """A panel with its title, one sentence and what can be done."""
    return rx.el.section(
        rx.el.div(
            rx.el.div(rx.el.h2(title), rx.el.p(text, class_name="sm"), class_name="grow"), aside, class_name="ry-ph"
        ),
        *children,
        class_name="ry-panel",
        aria_label=title,
    )


def titled_panel(title: str, aside: Any = None, *children: Any, **props: Any) -> rx.Component:
    """A panel with its title, and what is beside it: nothing, one component, or several."""
    asides = () if aside is None else aside if isinstance(aside, tuple) else (aside,)
    head = rx.el.div(rx.el.h2(title), *asides, class_name="ry-ph")
    return rx.el.section(head, *children, class_name="ry-panel", aria_label=title, **props)


def or_problem(state: Any, what: str, body: rx.Component, *, is_page: bool = False) -> rx.Component:
    """The body, or what went wrong while it was loaded; in a panel of its own where it is all of a page."""
    problem = failed(f"{what} could not be loaded", state.problem, state.problem_hint, state.load)
    return rx.cond(state.problem != "", rx.el.section(problem, class_name="ry-panel") if is_page else problem, body)


def menu(label: Any, *items: rx.Component) -> rx.Component:
    """A row's menu."""
    trigger = icon_button("ellipsis", label, title="More actions", custom_attrs={"data-menu": ""})
    return rx.dropdown_menu.root(
        rx.dropdown_menu.trigger(trigger),
        rx.dropdown_menu.content(*items, align="end", variant="soft", color_scheme="gray"),
    )


def menu_item(icon_name: str, label: Any, event: Any, **props: Any) -> rx.Component:
    """An entry of a row's menu."""
    return rx.dropdown_menu.item(icon(icon_name), rx.el.span(label, class_name="grow"), on_select=event, **props)
