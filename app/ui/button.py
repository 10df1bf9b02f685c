"""Buttons, each look in one place: a view has one main act, and the others are quieter."""

from collections.abc import Mapping
from typing import Any

import reflex as rx

from app.ui.icons import icon
from app.ui.link import at


def act_button(*label: Any, is_danger: bool = False, **props: Any) -> rx.Component:
    """The view's main act, in ink; in a question, what cannot be undone is red."""
    color: dict[str, Any] = {"color_scheme": "red"} if is_danger else {"color_scheme": "gray", "high_contrast": True}
    return rx.button(*label, **color, **props)


def plain_button(*label: Any, **props: Any) -> rx.Component:
    """Any other act, with an edge."""
    return rx.button(*label, **{"variant": "surface", "color_scheme": "gray", **props})


def small_button(*label: Any, **props: Any) -> rx.Component:
    """A plain act in a row or in the head of a panel."""
    return plain_button(*label, size="1", **props)


def quiet_button(*label: Any, **props: Any) -> rx.Component:
    """An act without an edge, in a row or beside text."""
    return rx.button(*label, variant="ghost", color_scheme="gray", size="1", **props)


def icon_button(icon_name: str, label: Any, on_click: Any = None, *, title: Any = None, **props: Any) -> rx.Component:
    """An act that is an icon alone; its label is its tooltip, unless that is shorter."""
    look = {"variant": "ghost", "color_scheme": "gray", "size": "1", **props}
    if on_click is not None:
        look["on_click"] = on_click
    return rx.icon_button(icon(icon_name), aria_label=label, title=label if title is None else title, **look)


def link_button(*children: Any, href: Any, size: str, attrs: Mapping[str, Any]) -> rx.Component:
    """A link that looks like a plain button."""
    return rx.el.a(
        *children,
        href=at(href),
        class_name=f"rt-reset rt-BaseButton rt-Button rt-r-size-{size} rt-variant-surface",
        custom_attrs={"data-accent-color": "gray", **attrs},
    )
