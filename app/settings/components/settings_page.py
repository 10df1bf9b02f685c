"""The frame of every settings page: the list of pages beside it, its panel, and its actions."""

from collections.abc import Sequence
from typing import Any

import reflex as rx

from app.frame.layout import page
from app.frame.session import SessionState
from app.ui.feedback import empty

ENTRIES = (
    ("members", "Members"),
    ("roles", "Roles"),
    ("sign-in", "Sign-in"),
    ("variables", "Variables"),
    ("job-identities", "Job identities"),
    ("cloud-identities", "Cloud identities"),
    ("service-accounts", "Service accounts"),
    ("git", "Git"),
    ("triggers", "Triggers"),
    ("notifications", "Notifications"),
    ("updates", "Updates"),
    ("releases", "Releases"),
    ("audit", "Audit log"),
    ("organisation", "Organisation"),
)


def _entry(key: str, label: str, active: str) -> rx.Component:
    current: dict[str, Any] = {"aria_current": "page"} if key == active else {}
    return rx.link(label, href=f"/dashboard/settings/{key}", class_name="ry-nav", underline="none", **current)


def settings_page(active: str, *children: rx.Component, dialogs: Sequence[rx.Component] = ()) -> rx.Component:
    """Put a settings page into the frame."""
    nav = rx.el.nav(*[_entry(*entry, active) for entry in ENTRIES], class_name="ry-subnav", aria_label="Settings")
    title = dict(ENTRIES)[active]
    return page(
        rx.el.div(rx.el.div(rx.el.h1("Settings")), class_name="ry-head"),
        rx.el.div(nav, rx.el.div(*children, class_name="ry-stack"), class_name="ry-set"),
        title=title,
        active="settings",
        crumbs=(("Settings", "/dashboard/settings"),),
        dialogs=dialogs,
    )


def admins_only(what: str, body: rx.Component) -> rx.Component:
    """The body for those who may see it; for others, whom to ask."""
    nothing = empty(
        "lock", f"You cannot see {what}", "Operators and viewers do not have this. Ask an owner or an admin."
    )
    return rx.cond(SessionState.can_admin, body, rx.el.section(nothing, class_name="ry-panel"))
