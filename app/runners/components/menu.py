"""The actions on a runner: the likely one in the row, the rest in its menu."""

from typing import Any

import reflex as rx

from app.frame.session import SessionState
from app.runners.state.actions import RunnerActionState
from app.runners.state.edit import RunnerEditState
from app.ui.controls import dropdown, icon, icon_button, small_button
from app.ui.panel import menu_item


def _ask(kind: str, row: Any) -> Any:
    return RunnerActionState.ask(kind, row["id"])


def _drain(row: Any) -> rx.Component:
    return rx.cond(
        row["is_draining"],
        menu_item("play", "Resume", RunnerActionState.resume(row["id"])),
        menu_item("log-out", "Drain", _ask("drain", row)),
    )


def _admin_items(row: Any) -> rx.Component:
    return rx.fragment(
        menu_item("pencil", "Edit", RunnerEditState.edit(row["id"])),
        rx.cond(row["is_cloud"], menu_item("cloud-upload", "Deploy", _ask("deploy", row))),
        rx.cond(row["is_cloud"], rx.fragment(), menu_item("key-round", "Rotate token", _ask("rotate", row))),
        rx.cond(
            row["is_disabled"],
            menu_item("circle-play", "Enable", RunnerActionState.enable(row["id"])),
            menu_item("circle-pause", "Disable", _ask("disable", row)),
        ),
        rx.dropdown_menu.separator(),
        menu_item("trash-2", "Remove", _ask("remove", row), color_scheme="red"),
    )


def menu_items(row: Any, latest: rx.Var[str]) -> list[rx.Component]:
    """List the menu's entries: the actions that this person may use and that would change something."""
    update = menu_item("arrow-up", "Update to " + latest, _ask("update", row))
    return [
        rx.cond(row["is_outdated"] & SessionState.can_admin, update),
        _drain(row),
        rx.cond(SessionState.can_admin, _admin_items(row)),
    ]


def _menu(row: Any, latest: rx.Var[str]) -> rx.Component:
    return dropdown(
        icon_button(
            "ellipsis", "More actions for " + row["name"].to(str), title="More actions", custom_attrs={"data-menu": ""}
        ),
        *menu_items(row, latest),
        width="210px",
    )


def row_actions(row: Any, latest: rx.Var[str]) -> rx.Component:
    """The row's likely action and its menu; a lock where nobody here may do anything."""
    for_admins = rx.match(
        row["action"],
        ("enable", small_button("Enable", on_click=RunnerActionState.enable(row["id"]))),
        ("deploy", small_button("Deploy", on_click=_ask("deploy", row))),
        rx.fragment(),
    )
    likely = rx.match(
        row["action"],
        ("update", rx.cond(SessionState.can_admin, small_button("Update", on_click=_ask("update", row)))),
        ("resume", small_button("Resume", on_click=RunnerActionState.resume(row["id"]))),
        rx.cond(SessionState.can_admin, for_admins),
    )
    lock = rx.el.span(icon("lock"), title="Shared runners are changed only in the installation's configuration")
    return rx.cond(
        row["is_shared"],
        rx.el.span(lock, class_name="mut ry-lock"),
        rx.cond(
            SessionState.can_operate,
            rx.el.div(likely, _menu(row, latest), class_name="ry-row c6", style={"justify_content": "flex-end"}),
        ),
    )
