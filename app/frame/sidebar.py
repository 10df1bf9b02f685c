"""The sidebar: organisation, pages, documentation, who I am; four tabs on a narrow screen."""

from typing import Any

import reflex as rx

from app.frame.releases.state import ReleaseNotesState
from app.frame.session import OrgItem, SessionState
from app.ui.controls import at, icon, page_link

FIGURES = ("figures", "Figures", "chart-line", "/dashboard/figures")
# A guest's page in its place.
EVENTS = ("figures", "Events", "history", "/dashboard/events")
ENTRIES = (
    ("runners", "Runners", "server", "/dashboard/runners"),
    ("jobs", "Jobs", "list-checks", "/dashboard/jobs"),
    ("modules", "Modules", "boxes", "/dashboard/modules"),
    FIGURES,
    ("settings", "Settings", "settings-2", "/dashboard/settings"),
)


def _number(number: rx.Var[int]) -> rx.Component:
    """The number of existing rows; nothing until the database has answered."""
    return rx.cond(SessionState.is_counted, rx.el.span(number, class_name="ry-n"))


def _count(key: str) -> rx.Component:
    if key == "runners":
        return _number(SessionState.runner_count)
    if key == "jobs":
        needs = SessionState.needs_me_count
        return rx.cond(needs > 0, rx.el.span(needs, class_name="ry-me", title="Jobs that wait for a decision"))
    if key == "modules":
        return _number(SessionState.module_count)
    return rx.fragment()


def _entry(key: str, label: str, icon_name: str, href: str, active: str) -> rx.Component:
    current = {"aria_current": "page"} if key == active else {}
    # The title is for widths at which only the icon is seen.
    return page_link(
        icon(icon_name, ""),
        label,
        _count(key),
        href=href,
        title=label,
        class_name="ry-nav",
        underline="none",
        **current,
    )


def _figures(active: str) -> rx.Component:
    return rx.cond(SessionState.sees_all, _entry(*FIGURES, active=active), _entry(*EVENTS, active=active))


def _org_item(org: rx.Var[OrgItem]) -> rx.Component:
    return rx.dropdown_menu.item(
        rx.el.span(org["initials"], class_name="ry-sq g"),
        rx.el.span(org["name"], class_name="ry-el"),
        rx.cond(org["id"] == SessionState.org_id, icon("check")),
        on_select=SessionState.switch_organisation(org["id"]),
    )


def _menu(button: rx.Component, *items: Any, width: str) -> rx.Component:
    return rx.dropdown_menu.root(rx.dropdown_menu.trigger(button), rx.dropdown_menu.content(*items, width=width))


def _item(label: str, icon_name: str, event: Any) -> rx.Component:
    return rx.dropdown_menu.item(icon(icon_name), label, on_select=event)


def _place(label: str, icon_name: str, href: str) -> rx.Component:
    return _item(label, icon_name, rx.redirect(at(href)))


def _organisations() -> list[rx.Component]:
    return [rx.el.div("Organisations", class_name="rt-BaseMenuLabel"), rx.foreach(SessionState.orgs, _org_item)]


def _account() -> rx.Component:
    return _place("Account", "user-round", "/dashboard/account")


def _sign_out() -> rx.Component:
    return _item("Sign out", "log-out", rx.call_script("window.runyard.signOut()"))


def _organisation() -> rx.Component:
    button = rx.el.button(
        rx.el.span(SessionState.org_initials, class_name="ry-sq", aria_hidden="true"),
        rx.el.b(SessionState.org_name),
        icon("chevrons-up-down", class_name="mut"),
        class_name="rt-reset ry-org",
        title="Switch organisation",
    )
    new = _place("New organisation", "plus", "/welcome")
    return _menu(button, *_organisations(), rx.dropdown_menu.separator(), new, width="236px")


def _person() -> rx.Component:
    initial = rx.el.span(
        SessionState.email[:1].upper(),
        class_name="ry-sq g",
        aria_hidden="true",
        style={"border_radius": "99px", "flex": "none"},
    )
    words = rx.el.span(
        rx.el.span(SessionState.email, class_name="ry-el", style={"display": "block"}),
        rx.el.small(SessionState.role.capitalize()),
    )
    look = {"class_name": "rt-reset ry-user", "title": "Account"}
    button = rx.el.button(initial, words, icon("chevrons-up-down", class_name="mut"), **look)
    keys = _item("Keyboard", "keyboard", rx.call_script("window.dispatchEvent(new CustomEvent('ry-help'))"))
    return _menu(button, _account(), keys, rx.dropdown_menu.separator(), _sign_out(), width="210px")


def small_menu() -> rx.Component:
    """The menu for screens that have no room for the sidebar: its parts besides the pages."""
    button = rx.el.button(
        rx.el.span(SessionState.org_initials, class_name="ry-sq", aria_hidden="true"),
        class_name="rt-reset ry-small-menu",
        aria_label="Organisation and account",
    )
    return _menu(
        button,
        *_organisations(),
        _place("New organisation", "plus", "/welcome"),
        rx.dropdown_menu.separator(),
        rx.cond(SessionState.sees_all, _place(*FIGURES[1:]), _place(*EVENTS[1:])),
        _item("Documentation", "book-open", rx.call_script("window.open('/docs/', '_blank', 'noopener')")),
        _item("Release notes", "megaphone", ReleaseNotesState.show("")),
        rx.dropdown_menu.separator(),
        rx.el.div(SessionState.email, class_name="rt-BaseMenuLabel ry-el"),
        _account(),
        _sign_out(),
        width="260px",
    )


def sidebar(active: str) -> rx.Component:
    return rx.el.aside(
        _organisation(),
        *[_entry(*entry, active=active) if entry != FIGURES else _figures(active) for entry in ENTRIES],
        rx.el.div(class_name="grow"),
        rx.el.a(
            icon("book-open", ""),
            "Documentation",
            href="/docs/",
            target="_blank",
            title="Documentation",
            class_name="ry-nav",
        ),
        rx.el.button(
            icon("megaphone", ""),
            "Release notes",
            on_click=ReleaseNotesState.show(""),
            title="Release notes",
            class_name="rt-reset ry-nav",
        ),
        rx.el.div(style={"height": "8px"}),
        _person(),
        class_name="ry-side",
        aria_label="Main",
    )


def bottom_tabs(active: str) -> rx.Component:
    tabs = [
        page_link(
            icon(icon_name, ""),
            label,
            href=href,
            underline="none",
            **({"aria_current": "page"} if key == active else {}),
        )
        for key, label, icon_name, href in ENTRIES
        if key != "figures"
    ]
    return rx.el.nav(*tabs, class_name="ry-tabs", aria_label="Pages")
