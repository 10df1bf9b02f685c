"""A group: what its modules inherit, who serves them, and how they are."""

from collections.abc import Sequence
from typing import Any

import reflex as rx

from app.access.panel import access_panel
from app.frame.layout import OF_GROUP, path_tabs
from app.frame.pick import picks
from app.frame.session import SessionState, may
from app.jobs.components.checks import SETS
from app.modules.state.actions import ModuleActionState
from app.modules.state.form import ModuleFormState
from app.modules.state.group import GroupState
from app.modules.state.modules import ModulesState
from app.modules.view.group import GroupModule, GroupRunner
from app.triggers.components.work import path_schedules, set_panels, work_buttons
from app.ui.badges import job_badge, pill, runner_badge
from app.ui.controls import at, icon, icon_button, page_link, plain_button
from app.ui.elements import ago
from app.ui.panel import menu_item, titled_panel
from app.ui.resource import rows_table

Group = ModulesState.group


def _acts() -> rx.Component:
    graph = rx.redirect(at("/dashboard/modules/graph?path=" + Group["path"].to(str)))
    new = menu_item("plus", "New module here", ModuleFormState.new_module)
    remove = menu_item("trash-2", "Remove group", ModuleActionState.ask("remove_group"), color_scheme="red")
    return work_buttons(
        menu_item("waypoints", "Graph", graph),
        rx.cond(may("module.write"), new),
        rx.cond(may("group.write"), menu_item("pencil", "Edit group", ModuleFormState.edit_group)),
        rx.cond(may("group.delete") & (Group["modules"].to(int) == 0), remove),
    )


def _list(label: str, items: rx.Var[list[str]], none: str) -> rx.Component:
    value = rx.cond(items.length() > 0, items.join(", "), none)
    return rx.fragment(
        rx.el.dt(label), rx.el.dd(value, class_name=rx.cond(items.length() > 0, "ry-mono ry-breaks", "mut"))
    )


def _runner(runner: rx.Var[GroupRunner], at: rx.Var[int]) -> rx.Component:
    unassign = icon_button("x", "Unassign " + runner["name"].to(str), GroupState.unassign(runner["id"].to(str)))
    return rx.el.li(
        rx.el.span(at + 1, class_name="ry-step num"),
        rx.el.div(
            page_link(runner["name"], href="/dashboard/runners/" + runner["id"].to(str), class_name="ry-a"),
            rx.el.small(runner["why"]),
            class_name="grow",
        ),
        runner_badge(runner["status"].to(str)),
        rx.cond(SessionState.can_admin & runner["is_here"].to(bool), unassign),
        key=runner["id"],
    )


def _assign() -> rx.Component:
    """Assign a runner by its name, or add a new one for this group."""
    name = rx.input(
        name="runner",
        required=True,
        auto_complete="off",
        placeholder="Runner's name",
        aria_label="Runner to assign",
        class_name="grow",
        **picks("workers"),
    )
    button = plain_button("Assign", type="submit")
    add = page_link(
        icon("plus"),
        "Add runner here",
        href="/dashboard/runners?add=" + Group["path"].to(str),
        class_name="ry-a ry-row c6 ry-whole-line",
    )
    return rx.form(name, button, add, on_submit=GroupState.assign, reset_on_submit=True, class_name="ry-foot")


def _runners() -> rx.Component:
    none = rx.el.div("No runner serves it. Assign one below, or add one.", class_name="ry-pb mut")
    more = GroupState.runner_total - GroupState.runners.length()
    rest = rx.el.div(page_link(more, " more on the Runners page", href="/dashboard/runners"), class_name="ry-foot num")
    return titled_panel(
        "Runners",
        rx.el.span("in the order they are tried", class_name="mut"),
        rx.cond(
            GroupState.runners.length() > 0,
            rx.el.ul(rx.foreach(GroupState.runners, _runner), class_name="ry-list"),
            none,
        ),
        rx.cond(more > 0, rest),
        rx.cond(SessionState.can_admin, _assign()),
        custom_attrs={"data-testid": "group-runners"},
    )


