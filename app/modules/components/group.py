"""A group: what the modules below it inherit."""

import reflex as rx

from app.modules.state.actions import ModuleActionState
from app.modules.state.form import ModuleFormState
from app.modules.state.modules import ModulesState
from app.shared.icons import icon
from app.shared.session import SessionState
from app.triggers.components.work import follow, path_schedules, set_panels, work_buttons

Group = ModulesState.group


def _acts() -> rx.Component:
    edit = rx.button(
        icon("pencil"), "Edit", on_click=ModuleFormState.edit_group, variant="surface", color_scheme="gray"
    )
    new = rx.button(
        icon("plus"), "New module here", on_click=ModuleFormState.new_module, color_scheme="gray", high_contrast=True
    )
    remove = rx.button("Remove", on_click=ModuleActionState.ask("remove_group"), variant="surface", color_scheme="red")
    return rx.fragment(
        rx.cond(SessionState.can_operate, rx.fragment(edit, new), rx.fragment()),
        rx.cond(SessionState.can_admin & (Group["modules"].to(int) == 0), remove, rx.fragment()),
    )


def _list(label: str, items: rx.Var[list[str]], none: str) -> rx.Component:
    value = rx.cond(items.length() > 0, items.join(", "), none)
    return rx.fragment(
        rx.el.dt(label), rx.el.dd(value, class_name=rx.cond(items.length() > 0, "ry-mono ry-breaks", "mut"))
    )


def group_detail() -> rx.Component:
    """The chosen group."""
    count = rx.cond(Group["modules"] == 1, "1 module below it", Group["modules"].to_string() + " modules below it")
    about = rx.cond(Group["description"] != "", rx.el.p(Group["description"]), rx.fragment())
    return rx.el.div(
        rx.el.div(
            rx.el.div(rx.el.h1(Group["path"]), rx.el.p(count, class_name="num"), about),
            rx.el.div(work_buttons(), _acts(), class_name="ry-acts"),
            class_name="ry-head",
        ),
        follow(Group["path"].to(str)),
        set_panels(),
        rx.el.section(
            rx.el.div(rx.el.h2("What its modules inherit"), class_name="ry-ph"),
            rx.el.div(
                rx.el.dl(
                    _list("Variables", Group["env_names"].to(list[str]), "None"),
                    _list("Hooks", Group["hooks"].to(list[str]), "None"),
                    class_name="ry-dl",
                ),
                class_name="ry-pb",
            ),
            class_name="ry-panel",
        ),
        path_schedules(),
        class_name="ry-stack",
    )
