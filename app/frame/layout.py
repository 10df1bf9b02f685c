"""A page and its frame behind the sign-in: route, sidebar, top bar, connection mark."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import reflex as rx

from app.frame.connection import connection_banner, connection_mark
from app.frame.keyboard import keyboard_help
from app.frame.palette.dialog import palette, palette_button
from app.frame.pick import offered_names
from app.frame.session import SessionState
from app.frame.sidebar import bottom_tabs, sidebar, small_menu
from app.ui.controls import act_button, at, icon, page_link, plain_button


def _crumb(label: rx.Var[str] | str, href: str) -> rx.Component:
    # A link without a name, until the name is known, would be one that nobody can read.
    link = rx.fragment(rx.el.a(label, href=at(href), class_name="hide-s"), rx.el.span("/", class_name="sep hide-s"))
    return rx.cond(label != "", link) if isinstance(label, rx.Var) else link


def _top(title: rx.Var[str] | str, crumbs: Sequence[tuple[rx.Var[str] | str, str]]) -> rx.Component:
    return rx.el.header(
        rx.el.span(small_menu(), class_name="only-s"),
        rx.el.nav(
            _crumb(SessionState.org_name, "/dashboard/runners"),
            *[_crumb(label, href) for label, href in crumbs],
            rx.el.b(title),
            class_name="ry-crumb",
            aria_label="Breadcrumb",
        ),
        palette_button(),
        connection_mark(),
        rx.icon_button(
            rx.color_mode_cond(icon("moon"), icon("sun")),
            on_click=rx.toggle_color_mode,
            variant="ghost",
            color_scheme="gray",
            size="1",
            aria_label="Switch between light and dark",
            title="Switch between light and dark",
            custom_attrs={"data-local": "", "data-key": "theme"},
        ),
        page_key("sign-out", rx.call_script("window.runyard.signOut()")),
        class_name="ry-top",
    )


def page(
    *children: rx.Component,
    title: rx.Var[str] | str,
    active: str,
    crumbs: Sequence[tuple[rx.Var[str] | str, str]] = (),
    dialogs: Sequence[rx.Component] = (),
    foot: rx.Component | None = None,
) -> rx.Component:
    """Put a page into the frame.

    `active` is the menu entry: runners, jobs, modules or settings. `crumbs` are the
    (label, href) between the organisation and the title. `dialogs` stand outside the
    page's flow: sheets, confirmations. `foot` stays in sight below the page: a decision.
    """
    return rx.el.div(
        rx.el.a("Skip to the page", href="#main", class_name="ry-skip"),
        sidebar(active),
        rx.el.div(
            _top(title, crumbs),
            connection_banner(),
            rx.el.main(*children, class_name="ry-page", id="main", tab_index=-1),
            *([foot] if foot is not None else []),
            class_name="ry-main",
        ),
        bottom_tabs(active),
        keyboard_help(),
        palette(),
        offered_names(),
        *dialogs,
        class_name="ry-shell",
    )


def page_key(key: Any, event: Any) -> rx.Component:
    """A command of the page that only the palette presses; what people press stands in a menu."""
    return rx.el.button(type="button", hidden=True, on_click=event, custom_attrs={"data-key": key})


def new_button(icon_name: str, label: str, event: Any) -> rx.Component:
    """The page's main action; the key `n` presses it."""
    return act_button(icon(icon_name), label, on_click=event, custom_attrs={"data-key": "n"})


def admin_button(label: str, icon_name: str, event: Any) -> rx.Component:
    """A panel's action, for those who may."""
    button = plain_button(icon(icon_name), label, on_click=event)
    return rx.cond(SessionState.can_admin, button)


def head(
    title: rx.Var[str] | rx.Component | str, text: rx.Component | rx.Var[str] | str, *actions: rx.Component
) -> rx.Component:
    """Write a page's title, its one sentence, and its actions."""
    return rx.el.div(
        rx.el.div(rx.el.h1(title), rx.el.p(text)), rx.el.div(*actions, class_name="ry-acts"), class_name="ry-head"
    )


def panel(*children: rx.Component, **props: object) -> rx.Component:
    return rx.el.section(*children, class_name="ry-panel", **props)


# The pages of one place: each has an address of its own, and the first one opens with the menu's entry.
RUNNERS = (("Runners", "/dashboard/runners"), ("Versions", "/dashboard/runners/versions"))
JOBS = (("Jobs", "/dashboard/jobs"), ("Schedules", "/dashboard/jobs/schedules"))
FIGURES = (("Figures", "/dashboard/figures"), ("Events", "/dashboard/events"))
OF_GROUP = ("Overview", "Modules", "Variables", "Access", "Runners", "Policies")
OF_MODULE = ("Overview", "Jobs", "Variables", "Order", "State", "Access")


def place_tabs(place: str, tabs: Sequence[tuple[str, Any]], active: Any) -> rx.Component:
    links = [
        page_link(
            label,
            href=href,
            underline="none",
            class_name="ry-place",
            custom_attrs={"aria-current": rx.cond(active == label, "page", "false")},
        )
        for label, href in tabs
    ]
    return rx.el.nav(*links, class_name="ry-places", aria_label=place)


def whole_tabs(place: str, tabs: Sequence[tuple[str, Any]], active: str) -> rx.Component:
    """The tabs of a place whose other page concerns the whole organisation: a guest has none."""
    return rx.cond(SessionState.sees_all, place_tabs(place, tabs, active))


def path_tabs(path: rx.Var[str], names: Sequence[str], active: Any) -> rx.Component:
    """Link the pages of a group or a module; variables have an address of their own, which the organisation's share."""
    own = {"Overview": "/dashboard/modules?path=", "Variables": "/dashboard/modules/variables?path="}
    tabs = [(name, own.get(name, f"/dashboard/modules?tab={name.lower()}&path=") + path) for name in names]
    return place_tabs("Parts of the page", tabs, active)


@dataclass(frozen=True)
class Route:
    """A page: its address, its title, the function that builds it, and the events that load it."""

    path: str
    title: str
    build: Callable[[], rx.Component]
    on_load: Any = None


def say_in_address(path: str, query: str, *, is_step: bool = False) -> rx.event.EventSpec:
    """Put what was chosen on a page into its address; anyone who has gone on to another page meanwhile keeps that one's.

    A step is one that the browser's Back undoes.
    """
    here = f"location.pathname.replace(/\\/$/, '') === runyard.at({json.dumps(path)})"
    query = json.dumps(query)
    if not is_step:
        return rx.call_script(f"{here} && history.replaceState(null, '', location.pathname + {query})")
    # The router does not know of such a step, so that it loads nothing when the browser goes back.
    back = f"addEventListener('popstate', () => {here} && location.reload())"
    step = f"history.pushState(null, '', location.pathname + {query})"
    return rx.call_script(f"{here} && location.search !== {query} && ({step}, {back})")