def _module(module: rx.Var[GroupModule]) -> rx.Component:
    badge = rx.cond(
        module["status"] != "", job_badge(module["status"].to(str)), rx.el.span("Never applied", class_name="mut")
    )
    drift = rx.cond(module["drift"] != "", pill(module["drift"], color="amber"))
    path = page_link(
        module["path"], href="/dashboard/modules?path=" + module["path"].to(str), class_name="ry-a ry-mono"
    )
    job = page_link("#", module["job"], href="/dashboard/jobs/" + module["job"].to(str), class_name="mut num")
    ended = rx.cond(module["ended_at"] != "", rx.fragment(", ", ago(module["ended_at"].to(str))))
    last = rx.cond(module["job"] != "", rx.el.small(job, ended))
    return rx.el.li(
        icon("box", class_name="mut"), rx.el.div(path, last, class_name="grow"), drift, badge, key=module["path"]
    )


def _modules(shown: rx.Var[list[GroupModule]], rest: Any) -> rx.Component:
    more = GroupState.total - shown.length()
    foot = rx.el.div(more, " more", rest, class_name="ry-foot num")
    return titled_panel(
        "Modules",
        rx.el.span(GroupState.total, class_name="mut num"),
        rx.el.ul(rx.foreach(shown, _module), class_name="ry-list"),
        rx.cond(more > 0, foot),
        custom_attrs={"data-testid": "group-modules"},
    )


def _policies() -> rx.Component:
    none = rx.el.div("No policy set applies to its modules.", class_name="ry-pb mut")
    settings = page_link("Settings", href="/dashboard/settings/policies", class_name="ry-link", underline="none")
    return titled_panel(
        "Policies",
        (rx.el.span(class_name="grow"), settings),
        rx.cond(GroupState.policies.length() > 0, rows_table("Policies", SETS, GroupState.policies), none),
    )


def _inherited() -> rx.Component:
    applies = rx.fragment(rx.el.dt("Applies"), rx.el.dd(Group["applies"]))
    names = rx.el.dl(_list("Hooks", Group["hooks"].to(list[str]), "None"), applies, class_name="ry-dl")
    return titled_panel("Inherited by its modules", rx.fragment(), rx.el.div(names, class_name="ry-pb"))


def group_detail() -> rx.Component:
    count = rx.cond(Group["modules"] == 1, "1 module", Group["modules"].to_string() + " modules")
    said = rx.cond(GroupState.said != "", ": " + GroupState.said, "")
    every = page_link("All", href="/dashboard/modules?tab=modules&path=" + Group["path"].to(str), class_name="ry-link")
    about = rx.cond(Group["description"] != "", rx.el.p(Group["description"]))
    return rx.el.div(
        rx.el.div(
            rx.el.div(rx.el.h1(Group["path"]), rx.el.p(count, said, class_name="num"), about),
            rx.el.div(_acts(), class_name="ry-acts"),
            class_name="ry-head",
        ),
        path_tabs(Group["path"].to(str), OF_GROUP, ModulesState.tab),
        rx.match(
            ModulesState.tab,
            ("Modules", _modules(GroupState.modules, "; search finds them")),
            ("Runners", _runners()),
            ("Access", access_panel()),
            ("Policies", _policies()),
            rx.fragment(
                set_panels(), beside_rail([_modules(GroupState.first, every)], [path_schedules(), _inherited()])
            ),
        ),
        class_name="ry-stack ry-detail",
    )


def beside_rail(
    first: Sequence[rx.Component], rail: Sequence[rx.Component], rest: Sequence[rx.Component] = ()
) -> rx.Component:
    """Place the rail beside the first components and the rest; where a rail has no room, it is between the two."""
    return rx.el.div(
        rx.el.div(*first, class_name="ry-stack"),
        rx.el.div(*rail, class_name="ry-rail"),
        rx.el.div(*rest, class_name="ry-stack") if rest else rx.fragment(),
        class_name="ry-railed",
    )
