"""The graph page: which module depends on which, drawn by steps, and in words in a table."""

import reflex as rx

from app.frame.layout import Route, head, page
from app.modules.state.graph import GraphState
from app.modules.view.graph import EdgeView, NodeView, StepView
from app.triggers.components.work import set_panels, work_buttons
from app.triggers.state.work import WorkState
from app.ui.badges import job_badge, pill, status_mark
from app.ui.controls import at, icon, page_link
from app.ui.panel import empty, or_problem, titled_panel
from app.ui.resource import Column, rows_table, unmarked

State = GraphState


def _step(step: rx.Var[StepView]) -> rx.Component:
    return rx.el.span(step["label"], class_name="ry-gl", style={"left": step["left"], "top": "0"})


def _node(node: rx.Var[NodeView]) -> rx.Component:
    state = rx.cond(
        node["changed"] != "",
        rx.fragment(
            icon("arrow-left-right", "xs", class_name="t-amb"), rx.el.span("Inputs changed", class_name="t-amb")
        ),
        rx.fragment(status_mark(node["status"].to(str)), rx.el.span(node["words"], class_name="ry-el")),
    )
    number = rx.cond(node["job"] != "", rx.el.span("#", node["job"], class_name="num"))
    return rx.el.a(
        rx.el.b(node["path"], class_name="ry-el"),
        rx.el.span(state, number, class_name="ry-row c6"),
        href=at(node["href"].to(str)),
        title=node["path"].to(str),
        class_name="ry-gn",
        style={"left": node["left"], "top": node["top"]},
        key=node["path"].to(str),
        # The table below has the same links, in an order that a keyboard can follow.
        tab_index=-1,
        custom_attrs={"data-step": node["step"]},
    )


def _edge(edge: rx.Var[EdgeView]) -> rx.Component:
    # The middle one is wide and unseen: a line of one pixel could not be pointed at.
    lines = [rx.el.svg.path(d=edge["line"].to(str), class_name=name) for name in ("l", "p")]
    return rx.el.svg.g(
        rx.el.svg.title(edge["words"]),
        *lines,
        rx.el.svg.path(d=edge["head"].to(str), class_name="h"),
        key=edge["words"],
    )


def _drawing() -> rx.Component:
    graph = State.graph
    edges = rx.el.svg(rx.foreach(graph["edges"].to(list[EdgeView]), _edge), class_name="e", aria_hidden="true")
    return rx.el.div(
        rx.el.div(
            rx.foreach(graph["steps"].to(list[StepView]), _step),
            edges,
            rx.foreach(graph["nodes"].to(list[NodeView]), _node),
            style={"width": graph["width"], "height": graph["height"]},
        ),
        class_name="ry-graph",
        role="group",
        aria_label="Dependency graph, in words in the table below",
        tab_index=0,
        custom_attrs={"data-testid": "graph"},
    )


def _state(node: rx.Var[NodeView]) -> rx.Component:
    job = page_link("#", node["job"], href="/dashboard/jobs/" + node["job"].to(str), class_name="ry-a num")
    badge = rx.cond(node["status"] != "", rx.fragment(job_badge(node["status"].to(str)), job), node["words"])
    changed = pill("Inputs changed: ", node["changed"], color="amber")
    return rx.el.span(badge, rx.cond(node["changed"] != "", changed), class_name="ry-row c6 wrap")


def _takes(node: rx.Var[NodeView]) -> rx.Component:
    return rx.el.span(rx.cond(node["takes"] != "", node["takes"], "–").to(str), class_name="ry-mono ry-breaks")


def _link(node: rx.Var[NodeView]) -> rx.Component:
    return page_link(node["path"], href=node["href"].to(str), class_name="ry-a ry-mono ry-breaks")


COLUMNS = (
    Column("Module", _link, "n-a"),
    Column("Step", lambda node: rx.fragment("Step ", node["step"]), "num n-d"),
    Column("State", _state, "n-b"),
    Column("Depends on", _takes, "n-c"),
    Column("Used by", "used_by", "r num hide-s"),
)


def _rows() -> rx.Component:
    alone = State.graph["alone"].to(int)
    foot = rx.el.div(
        rx.el.span(
            alone,
            rx.cond(alone == 1, " more module has no dependencies", " more modules have no dependencies"),
            class_name="num",
        ),
        class_name="ry-foot",
    )
    return titled_panel(
        "Modules in order",
        None,
        rows_table("Modules in order", COLUMNS, State.graph["nodes"].to(list[NodeView]), unmarked, key="path"),
        rx.cond(alone > 0, foot),
    )


def _body() -> rx.Component:
    nothing = rx.el.section(
        empty(
            "waypoints",
            "No dependencies",
            "Add them on the page of a module. All modules of a group then apply in that order.",
            page_link("Open modules", href="/dashboard/modules", class_name="ry-link"),
            test_id="no-dependencies",
        ),
        class_name="ry-panel",
    )
    loading = rx.el.div(class_name="ry-panel ry-skel-block", style={"height": "320px"}, aria_busy="true")
    shown = rx.cond(
        State.graph["nodes"].to(list[NodeView]).length() > 0,
        rx.fragment(_drawing(), _rows()),
        rx.cond(State.is_loading, loading, nothing),
    )
    return or_problem(State, "The graph", shown, is_page=True)


def graph() -> rx.Component:
    title = rx.cond(State.path != "", State.path, "All modules").to(str)
    return page(
        head(title, State.graph["said"].to(str), rx.cond(State.path != "", work_buttons())),
        set_panels(),
        _body(),
        title="Graph",
        active="modules",
        crumbs=(("Modules", "/dashboard/modules"), (State.path, "/dashboard/modules?path=" + State.path)),
    )


ROUTES = (Route("/dashboard/modules/graph", "Graph", graph, [GraphState.load, WorkState.follow]),)
