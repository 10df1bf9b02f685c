"""The palette's field in the top bar, and its dialog; assets/palette.js moves the choice and presses keys afterwards."""

from typing import Any

import reflex as rx

from app.frame.palette.state import PaletteState
from app.frame.palette.view import ICONS, Group, Item
from app.ui.badges import status_mark
from app.ui.controls import icon, known_icon, page_link, small_button
from app.ui.elements import ago


def palette_button() -> rx.Component:
    """The field in the top bar that opens it."""
    return small_button(
        icon("search"),
        rx.el.span("Search or run a command", class_name="hide-s mut", style={"font_weight": "400"}),
        rx.el.kbd("Ctrl K", class_name="rt-Kbd hide-s"),
        on_click=PaletteState.show,
        aria_label="Search or run a command",
        custom_attrs={"data-palette": "", "aria-keyshortcuts": "Control+K", "data-testid": "palette-open"},
    )


def _item(item: rx.Var[Item]) -> rx.Component:
    line = (
        known_icon(item["icon"], ICONS, "search"),
        rx.el.span(item["text"], class_name="ry-el"),
        rx.el.span(
            rx.cond(item["status"] != "", status_mark(item["status"].to(str))),
            item["aside"],
            rx.cond(item["at"] != "", ago(item["at"].to(str), class_name="hide-s")),
            class_name="w num",
        ),
    )
    props: dict[str, Any] = {
        "class_name": "rt-reset ry-pi",
        "id": "pal-" + item["id"].to(str),
        "role": "option",
        "tab_index": -1,
        "on_click": PaletteState.set_open(False),
        "custom_attrs": {"data-pal": "", "data-then": item["key"], "aria-selected": "false"},
    }
    leads = page_link(*line, href=item["href"], underline="none", **props)
    return rx.cond(item["href"] != "", leads, rx.el.button(*line, type="button", **props))


def _group(group: rx.Var[Group]) -> rx.Component:
    return rx.el.div(
        # Said by the group's name; a list of options has no headings.
        rx.el.h3(group["title"], rx.el.span(group["said"], class_name="num"), role="presentation", aria_hidden="true"),
        rx.foreach(group["items"].to(list[Item]), _item),
        role="group",
        aria_label=group["title"],
    )


def _nothing() -> rx.Component:
    text = rx.cond(
        PaletteState.problem != "", PaletteState.problem, "Names, paths, labels and job numbers are searched."
    )
    return rx.el.div(
        rx.el.b("No matches for “" + PaletteState.text + "”", style={"font_weight": "500"}),
        rx.el.p(text, class_name="mut"),
        style={"padding": "28px 16px", "text_align": "center"},
        custom_attrs={"data-testid": "palette-nothing"},
    )


def palette() -> rx.Component:
    """The dialog: a field, and what was found."""
    field = rx.el.input(
        type="text",
        placeholder="Search, or type a command: plan, apply, drain…",
        aria_label="Search or run a command",
        on_change=PaletteState.search_for.debounce(150),
        auto_complete="off",
        auto_focus=True,
        role="combobox",
        custom_attrs={
            "data-pal-input": "",
            "spellCheck": "false",
            "aria-controls": "ry-pal-list",
            "aria-expanded": "true",
            "aria-autocomplete": "list",
        },
    )
    keys = (("↑ ↓", "Move"), ("Enter", "Open"), ("Ctrl Enter", "New tab"), (">", "Actions only"), ("Esc", "Close"))
    foot = [rx.el.span(rx.el.kbd(key, class_name="rt-Kbd"), word, class_name="k") for key, word in keys]
    return rx.dialog.root(
        rx.dialog.content(
            rx.dialog.title("Search or run a command", class_name="sr"),
            rx.dialog.description("Modules, runners, jobs and actions.", class_name="sr"),
            rx.el.div(icon("search"), field, class_name="ry-pin"),
            rx.el.div(
                rx.foreach(PaletteState.groups, _group),
                rx.cond(PaletteState.groups.length() == 0, _nothing()),
                class_name="ry-pls",
                id="ry-pal-list",
                role="listbox",
                aria_label="Found",
            ),
            rx.el.div(*foot, class_name="ry-pf"),
            class_name="ry-pal",
            max_width="640px",
            custom_attrs={"data-testid": "palette"},
        ),
        open=PaletteState.is_open,
        on_open_change=PaletteState.set_open,
    )
