"""The chips over the table: what to filter by, with true counts, and what is wrong at one click."""

from typing import Any

import reflex as rx

from app.runners.components.health import health_mark
from app.runners.state.runners import RunnersState
from app.runners.view.filters import Choice
from app.ui.controls import dropdown, icon, quiet_button

CHIPS = {"label": "Label", "version": "Version", "region": "Region", "health": "Health"}


def _choices(facet: str) -> rx.Var[list[Choice]]:
    return RunnersState.facets[facet].to(list[Choice])


def _item(facet: str, choice: rx.Var[Choice]) -> rx.Component:
    return rx.dropdown_menu.item(
        rx.cond(choice["is_on"], icon("square-check"), icon("square")),
        rx.el.span(choice["word"], class_name="grow"),
        rx.el.span(choice["count"], class_name="ry-n"),
        on_select=RunnersState.toggle(facet, choice["value"]),
        custom_attrs={"data-facet": facet, "data-value": choice["value"]},
    )


def _chip(facet: str, label: str) -> rx.Component:
    chosen = RunnersState.chosen_words[facet].to(str)
    is_set = chosen != ""
    face = rx.cond(
        is_set, rx.fragment(rx.el.em(label), chosen, icon("chevron-down", "xs")), rx.fragment(icon("plus", "xs"), label)
    )
    clear = rx.dropdown_menu.item("Clear", on_select=RunnersState.clear_facet(facet))
    nothing: Any = rx.dropdown_menu.item("None of your runners has one", disabled=True)
    return dropdown(
        rx.el.button(
            face,
            class_name=rx.cond(is_set, "rt-reset ry-chip set", "rt-reset ry-chip"),
            custom_attrs={"data-testid": f"chip-{facet}"},
        ),
        rx.foreach(_choices(facet), lambda choice: _item(facet, choice)),
        rx.cond(_choices(facet).length() == 0, nothing),
        rx.cond(is_set, rx.fragment(rx.dropdown_menu.separator(), clear)),
        class_name="ry-chip-menu",
    )


def _health(choice: rx.Var[Choice]) -> rx.Component:
    return rx.el.button(
        health_mark(choice["value"], rx.fragment()),
        choice["word"],
        rx.el.span(choice["count"], class_name="ry-n"),
        on_click=RunnersState.toggle("health", choice["value"]),
        class_name="rt-reset ry-chip solid",
        aria_pressed=rx.cond(choice["is_on"], "true", "false"),
        custom_attrs={"data-testid": "health-" + choice["value"].to(str)},
    )


def chips() -> rx.Component:
    clear = quiet_button("Clear all", on_click=RunnersState.clear_search, custom_attrs={"data-testid": "clear-all"})
    return rx.el.div(
        *[_chip(facet, label) for facet, label in CHIPS.items()],
        rx.cond(RunnersState.is_filtered, clear),
        rx.el.span(class_name="grow"),
        rx.foreach(_choices("health"), _health),
        class_name="ry-acts ry-chips",
        role="group",
        aria_label="Filters",
        style={"margin_top": "-8px"},
    )
