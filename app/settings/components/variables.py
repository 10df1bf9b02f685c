"""The variables page among the settings."""

import reflex as rx

from app.settings.components.settings_page import settings_page
from app.variables.components.variables import unused_panel, variable_dialogs, variables_panel


def variables() -> rx.Component:
    """The variables of the organisation, or of the module or group in the address."""
    return settings_page("variables", variables_panel(), unused_panel(), dialogs=variable_dialogs())
