"""The sidebar: organisation, pages, documentation, who I am; four tabs on a narrow screen."""

import reflex as rx

from app.frame.releases.state import ReleaseNotesState
from app.frame.session import OrgItem, SessionState
from app.ui.controls import at, icon, page_link

ENTRIES = (
    ("runners", "Runners", "server", "/dashboard/runners"),
    ("jobs", "Jobs", "list-checks", "/dashboard/jobs"),
    ("modules", "Modules", "boxes", "/dashboard/modules"),
    ("figures", "Figures", "chart-line", "/dashboard/figures"),
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


def _org_item(org: rx.Var[OrgItem]) -> rx.Component:
    return rx.dropdown_menu.item(
        rx.el.span(org["initials"], class_name="ry-sq g"),
        rx.el.span(org["name"], class_name="ry-el"),
        rx.cond(org["id"] == SessionState.org_id, icon("check")),
        on_select=SessionState.switch_organisation(org["id"]),
    )


def _organisation() -> rx.Component:
    return rx.dropdown_menu.root(
        rx.dropdown_menu.trigger(
            rx.el.button(
                rx.el.span(SessionState.org_initials, class_name="ry-sq", aria_hidden="true"),
                rx.el.b(SessionState.org_name),
                icon("chevrons-up-down", class_name="mut"),
                class_name="rt-reset ry-org",
                title="Switch organisation",
            )
        ),
        rx.dropdown_menu.content(
            rx.el.div("Organisations", class_name="rt-BaseMenuLabel"),
            rx.foreach(SessionState.orgs, _org_item),
            rx.dropdown_menu.separator(),
            rx.dropdown_menu.item(icon("plus"), "New organisation", on_select=rx.redirect("/welcome")),
            width="236px",
        ),
    )


def _person() -> rx.Component:
    return rx.dropdown_menu.root(
        rx.dropdown_menu.trigger(
            rx.el.button(
                rx.el.span(
                    SessionState.email[:1].upper(),
                    class_name="ry-sq g",
                    aria_hidden="true",
                    style={"border_radius": "99px", "flex": "none"},
                ),
                rx.el.span(
                    rx.el.span(SessionState.email, class_name="ry-el", style={"display": "block"}),
                    rx.el.small(SessionState.role.capitalize()),
                ),
                icon("chevrons-up-down", class_name="mut"),
                class_name="rt-reset ry-user",
                title="Account",
            )
        ),
        rx.dropdown_menu.content(
            _account(),
            rx.dropdown_menu.item(
                icon("keyboard"),
                "Keyboard",
                on_select=rx.call_script("window.dispatchEvent(new CustomEvent('ry-help'))"),
            ),
            rx.dropdown_menu.separator(),
            _sign_out(),
            width="210px",
        ),
    )


def _account() -> rx.Component:
    return rx.dropdown_menu.item(icon("user-round"), "Account", on_select=rx.redirect(at("/dashboard/account")))


def _sign_out() -> rx.Component:
    return rx.dropdown_menu.item(icon("log-out"), "Sign out", on_select=rx.call_script("window.runyard.signOut()"))


def small_menu() -> rx.Component:
    """The menu for screens that have no room for the sidebar: its parts besides the pages."""
    docs = rx.call_script("window.open('/docs/', '_blank', 'noopener')")
    return rx.dropdown_menu.root(
        rx.dropdown_menu.trigger(
            rx.el.button(
                rx.el.span(SessionState.org_initials, class_name="ry-sq", aria_hidden="true"),
                class_name="rt-reset ry-small-menu",
                aria_label="Organisation and account",
            )
        ),
        rx.dropdown_menu.content(
            rx.el.div("Organisations", class_name="rt-BaseMenuLabel"),
            rx.foreach(SessionState.orgs, _org_item),
            rx.dropdown_menu.item(icon("plus"), "New organisation", on_select=rx.redirect("/welcome")),
            rx.dropdown_menu.separator(),
            rx.dropdown_menu.item(icon("chart-line"), "Figures", on_select=rx.redirect(at("/dashboard/figures"))),
            rx.dropdown_menu.item(icon("book-open"), "Documentation", on_select=docs),
            rx.dropdown_menu.item(icon("megaphone"), "Release notes", on_select=ReleaseNotesState.show("")),
            rx.dropdown_menu.separator(),
            rx.el.div(SessionState.email, class_name="rt-BaseMenuLabel ry-el"),
            _account(),
            _sign_out(),
            width="260px",
        ),
    )


def sidebar(active: str) -> rx.Component:
    return rx.el.aside(
        _organisation(),
        *[_entry(*entry, active=active) for entry in ENTRIES],
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
