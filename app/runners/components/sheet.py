"""The add-runner sheet: two tabs, a token shown once, and a box that waits for the first heartbeat."""

from typing import Any

import reflex as rx

from app.runners.components.cloud_form import cloud_footer, cloud_tab
from app.runners.components.self_form import self_footer, self_tab
from app.runners.state.add_runner import AddRunnerState
from app.ui.button import act_button
from app.ui.dialog import alert, cancel, dialog_acts
from app.ui.sheet import sheet_head

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
    place: dict[str, Any] = {"left": "auto", "right": "8px", "top": "8px", "bottom": "8px"}
    return rx.fragment(
        rx.drawer.root(
            rx.drawer.portal(
                rx.drawer.overlay(background="var(--ry-scrim)", z_index="40"),
                rx.drawer.content(
                    sheet_head("Add runner", ABOUT, State.set_open(False)),
                    _tabs(),
                    rx.cond(State.tab == "cloud", cloud_footer(), self_footer()),
                    class_name="ry-sheet",
                    custom_attrs={"data-vaul-no-drag": ""},
                    **place,
                ),
            ),
            open=State.is_open,
            on_open_change=State.set_open,
            direction="right",
            handle_only=True,
        ),
        _asking(),
    )
