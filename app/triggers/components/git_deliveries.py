"""Deliveries of repositories: one row for each event, which unfolds to the reason for each module."""

import reflex as rx

from app.triggers.components.marks import verdict_mark
from app.triggers.state.git import EVERY, GitState
from app.triggers.view.git import DeliveryView, ModuleVerdict
from app.ui.controls import choice, icon, offered, page_link
from app.ui.elements import clock_seconds
from app.ui.panel import empty, settings_panel
from app.ui.table import cell, heads, older_foot, table

State = GitState
HEADS = (("Time", ""), ("Event", ""), ("Repository", ""), ("Ref", ""), ("Verdict", ""))


def _module(module: rx.Var[ModuleVerdict]) -> rx.Component:
    path = module["path"].to(str)
    mark = rx.cond(
        module["verdict"] == "PLANNED", icon("circle-check", class_name="t-grn"), icon("circle-slash", class_name="mut")
    )
    return rx.el.li(
        mark,
        page_link(path, href="/dashboard/modules?path=" + path, class_name="ry-a ry-mono ry-breaks"),
        rx.el.span(module["reason"], class_name="why"),
        key=path,
        custom_attrs={"data-verdict": module["verdict"]},
    )


def _why(row: rx.Var[DeliveryView]) -> rx.Component:
    modules = row["modules"].to(list[ModuleVerdict])
    number = row["job"].to_string()
    job = page_link("job #" + number, href="/dashboard/jobs/" + number, class_name="ry-a num")
    planned = rx.el.span(
        "Jobs: ",
        rx.foreach(
            row["jobs"].to(list[int]),
            lambda each: page_link(
                "#" + each.to_string(), " ", href="/dashboard/jobs/" + each.to_string(), class_name="ry-a num"
            ),
        ),
    )
    sender = rx.cond(row["sender"] != "", rx.el.span("Caused by ", row["sender"], ". "))
    body = rx.el.div(
        rx.el.p(rx.el.b(row["reason"], class_name="ry-medium")),
        rx.cond(modules.length() > 0, rx.el.ul(rx.foreach(modules, _module), class_name="ry-wl")),
        rx.el.p(
            sender,
            rx.cond(row["job"].to(int) > 0, rx.fragment("Decided by ", job, ". ")),
            rx.cond(row["jobs"].to(list[int]).length() > 0, planned),
            class_name="ry-hint",
        ),
        class_name="ry-wb",
    )
    return rx.el.tr(
        rx.el.td(body, col_span=len(HEADS), role="cell", class_name="n-w"),
        class_name="ry-explain",
        role="row",
        custom_attrs={"data-testid": "delivery-why"},
    )


def _linked(row: rx.Var[DeliveryView], shown: rx.Component) -> rx.Component:
    link = page_link(shown, href=row["change"].to(str), class_name="ry-a")
    return rx.cond(row["change"] != "", link, shown)


def _place(row: rx.Var[DeliveryView]) -> rx.Component:
    branch = rx.el.span(row["ref"], class_name="ry-mono", style={"overflow_wrap": "break-word"})
    pull = _linked(row, rx.el.span("Pull request ", row["pull_request"]))
    place = rx.cond(row["pull_request"] != "", pull, branch)
    commit = _linked(row, rx.el.small(row["commit"], class_name="sm ry-mono"))
    return rx.el.div(place, rx.cond(row["commit"] != "", commit))


def _event(row: rx.Var[DeliveryView], is_open: rx.Var[bool]) -> rx.Component:
    return rx.el.span(
        rx.el.button(
            icon("chevron-right"),
            on_click=State.unfold(row["id"].to(str)),
            class_name="rt-reset ry-chev",
            aria_expanded=rx.cond(is_open, "true", "false"),
            aria_label="Why: delivery " + row["id"].to(str),
        ),
        rx.el.span(row["event"]),
        class_name="ry-row c6",
    )


def _row(row: rx.Var[DeliveryView]) -> rx.Component:
    is_open = State.unfolded == row["id"]
    verdict = rx.el.div(verdict_mark(row["verdict"].to(str)), rx.el.small(row["reason"], class_name="sm hide-s"))
    shown = rx.el.tr(
        cell(clock_seconds(row["at"].to(str)), class_name="mut num n-d"),
        cell(_event(row, is_open), class_name="n-a"),
        cell(rx.el.span(row["short"], class_name="ry-mono", title=row["repository"].to(str)), class_name="mut hide-s"),
        cell(_place(row), class_name="wrap n-c"),
        cell(verdict, class_name="n-b wrap"),
        role="row",
        custom_attrs={"data-row": row["id"], "data-verdict": row["verdict"]},
    )
    return rx.fragment(shown, rx.cond(is_open, _why(row)), key=row["id"])


def _choice() -> rx.Component:
    return choice(
        "Repository",
        {EVERY: "All repositories"},
        offered(State.rows),
        value=State.only,
        on_change=State.show_only,
        width=None,
    )


def deliveries_panel() -> rx.Component:
    none = empty("webhook", "No deliveries yet", "Each push and pull request shows up here with its verdict and why.")
    shown = rx.fragment(table("Deliveries", heads(*HEADS), rx.foreach(State.deliveries, _row)), older_foot(State))
    panel = settings_panel(
        "Deliveries",
        "What each event led to, and why. Kept for 30 days.",
        _choice(),
        rx.cond(State.deliveries.length() > 0, shown, none),
    )
    return rx.cond(State.rows.length() > 0, panel)
