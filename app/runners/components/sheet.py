"""The add-runner sheet: two tabs, a token shown once, and a box that waits for the first heartbeat."""

import reflex as rx

from app.runners.components.cloud_form import cloud_footer, cloud_tab
from app.runners.components.self_form import self_footer, self_tab
from app.runners.state.add_runner import AddRunnerState
from app.ui.button import act_button
from app.ui.dialog import alert, cancel, dialog_acts
from app.ui.sheet import sheet

State = AddRunnerState
ABOUT = "A runner takes jobs for the modules you assign to it."


def _tabs() -> rx.Component:
    return rx.tabs.root(
        rx.tabs.list(
            rx.tabs.trigger("Cloud-hosted", value="cloud"),
            rx.tabs.trigger("Self-hosted", value="self"),
            style={"padding": "0 4px"},
        ),
        rx.tabs.content(cloud_tab(), value="cloud", class_name="ry-sb"),
        rx.tabs.content(self_tab(), value="self", class_name="ry-sb"),
        value=State.tab,
        on_change=State.set_tab,
        class_name="ry-sheet-tabs",
    )


def _asking() -> rx.Component:
    back = act_button("Back to the token", on_click=State.keep_open)
    return alert(
        "Close without copying the token?",
        "It is not shown again. Without it the runner has to be registered again, or its token rotated.",
        dialog_acts(back, cancel(State.close_anyway, "Close anyway")),
        is_open=State.is_asking,
        on_escape=State.keep_open,
    )


def add_runner_sheet() -> rx.Component:
    """The sheet; it never closes automatically."""
    foot = rx.cond(State.tab == "cloud", cloud_footer(), self_footer())
    return rx.fragment(sheet(State, State.is_open, "Add runner", ABOUT, _tabs(), foot), _asking())
