"""Other modules that a module is linked to, as rows of a list."""

from typing import Any

import reflex as rx

from app.ui.button import icon_button
from app.ui.link import page_link


def linked_module(one: Any, *lines: rx.Component, action: rx.Component) -> rx.Component:
    """A row: the other module's path, lines about it, and what can be done."""
    path = one["path"].to(str)
    link = page_link(path, href="/dashboard/modules?path=" + path, class_name="ry-a ry-mono ry-breaks")
    return rx.el.li(rx.el.div(link, *lines, class_name="grow"), action, key=one["id"].to(str))


def unlink_button(label: Any, title: str, event: Any) -> rx.Component:
    return icon_button("x", label, event, title=title)
