"""The shared parts of tables: heads, cells, the frame that becomes cards on a narrow screen, pages, and the search beside them."""

from collections.abc import Callable
from typing import Any

import reflex as rx

from app.ui.controls import icon, plain_button, quiet_button, small_button

Hold = Callable[[bool], rx.event.EventType[()]]


def cell(*children: Any, class_name: str = "", **props: Any) -> rx.Component:
    """A table cell that keeps its role when rows become cards."""
    return rx.el.td(*children, role="cell", class_name=class_name, **props)


def heads(*labels: tuple[Any, ...]) -> rx.Component:
    """A table's head, from labels, their classes and who sees them; 'Actions' is read, not seen."""

    def head(label: str, side: str, when: Any = None) -> rx.Component:
        words = rx.el.span(label, class_name="sr") if label == "Actions" else label
        made = rx.el.th(words, role="columnheader", scope="col", class_name=side)
        return made if when is None else rx.cond(when, made)

    return rx.el.thead(rx.el.tr(*(head(*each) for each in labels), role="row"))


def bare_table(label: Any, head: rx.Component, body: Any, *, class_name: str = "", **props: Any) -> rx.Component:
    """A table that becomes cards on a narrow screen, without the frame that lets it scroll."""
    classes = f"ry-t cards {class_name}".strip()
    return rx.el.table(head, rx.el.tbody(body), class_name=classes, role="table", aria_label=label, **props)


def table(label: Any, head: rx.Component, body: Any, *, is_reached_by_keys: bool = False, **props: Any) -> rx.Component:
    """A table in its frame; one without anything to act on is itself reached, so that keys can scroll it."""
    frame: dict[str, Any] = {"tab_index": 0, "role": "group", "aria_label": label} if is_reached_by_keys else {}
    return rx.el.div(bare_table(label, head, body, **props), class_name="ry-tw", **frame)


def turns(before: str, after: str, on_turn: Any, *, is_first: Any, is_last: Any) -> rx.Component:
    """The two buttons that turn a table's pages."""
    return rx.fragment(
        small_button(icon("chevron-left"), before, on_click=on_turn(-1), disabled=is_first),
        small_button(after, icon("chevron-right"), on_click=on_turn(1), disabled=is_last),
    )


def page_foot(
    state: Any, size: int, total: rx.Var[int], *beside: rx.Component, words: tuple[str, str] = ("Previous", "Next")
) -> rx.Component:
    """The line under a table of a state with pages: '1–50 of 120', and the buttons that turn them where there is more than one."""
    first = state.page_number * size + 1
    last = state.page_number * size + state.rows.length()
    pages = turns(*words, state.turn_page, is_first=first <= 1, is_last=last >= total)
    return rx.el.div(
        rx.el.span(rx.cond(total > 0, f"{first}–{last} of {total}", ""), class_name="num"),
        rx.el.span(class_name="grow"),
        *beside,
        rx.cond(total > size, pages),
        class_name="ry-foot",
    )


def older_foot(state: Any, *beside: rx.Component) -> rx.Component:
    """The line under a log that is read from its newest entry on: the buttons that turn to older ones and back."""
    pages = turns("Newer", "Older", state.turn, is_first=state.before.length() == 0, is_last=~state.has_older)
    return rx.el.div(*beside, rx.el.span(class_name="grow"), pages, class_name="ry-foot")


def more_button(is_all: Any, on_click: Any) -> rx.Component:
    """The button under a list that shows the rest of it, or only the first few again."""
    return quiet_button(rx.cond(is_all, "Show fewer", "Show all"), on_click=on_click)


def more_foot(more: rx.Var[int], is_all: rx.Var[bool], on_click: Any) -> rx.Component:
    """The foot of a list that shows its first few; none where these are all."""
    foot = rx.el.div(
        rx.el.span(rx.cond(is_all, "", more.to_string() + " more"), class_name="num"),
        rx.el.span(class_name="grow"),
        more_button(is_all, on_click),
        class_name="ry-foot",
    )
    return rx.cond((more > 0) | is_all, foot)


def show_all(on_clear: Any, **props: Any) -> rx.Component:
    """A button that shows everything again; runyard.js empties the search with it."""
    attrs = {"data-clear": "", **props.pop("custom_attrs", {})}
    return plain_button("Show all", on_click=on_clear, custom_attrs=attrs, **props)


def search_box(
    key: str, label: str, on_search: Any, on_clear: Any, *, value: Any = "", class_name: str = "ry-search", **props: Any
) -> rx.Component:
    """A search that `/` goes to and Escape clears; `on_search` waits until the typing pauses."""
    clear = rx.el.button("Clear", on_click=on_clear, custom_attrs={"data-clear": ""}, tab_index=-1)
    return rx.input(
        rx.input.slot(icon("search")),
        rx.input.slot(rx.el.kbd("/", class_name="rt-Kbd"), side="right", class_name="hide-s"),
        rx.input.slot(clear, side="right", class_name="sr"),
        id=key,
        default_value=value,
        on_change=on_search.debounce(150),
        aria_label=label,
        class_name=class_name,
        auto_complete="off",
        custom_attrs={"data-search": "", "spellCheck": "false"},
        **{"placeholder": label, **props},
    )


def _switch(name: str, event: rx.event.EventType[()]) -> rx.Component:
    return rx.el.button(type="button", hidden=True, on_click=event, custom_attrs={"data-hold": name})


def holding(table: rx.Component, on_hold: Hold, is_held: rx.Var[bool]) -> rx.Component:
    """Hold new rows back while somebody is at the table: assets/runyard.js calls `on_hold`, `is_held` confirms it."""
    switches = (_switch("on", on_hold(True)), _switch("off", on_hold(False)))
    return rx.el.div(table, *switches, class_name="ry-tw", custom_attrs={"data-held": is_held})


def fresh_button(count: rx.Var[int], on_show: rx.event.EventType[()]) -> rx.Component:
    """Show how many rows wait, and a button that adds them."""
    button = small_button(icon("arrow-up"), count, " new", on_click=on_show)
    return rx.cond(count > 0, button)
