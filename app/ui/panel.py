"""Panels with items: title, one sentence, what can be done, each row's menu; and empty, failed or loading instead of a table."""

from collections.abc import Sequence
from typing import Any

import reflex as rx

from app.ui.controls import dropdown, icon, icon_button, plain_button

# A button that also works while the dashboard waits for its project (assets/connection.js).
RETRY = {"data-retry": ""}


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


def fact(label: Any, *value: Any) -> rx.Component:
    """A fact in a list of them."""
    return rx.el.div(rx.el.dt(label), rx.el.dd(*value))


def or_problem(state: Any, what: str, body: rx.Component, *, is_page: bool = False) -> rx.Component:
    """The body, or what went wrong while it was loaded; in a panel of its own where it is all of a page."""
    problem = failed(f"{what} could not be loaded", state.problem, state.problem_hint, state.load)
    return rx.cond(state.problem != "", rx.el.section(problem, class_name="ry-panel") if is_page else problem, body)


def menu(label: Any, *items: rx.Component) -> rx.Component:
    """A row's menu."""
    trigger = icon_button("ellipsis", label, title="More actions", custom_attrs={"data-menu": ""})
    return dropdown(trigger, *items, align="end")


def menu_item(icon_name: str, label: Any, event: Any, **props: Any) -> rx.Component:
    """An entry of a row's menu."""
    return rx.dropdown_menu.item(icon(icon_name), rx.el.span(label, class_name="grow"), on_select=event, **props)


def problem_line(words: rx.Var[str] | str = "", class_name: str = "") -> rx.Component:
    """Show what was wrong, in words of the page's state or of a script (assets/sign_in.js)."""
    classes = f"ry-problem {class_name}".strip()
    return rx.el.p(words, role="alert", hidden=words == "", class_name=classes, custom_attrs={"data-problem": ""})


def empty(
    icon_name: str, title: rx.Var[str] | str, text: rx.Var[str] | str, *actions: rx.Component, test_id: str = "empty"
) -> rx.Component:
    """Explain what would be here, then offer the one thing to do."""
    return rx.el.div(
        rx.el.span(icon(icon_name, "l"), class_name="ic"),
        rx.el.b(title),
        rx.el.p(text),
        rx.cond(bool(actions), rx.el.div(*actions, class_name="ry-acts")),
        class_name="ry-empty",
        custom_attrs={"data-testid": test_id},
    )


def failed(
    title: rx.Var[str] | str, problem: rx.Var[str], hint: rx.Var[str], on_retry: rx.event.EventType[()]
) -> rx.Component:
    """Explain what happened and what was not harmed, and offer to try again."""
    return rx.el.div(
        rx.el.span(icon("cloud-off", "l"), class_name="ic"),
        rx.el.b(title),
        rx.el.p(problem, " ", hint),
        rx.el.div(
            plain_button(icon("refresh-cw"), "Try again", on_click=on_retry, custom_attrs=RETRY), class_name="ry-acts"
        ),
        class_name="ry-empty",
        role="alert",
    )


def skeleton_rows(labels: Sequence[tuple[Any, ...]], rows: int = 6) -> rx.Component:
    """Stand in for a table's rows at their real height, under the heads that everybody sees."""
    widths = ("120px", "80px", "64px", "96px", "56px", "72px")
    cells = [
        rx.el.td(rx.el.span(class_name="ry-skel", style={"width": widths[i % len(widths)]}), class_name=side)
        for i, (_, side, *when) in enumerate(labels)
        if not when
    ]
    return rx.fragment(*[rx.el.tr(*cells, aria_hidden="true") for _ in range(rows)])


def skeleton_panels(*heights: str) -> list[rx.Component]:
    """Stand in for panels of these heights."""
    look = {"class_name": "ry-panel ry-skel-block", "aria_hidden": "true"}
    return [rx.el.div(style={"height": height}, **look) for height in heights]


def notice(
    mark: Any, *words: Any, tone: Any, beside: Sequence[Any] = (), test_id: Any = None, **props: Any
) -> rx.Component:
    """A coloured line above a page's panels: an icon or its name, words, and what can be done."""
    attrs = {"data-accent-color": tone, **({} if test_id is None else {"data-testid": test_id})}
    shown = icon(mark, "") if isinstance(mark, str) else mark
    return rx.el.div(shown, rx.el.p(*words), *beside, class_name="ry-note", custom_attrs=attrs, **props)
