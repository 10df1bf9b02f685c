"""The tree of groups and modules; on a narrow screen a picker."""

import reflex as rx

from app.frame.session import SessionState
from app.modules.state.form import ModuleFormState
from app.modules.state.modules import ModulesState
from app.modules.view.tree import Node
from app.ui.controls import at, dropdown, icon, page_link, quiet_button, small_button
from app.ui.table import search_box

MOVE_IN = "/dashboard/modules/move-in"
DOTS = {
    "SUCCEEDED": "succeeded",
    "FAILED": "failed",
    "CANCELLED": "cancelled",
    "NEEDS_ATTENTION": "needs-attention",
    "AWAITING_APPROVAL": "awaiting-approval",
    "QUEUED": "queued",
    "CLAIMED": "processing",
    "PROCESSING": "processing",
}


def _dot(node: rx.Var[Node]) -> rx.Component:
    colours = [(status, f"var(--ry-st-{name})") for status, name in DOTS.items()]
    colour = rx.match(node.status, *colours, "var(--gray-a5)")
    return rx.el.i(style={"background": colour}, title=node.title, role="img", aria_label=node.title)


def _drift(node: rx.Var[Node]) -> rx.Component:
    mark = icon("arrow-left-right", "xs", class_name="t-amb")
    return rx.el.span(mark, title=node.drift, role="img", aria_label=node.drift, class_name="ry-drift")


def _group_marks(node: rx.Var[Node]) -> rx.Component:
    return rx.cond(
        node.is_open,
        rx.fragment(icon("chevron-down", "xs"), icon("folder-open")),
        rx.fragment(icon("chevron-right", "xs"), icon("folder")),
    )


def _node(node: rx.Var[Node]) -> rx.Component:
    module_marks = rx.fragment(rx.el.span(class_name="ry-tree-gap"), icon("box"))
    is_chosen = ModulesState.chosen == node.key
    return rx.el.button(
        rx.cond(node.is_group, _group_marks(node), module_marks),
        rx.el.span(node.name, class_name="ry-el"),
        rx.cond(node.drift != "", _drift(node)),
        rx.cond(node.is_group, rx.el.span(node.count, class_name="ry-n"), _dot(node)),
        class_name="rt-reset ry-tn",
        role="treeitem",
        type="button",
        style={"--d": node.depth.to_string()},
        custom_attrs={
            "aria-level": node.depth + 1,
            "aria-selected": is_chosen,
            "aria-expanded": rx.cond(node.is_group, node.is_open, None),
            "data-row": node.key,
            "data-open": "",
            "data-module": node.path,
        },
        on_click=ModulesState.choose(node.key),
        key=node.key,
    )


def _search() -> rx.Component:
    return search_box(
        "module-search", "Filter modules", ModulesState.search_for, ModulesState.clear_search, class_name=""
    )


def _drift_filter() -> rx.Component:
    """One click shows the modules with drift alone; the count is of all of them."""
    words = rx.cond(ModulesState.drifted == 1, "1 with drift", ModulesState.drifted.to_string() + " with drift")
    button = small_button(
        icon("arrow-left-right"),
        words,
        on_click=ModulesState.toggle_drift,
        color_scheme=rx.cond(ModulesState.only_drift, "amber", "gray"),
        custom_attrs={"aria-pressed": ModulesState.only_drift},
    )
    return rx.el.div(button, class_name="ry-tree-search")


def _new_menu() -> rx.Component:
    button = quiet_button(icon("plus"), "New", custom_attrs={"data-key": "n"})
    menu = dropdown(
        button,
        rx.dropdown_menu.item(icon("box"), "Module", on_select=ModuleFormState.new_module),
        rx.dropdown_menu.item(icon("download"), "From a repository", on_select=rx.redirect(at(MOVE_IN))),
        rx.dropdown_menu.item(icon("folder"), "Group", on_select=ModuleFormState.new_group),
    )
    return rx.cond(SessionState.can_write, menu)


def module_tree() -> rx.Component:
    nothing = rx.el.p("No module is called “", ModulesState.search, "”.", class_name="mut ry-tree-none")
    shared = page_link(
        "Variables", href="/dashboard/modules/variables", title="Of the whole organisation", class_name="ry-a"
    )
    total = rx.cond(ModulesState.total == 1, "1 module", ModulesState.total.to_string() + " modules")
    return rx.el.section(
        rx.el.div(_search(), class_name="ry-tree-search"),
        rx.cond((ModulesState.drifted > 0) | ModulesState.only_drift, _drift_filter()),
        rx.cond(
            (ModulesState.nodes.length() == 0) & (ModulesState.search != ""),
            nothing,
            rx.el.div(
                rx.foreach(ModulesState.nodes, _node), role="tree", aria_label="Modules", class_name="ry-tree-list"
            ),
        ),
        rx.el.div(
            rx.el.span(total, class_name="num"),
            rx.el.span(class_name="grow"),
            shared,
            _new_menu(),
            class_name="ry-foot",
        ),
        class_name="ry-panel ry-tree-panel",
        aria_label="Groups and modules",
    )


def module_picker(chosen: rx.Var[str]) -> rx.Component:
    """The narrow screen's way to the tree: the path of what is chosen, which opens the tree under it."""
    return rx.el.details(
        rx.el.summary(
            icon("folder-tree", class_name="mut"),
            rx.el.span(rx.cond(chosen != "", chosen, "Choose a module"), class_name="ry-mono grow ry-el"),
            icon("chevrons-up-down", class_name="mut"),
            class_name="rt-SelectTrigger rt-r-size-2 rt-variant-surface ry-picker",
        ),
        rx.el.div(
            rx.foreach(ModulesState.nodes, _node), role="tree", aria_label="Modules", class_name="ry-panel ry-tree-list"
        ),
        class_name="ry-pick ry-pick-tree",
    )
