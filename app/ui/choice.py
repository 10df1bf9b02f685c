"""One of a few: a list that opens, segments side by side, a menu."""

from collections.abc import Mapping
from typing import Any

import reflex as rx


def choice(
    label: Any, options: Mapping[str, str] | Any, *more: Any, width: Any = "100%", key: Any = None, **props: Any
) -> rx.Component:
    """A list that opens; the options are words by value, or items."""
    items = [options]
    if isinstance(options, Mapping):
        items = [rx.select.item(words, value=value) for value, words in options.items()]
    look = {name: value for name, value in {"width": width, "id": key}.items() if value is not None}
    return rx.select.root(rx.select.trigger(aria_label=label, **look), rx.select.content(*items, *more), **props)


def offered(rows: Any, words: str = "name", value: str = "id") -> rx.Component:
    """The options of a list that opens, from rows."""
    return rx.foreach(rows, lambda row: rx.select.item(row[words], value=row[value]))


def segments(label: str, options: Mapping[str, Any], **props: Any) -> rx.Component:
    """Segments side by side, as words by value."""
    items = [rx.segmented_control.item(words, value=value) for value, words in options.items()]
    return rx.segmented_control.root(*items, aria_label=label, **props)


def dropdown(trigger: rx.Component, *items: Any, **props: Any) -> rx.Component:
    """A menu that a button opens."""
    content = rx.dropdown_menu.content(*items, variant="soft", color_scheme="gray", **props)
    return rx.dropdown_menu.root(rx.dropdown_menu.trigger(trigger), content)
