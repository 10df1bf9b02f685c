"""The modules page: the tree, and what was chosen in it."""

import reflex as rx

from app.access.panel import access_dialogs
from app.frame.layout import Route, new_button, page
from app.frame.not_found import TEXT
from app.frame.session import SessionState
from app.jobs.components.run_dialog import run_dialog
from app.jobs.state.run import RunState
from app.modules.components.detail import module_detail
from app.modules.components.dialogs import module_dialogs
from app.modules.components.form import module_sheet
from app.modules.components.group import group_detail
from app.modules.components.repository import repository_dialogs
from app.modules.components.state_change import state_change_dialog
from app.modules.components.tree import MOVE_IN, module_picker, module_tree
from app.modules.state.actions import ModuleActionState
from app.modules.state.form import ModuleFormState
from app.modules.state.modules import ModulesState
from app.modules.state.state_change import StateChangeState
from app.triggers.state.work import WorkState
from app.ui.controls import link_button, page_link
from app.ui.panel import empty, or_problem, skeleton_panels


def _nothing() -> rx.Component:
    new = new_button("plus", "New module", ModuleFormState.new_module)
    bring = link_button("Bring in a repository", href=MOVE_IN, size="2", attrs={})
    text = "A module is what jobs act on: a Terraform, OpenTofu or Pulumi project with its inputs and its state."
    return rx.el.section(
        empty(
            "boxes",
            "No modules yet",
            rx.cond(SessionState.can_write, text, f"{text} An operator can create one."),
            rx.cond(SessionState.can_write, rx.fragment(new, bring)),
            test_id="no-modules",
        ),
        class_name="ry-panel",
    )


def _skeleton() -> rx.Component:
    return rx.el.div(
        *skeleton_panels("420px"),
        rx.el.div(*skeleton_panels("52px", "67px", "240px"), class_name="ry-stack"),
        class_name="ry-split",
        aria_busy="true",
    )


def _near(path: rx.Var[str]) -> rx.Component:
    return rx.el.li(page_link(path, href="/dashboard/modules?path=" + path, class_name="ry-a ry-mono"))


def _missing() -> rx.Component:
    """The panel for a link to a module that does not exist: the page never shows another module instead."""
    near = rx.el.div(
        rx.el.p("Modules with a similar path:", class_name="mut"), rx.el.ul(rx.foreach(ModulesState.nearest, _near))
    )
    return rx.el.section(
        empty(
            "file-question",
            "No module at " + ModulesState.missing,
            TEXT,
            rx.cond(ModulesState.nearest.length() > 0, near),
            test_id="no-such-module",
        ),
        class_name="ry-panel",
    )


def _page(chosen: rx.Var[str]) -> rx.Component:
    detail = rx.cond(
        ModulesState.missing != "",
        _missing(),
        rx.cond(ModulesState.group["path"] != "", group_detail(), module_detail()),
    )
    return rx.fragment(module_picker(chosen), rx.el.div(module_tree(), detail, class_name="ry-split"))


def modules() -> rx.Component:
    group = ModulesState.group["path"].to(str)
    chosen = rx.cond(group != "", group, ModulesState.module["path"].to(str)).to(str)
    is_empty = (ModulesState.total == 0) & (ModulesState.nodes.length() == 0)
    shown = rx.cond(is_empty, rx.cond(ModulesState.is_loading, _skeleton(), _nothing()), _page(chosen))
    return page(
        rx.el.h1("Modules", class_name="sr"),
        or_problem(ModulesState, "Modules", shown, is_page=True),
        title=rx.cond(chosen != "", chosen.replace("/", " / "), "Modules"),
        active="modules",
        crumbs=((rx.cond(chosen != "", "Modules", ""), "/dashboard/modules"),),
        dialogs=[
            module_sheet(),
            run_dialog(),
            *module_dialogs(),
            state_change_dialog(),
            *repository_dialogs(),
            *access_dialogs(),
        ],
    )


OPENING = [
    RunState.close, ModuleFormState.leave, ModuleActionState.close, StateChangeState.show(False), ModulesState.load,
    ModuleFormState.begin, WorkState.follow,
]  # fmt: skip

ROUTES = (Route("/dashboard/modules", "Modules", modules, OPENING),)
