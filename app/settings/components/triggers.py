"""Settings of automatic work: repositories and notifications."""

import reflex as rx

from app.settings.components.settings_page import settings_page
from app.triggers.components.git import connections_panel, git_dialogs
from app.triggers.components.git_deliveries import deliveries_panel
from app.triggers.components.git_logins import login_dialogs, logins_panel
from app.triggers.components.notifications import notification_dialogs, notification_panels


def git() -> rx.Component:
    return settings_page(
        "git", connections_panel(), deliveries_panel(), logins_panel(), dialogs=[*git_dialogs(), *login_dialogs()]
    )


def notifications() -> rx.Component:
    return settings_page("notifications", *notification_panels(), dialogs=notification_dialogs())
