"""The frame of every settings page: the list of pages beside it, its panel, and its actions."""

from collections.abc import Sequence
from typing import Any

import reflex as rx

from app.frame.layout import page, place_tabs
from app.frame.session import SessionState
from app.ui.controls import page_link
from app.ui.panel import empty

# An entry's pages are its tabs; the first one opens.
ENTRIES = (
    ("General", (("organisation", "General"),)),
    ("People", (("members", "Members"), ("service-accounts", "Service accounts"), ("roles", "Roles"))),
    ("Sign-in", (("sign-in", "Sign-in"),)),
    ("Policies", (("policies", "Policies"),)),
    ("Connections", (("git", "Git"), ("job-identities", "Clouds of jobs"), ("cloud-identities", "Clouds of runners"))),
    ("Notifications", (("notifications", "Notifications"),)),
    ("Audit log", (("audit", "Audit log"),)),
)
TITLES = {key: label for _, tabs in ENTRIES for key, label in tabs}
HOME = "/dashboard/settings"


def _entry(label: str, key: str, *, is_active: bool) -> rx.Component:
    current: dict[str, Any] = {"aria_current": "page"} if is_active else {}
    return page_link(label, href=f"{HOME}/{key}", class_name="ry-nav", underline="none", **current)


def settings_page(active: str, *children: rx.Component, dialogs: Sequence[rx.Component] = ()) -> rx.Component:
    entry, tabs = next((label, tabs) for label, tabs in ENTRIES if active in dict(tabs))
    entries = [_entry(label, pages[0][0], is_active=label == entry) for label, pages in ENTRIES]
    shown = [place_tabs(entry, [(label, f"{HOME}/{key}") for key, label in tabs], TITLES[active])] * (len(tabs) > 1)
    return page(
        rx.el.div(rx.el.div(rx.el.h1("Settings")), class_name="ry-head"),
        rx.el.div(
            rx.el.nav(*entries, class_name="ry-subnav", aria_label="Settings"),
            rx.el.div(*shown, *children, class_name="ry-stack"),
            class_name="ry-set",
        ),
        title=TITLES[active],
        active="settings",
        crumbs=(("Settings", HOME),),
        dialogs=dialogs,
    )


def admins_only(what: str, body: rx.Component) -> rx.Component:
    """The body for those who may see it; for others, whom to ask."""
    nothing = empty(
        "lock", f"You cannot see {what}", "Operators and viewers do not have this. Ask an owner or an admin."
    )
    return rx.cond(SessionState.can_admin, body, rx.el.section(nothing, class_name="ry-panel"))
