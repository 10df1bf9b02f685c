"""Settings of automatic work: repositories, triggers, notifications, updates."""

import reflex as rx

from app.settings.components.settings_page import settings_page
from app.triggers.components.git import connections_panel, git_dialogs
from app.triggers.components.git_deliveries import deliveries_panel
from app.triggers.components.git_logins import login_dialogs, logins_panel
from app.triggers.components.notifications import notification_dialogs, notification_panels
from app.triggers.components.schedules import schedule_dialogs
from app.triggers.components.triggers import triggers_panel
from app.triggers.components.updates import updates_panel


def git() -> rx.Component:
    """The page of repositories and their deliveries."""
    return settings_page(
        "git", connections_panel(), deliveries_panel(), logins_panel(), dialogs=[*git_dialogs(), *login_dialogs()]
    )


def triggers() -> rx.Component:
    """The page of pushes, pull requests and schedules."""
    return settings_page("triggers", triggers_panel(), dialogs=schedule_dialogs())


def notifications() -> rx.Component:
    """The notifications page."""
    return settings_page("notifications", *notification_panels(), dialogs=notification_dialogs())


def updates() -> rx.Component:
    """The page of the update policy."""
    return settings_page("updates", updates_panel())
