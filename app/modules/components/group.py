"""A group: what its modules inherit, who serves them, and how they are."""

import reflex as rx

from app.frame.session import SessionState
from app.modules.components.rail import beside_rail
from app.modules.state.actions import ModuleActionState
from app.modules.state.form import ModuleFormState
from app.modules.state.group import GroupState
from app.modules.state.modules import ModulesState
from app.modules.view.group import GroupModule, GroupRunner
from app.triggers.components.work import follow, path_schedules, set_panels, work_buttons
from app.ui.badges import job_badge, runner_badge
from app.ui.elements import ago
from app.ui.icons import icon
from app.ui.panel import titled_panel
from app.variables.components.variables import path_variables

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


def _runner(runner: rx.Var[GroupRunner], at: rx.Var[int]) -> rx.Component:
    return rx.el.li(
        rx.el.span(at + 1, class_name="ry-step num"),
        rx.el.div(
            rx.link(runner["name"], href="/dashboard/runners/" + runner["id"].to(str), class_name="ry-a"),
            rx.el.small(runner["why"]),
            class_name="grow",
        ),
        runner_badge(runner["status"].to(str)),
        key=runner["id"],
    )


def _runners() -> rx.Component:
    none = rx.el.div("No runner serves it. Assign one on its page, or add one.", class_name="ry-pb mut")
    return rx.el.section(
        rx.el.div(rx.el.h2("Runners"), rx.el.span("in the order they are tried", class_name="mut"), class_name="ry-ph"),
        rx.cond(
            GroupState.runners.length() > 0,
            rx.el.ul(rx.foreach(GroupState.runners, _runner), class_name="ry-list"),
            none,
        ),
        class_name="ry-panel",
        aria_label="Runners",
        custom_attrs={"data-testid": "group-runners"},
    )


def _module(module: rx.Var[GroupModule]) -> rx.Component:
    badge = rx.cond(
        module["status"] != "", job_badge(module["status"].to(str)), rx.el.span("Never ran", class_name="mut")
    )
    drift = rx.cond(
        module["drift"] != "", rx.badge(module["drift"], color_scheme="amber", radius="full"), rx.fragment()
    )
    path = rx.link(module["path"], href="/dashboard/modules?path=" + module["path"].to(str), class_name="ry-a ry-mono")
    job = rx.link("#", module["job"], href="/dashboard/jobs/" + module["job"].to(str), class_name="mut num")
    ended = rx.cond(module["ended_at"] != "", rx.fragment(", ", ago(module["ended_at"].to(str))), rx.fragment())
    last = rx.cond(module["job"] != "", rx.el.small(job, ended), rx.fragment())
    return rx.el.li(
        icon("box", class_name="mut"),
        rx.el.div(path, last, class_name="grow"),
        drift,
        badge,
        key=module["path"],
    )


def _modules() -> rx.Component:
    more = GroupState.total - GroupState.modules.length()
    foot = rx.el.div(rx.el.span(more, " more; search finds them", class_name="num"), class_name="ry-foot")
    return rx.el.section(
        rx.el.div(rx.el.h2("Modules"), rx.el.span(GroupState.total, class_name="mut num"), class_name="ry-ph"),
        rx.el.ul(rx.foreach(GroupState.modules, _module), class_name="ry-list"),
        rx.cond(more > 0, foot, rx.fragment()),
        class_name="ry-panel",
        aria_label="Modules",
        custom_attrs={"data-testid": "group-modules"},
    )


def _inherited() -> rx.Component:
    names = rx.el.dl(_list("Hooks", Group["hooks"].to(list[str]), "None"), class_name="ry-dl")
    return titled_panel("Inherited by its modules", rx.fragment(), rx.el.div(names, class_name="ry-pb"))


def group_detail() -> rx.Component:
    """The chosen group."""
    count = rx.cond(Group["modules"] == 1, "1 module", Group["modules"].to_string() + " modules")
    said = rx.cond(GroupState.said != "", ": " + GroupState.said, "")
    about = rx.cond(Group["description"] != "", rx.el.p(Group["description"]), rx.fragment())
    return rx.el.div(
        rx.el.div(
            rx.el.div(rx.el.h1(Group["path"]), rx.el.p(count, said, class_name="num"), about),
            rx.el.div(work_buttons(), _acts(), class_name="ry-acts"),
            class_name="ry-head",
        ),
        follow(Group["path"].to(str)),
        set_panels(),
        beside_rail([_runners(), _modules()], [path_variables(Group["path"].to(str)), path_schedules(), _inherited()]),
        class_name="ry-stack ry-detail",
    )
