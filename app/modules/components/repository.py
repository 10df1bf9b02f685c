"""The repository of a module: branch, watched paths, and the commits seen and applied."""

import reflex as rx

from app.frame.session import may
from app.modules.state.repository import RepositoryState
from app.modules.view.repository import INHERIT
from app.triggers.view.triggers import APPLY_MODES
from app.ui.controls import choice, page_link
from app.ui.dialog import question
from app.ui.elements import ago
from app.ui.form.elements import check_field, dialog_form, field, text_area, text_field
from app.ui.panel import titled_panel

Repository = RepositoryState.repository


def _path(path: rx.Var[str]) -> rx.Component:
    return rx.el.span(path, class_name="ry-mono ry-breaks", style={"display": "block"})


def _commit(key: str, none: str) -> rx.Component:
    known = rx.fragment(
        page_link(Repository[key], href=Repository[f"{key}_href"].to(str), class_name="ry-a ry-mono"),
        rx.el.span(", ", ago(Repository[f"{key}_at"].to(str)), class_name="mut"),
    )
    return rx.cond(Repository[key] != "", known, rx.el.span(none, class_name="mut"))


def _pair(label: str, value: rx.Component) -> rx.Component:
    return rx.fragment(rx.el.dt(label), rx.el.dd(value))


def _fields() -> list[rx.Component]:
    modes = {INHERIT: "As its group", **APPLY_MODES}
    apply = choice("Applies", modes, name="apply", default_value=Repository["own_apply"].to(str))
    look = {"placeholder": "modules/network", "rows": "3", "class_name": "ry-codearea"}
    paths = text_area("paths", Repository["own_paths"].to(str), **look)
    errors = RepositoryState.errors
    return [
        text_field(
            "branch",
            "Branch",
            Repository["own_branch"],
            errors,
            "If empty, the one of its source.",
            class_name="ry-mono",
        ),
        field(
            "paths", "More paths", paths, errors, "One on each line. Its folder and local modules are watched anyway."
        ),
        field("apply", "Applies", apply, errors, "When plans of its repository are applied."),
        check_field("Pushes plan it", name="is_on", default_checked=Repository["is_on"].to(bool)),
    ]


def repository_dialogs() -> list[rx.Component]:
    """The form that changes how the module follows its repository, and the question before it follows its folder."""
    move = question(
        is_open=RepositoryState.is_moving,
        title=rx.fragment("Use the folder ", rx.el.span(Repository["moved_to"], class_name="ry-mono"), "?"),
        text="The module stays the same one, with its state and history. A plan of the new folder follows; nothing is applied by it.",
        act="Use this folder",
        on_act=RepositoryState.move,
        on_keep=RepositoryState.ask_move(False),
        is_danger=False,
    )
    form = dialog_form(RepositoryState, "Repository", "It counts from the next push or pull request.", _fields())
    return [form, move]


def _note() -> rx.Component:
    """Explain why pushes plan nothing; with the button that accepts the new name of its folder."""
    can_move = may("module.write") & (Repository["moved_to"] != "")
    label = rx.fragment("Use ", Repository["moved_to"])
    move = rx.button(label, on_click=RepositoryState.ask_move(True), type="button", size="1", variant="surface")
    return rx.el.div(
        rx.el.p(Repository["note"], class_name="ry-hint"), rx.cond(can_move, move, rx.fragment()), class_name="ry-pb"
    )


def repository() -> rx.Component:
    """Shown where the repository of the module's source is connected."""
    change = rx.el.button("Change", on_click=RepositoryState.edit, type="button", class_name="rt-reset ry-link")
    panel = titled_panel(
        "Repository",
        (
            rx.el.span(class_name="grow"),
            rx.cond(may("module.write"), change),
            page_link("Deliveries", href="/dashboard/settings/git", class_name="ry-link", underline="none"),
        ),
        rx.el.div(
            rx.el.dl(
                _pair("Connected", rx.el.span(Repository["name"], class_name="ry-mono ry-breaks")),
                _pair("Branch", rx.el.span(Repository["branch"], class_name="ry-mono ry-breaks")),
                _pair("Watches", rx.foreach(Repository["watched"].to(list[str]), _path)),
                _pair("Applies", rx.el.span(Repository["applies"])),
                _pair("Seen", _commit("seen", "Not read yet")),
                _pair("Applied", _commit("applied", "None yet")),
                rx.cond(Repository["ahead"] != "", _pair("Ahead", rx.el.span(Repository["ahead"]))),
                class_name="ry-dl",
            ),
            class_name="ry-pb",
        ),
        rx.cond(Repository["note"] != "", _note()),
    )
    return rx.cond(Repository["name"] != "", panel)
