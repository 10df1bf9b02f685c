"""The variables of the organisation, or of the module or group in the address."""

import reflex as rx

from app.frame.layout import OF_GROUP, OF_MODULE, Route, head, page, path_tabs
from app.variables.components.variables import unused_panel, variable_dialogs, variables_panel
from app.variables.state.variables import PAGE, VariablesState

State = VariablesState


def variables() -> rx.Component:
    tabs = rx.cond(
        State.is_module, path_tabs(State.path, OF_MODULE, "Variables"), path_tabs(State.path, OF_GROUP, "Variables")
    )
    return page(
        head(rx.cond(State.path != "", State.path, "Variables of the organisation").to(str), ""),
        rx.cond(State.path != "", tabs),
        variables_panel(),
        unused_panel(),
        title="Variables",
        active="modules",
        crumbs=(("Modules", "/dashboard/modules"), (State.path, "/dashboard/modules?path=" + State.path)),
        dialogs=variable_dialogs(),
    )


ROUTES = (Route(PAGE, "Variables", variables, VariablesState.load),)
