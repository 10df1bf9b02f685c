"""The page of one change: the modules of a commit or pull request, its events and its reports."""

from typing import Any

import reflex as rx

from app.frame.layout import Route, head, page
from app.frame.session import SessionState
from app.triggers.components.marks import result_mark
from app.triggers.state.change import ChangeState
from app.triggers.view.change import ChangedModule, ChangeEvent
from app.ui.controls import icon, link_button, number_link, page_link
from app.ui.elements import clock_seconds, since
from app.ui.panel import empty, or_problem, titled_panel
from app.ui.resource import Column, rows_table

State = ChangeState
Change = ChangeState.change


def _button(icon_name: str, label: str, event: Any, is_shown: Any, **props: Any) -> rx.Component:
    button = rx.button(icon(icon_name), label, on_click=event, color_scheme="gray", **props)
    return rx.cond(is_shown & SessionState.can_operate, button)


def _acts() -> rx.Component:
    words = (icon("external-link"), "Open on ", Change["provider"])
    there = link_button(*words, href=Change["href"].to(str), size="2", attrs={}, target="_blank", rel="noreferrer")
    return rx.fragment(
        rx.cond(Change["href"] != "", there),
        _button("rotate-cw", "Plan again", State.plan_again, Change["is_open_pull"].to(bool), variant="surface"),
        _button("x", "Reject", State.review("reject"), Change["can_review"].to(bool), variant="surface"),
        _button("check", "Approve", State.review("approve"), Change["can_review"].to(bool), variant="surface"),
        _button("play", "Apply now", State.apply, Change["can_apply"].to(bool), high_contrast=True),
    )


def _fact(label: str, value: Any) -> rx.Component:
    shown = rx.el.div(rx.el.dt(label), rx.el.dd(rx.el.span(value, class_name="ry-mono")))
    return rx.cond(value != "", shown)


def _facts() -> rx.Component:
    return rx.el.dl(
        _fact("Repository", Change["repository"]),
        _fact("Branch", Change["place"]),
        _fact("Commit", Change["head"]),
        _fact("Base", Change["base"]),
        _fact("By", Change["author"]),
        class_name="ry-panel ry-facts",
    )


def _module(row: rx.Var[ChangedModule]) -> rx.Component:
    path = row["path"].to(str)
    return rx.el.div(
        page_link(path, href="/dashboard/modules?path=" + path, class_name="ry-a ry-mono ry-breaks"),
        rx.cond(row["note"] != "", rx.el.small(row["note"], class_name="sm")),
    )


def _job(row: rx.Var[ChangedModule]) -> rx.Component:
    number = row["job"].to_string()
    return rx.cond(row["job"].to(int) > 0, number_link(number))


COLUMNS = (
    Column("Module", _module, "n-a wrap"),
    Column("Result", lambda row: result_mark(row["state"].to(str), row["result"]), "n-b"),
    Column("Changes", lambda row: rx.cond(row["counts"] != "", row["counts"], "none").to(str), "num n-c"),
    Column("Job", _job, "r num n-d"),
    Column("Time", lambda row: since(row["began_at"].to(str), row["ended_at"].to(str)), "r mut num hide-s"),
)


def _mark(row: rx.Var[ChangedModule]) -> dict[str, Any]:
    return {"data-row": row["path"], "data-state": row["state"]}


def _modules() -> rx.Component:
    rows = Change["rows"].to(list[ChangedModule])
    none = empty("circle-slash", "No modules", Change["description"].to(str), test_id="no-modules")
    note = rx.el.p(Change["note"], class_name="ry-pb t-amb", custom_attrs={"data-testid": "change-note"})
    return rx.el.section(
        rx.el.div(
            rx.el.h2("Modules"), result_mark(Change["state"].to(str), Change["description"]), class_name="ry-ph wrap"
        ),
        rx.cond(Change["note"] != "", note),
        rx.cond(rows.length() > 0, rows_table("Modules", COLUMNS, rows, _mark, key="path"), none),
        class_name="ry-panel",
        aria_label="Modules",
    )


def _list(title: str, key: str, icon_name: str) -> rx.Component:
    def line(event: rx.Var[ChangeEvent]) -> rx.Component:
        below = rx.el.small(clock_seconds(event["at"].to(str)), ", ", event["detail"], class_name="num")
        text = rx.el.div(event["words"], below, class_name="grow")
        return rx.el.li(icon(icon_name, class_name="mut"), text, key=event["key"])

    rows = Change[key].to(list[ChangeEvent])
    panel = titled_panel(title, None, rx.el.ul(rx.foreach(rows, line), class_name="ry-list"))
    return rx.cond(rows.length() > 0, panel)


def _mode() -> rx.Component:
    modes = Change["modes"].to(list[str])
    panel = titled_panel("Apply", None, rx.foreach(modes, lambda words: rx.el.p(words, class_name="ry-pb ry-hint")))
    return rx.cond(modes.length() > 0, panel)


def _body() -> rx.Component:
    reports, deliveries = _list("Reported", "reports", "list-checks"), _list("Deliveries", "deliveries", "webhook")
    rail = rx.el.div(_mode(), reports, deliveries, class_name="ry-stack")
    shown = rx.fragment(
        head(Change["title"].to(str), "", _acts()),
        _facts(),
        rx.el.div(rx.el.div(_modules(), class_name="ry-stack"), rail, class_name="ry-cols"),
    )
    loading = rx.el.div(class_name="ry-panel ry-skel-block", style={"height": "320px"}, aria_busy="true")
    return or_problem(State, "The change", rx.cond(Change["title"] != "", shown, loading), is_page=True)


def change() -> rx.Component:
    return page(
        _body(),
        title=rx.cond(Change["title"] != "", Change["title"], "Change").to(str),
        active="jobs",
        crumbs=(("Jobs", "/dashboard/jobs"),),
    )


ROUTES = (Route("/dashboard/changes/[connection]/[what]", "Change", change, [ChangeState.load]),)
