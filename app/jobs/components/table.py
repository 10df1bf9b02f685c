"""A job as a row of a table: number and type, status with its reason, plan counts."""

from collections.abc import Callable
from typing import Any

import reflex as rx

from app.frame.session import SessionState
from app.jobs.view.queue import Runner, Why
from app.ui.badges import job_badge, tag
from app.ui.controls import icon, page_link, small_button
from app.ui.elements import ago
from app.ui.panel import titled_panel


def job_link(job: Any) -> rx.Component:
    number = job["number"].to_string()
    link = page_link("#" + number, href="/dashboard/jobs/" + number, class_name="num", custom_attrs={"data-open": ""})
    plan = rx.cond(job["is_run"], rx.fragment(tag("PLAN", is_mono=True), icon("arrow-right", "xs")))
    kind = rx.el.span(plan, tag(job["type"], is_mono=True), class_name="ry-row c3")
    return rx.el.div(link, kind, class_name="ry-row")


def plan_counts(job: Any) -> rx.Component:
    """The numbers of resources that a plan adds, changes and destroys; zeros are muted."""
    added, changed, removed = (job[name].to(int) for name in ("added", "changed", "removed"))
    return rx.el.span(
        rx.el.span("+", added, class_name=rx.cond(added > 0, "p-c", "mut")),
        "\u2002",
        rx.el.span("~", changed, class_name=rx.cond(changed > 0, "p-u", "mut")),
        "\u2002",
        rx.el.span("−", removed, class_name=rx.cond(removed > 0, "p-d", "mut")),
        class_name="num",
    )


def job_status(job: Any) -> rx.Component:
    counts = rx.el.span(plan_counts(job), class_name="ry-why hide-s")
    why = rx.el.span(job["reason"], class_name="ry-why hide-s ry-el", title=job["reason"])
    waiting = page_link(
        "Why waiting?", href="/dashboard/jobs/" + job["number"].to_string(), class_name="ry-why mut hide-s"
    )
    said = rx.cond((job["status"] == "QUEUED") & (job["reason"] == ""), waiting, why)
    return rx.el.div(
        job_badge(job["status"].to(str)),
        rx.cond(job["has_plan"], counts),
        rx.cond(job["has_plan"] & (job["reason"] == ""), rx.fragment(), said),
        class_name="ry-row",
    )


Enable = Callable[[rx.Var[str]], rx.event.EventType[()]]


def _mark(runner: rx.Var[Runner]) -> rx.Component:
    return rx.match(
        runner.icon,
        ("circle-check", icon("circle-check", class_name="t-grn")),
        ("hourglass", icon("hourglass", class_name="t-amb")),
        rx.match(
            runner.tone,
            ("t-red", icon("circle-slash", class_name="t-red")),
            ("t-amb", icon("circle-slash", class_name="t-amb")),
            icon("circle-slash", class_name="mut"),
        ),
    )


def _line(runner: rx.Var[Runner], on_enable: Enable) -> rx.Component:
    button = small_button("Enable", aria_label="Enable " + runner.name, on_click=on_enable(runner.id))
    return rx.el.li(
        _mark(runner),
        page_link(runner.name, href="/dashboard/runners/" + runner.id, class_name="ry-a"),
        rx.el.span(runner.reason, rx.cond(runner.help != "", " " + runner.help, ""), class_name="why"),
        rx.el.span(rx.cond(runner.can_enable & SessionState.can_admin, button)),
    )


def why_body(why: rx.Var[Why], on_enable: Enable, *, is_flat: bool = False) -> rx.Component:
    """Write the answer; `on_enable` gets a runner's id from admins, who may switch it on again."""
    return rx.el.div(
        rx.el.p(rx.el.b(why.summary, style={"font_weight": "600"}), " ", rx.el.span(why.help, class_name="mut")),
        rx.cond(
            why.runners.length() > 0,
            rx.el.ul(rx.foreach(why.runners, lambda runner: _line(runner, on_enable)), class_name="ry-wl"),
        ),
        class_name="ry-wb flat" if is_flat else "ry-wb",
    )


def why_row(why: rx.Var[Why], columns: int, on_enable: Enable) -> rx.Component:
    """The answer as a row that opens under a job's row."""
    return rx.el.tr(
        rx.el.td(why_body(why, on_enable), col_span=columns, role="cell"), class_name="ry-explain", role="row"
    )


def why_panel(why: rx.Var[Why], on_enable: Enable) -> rx.Component:
    return titled_panel(
        "Why is it waiting?",
        (
            rx.cond(why.position != "", rx.el.span(why.position, class_name="mut")),
            rx.el.span(class_name="grow"),
            rx.el.span("checked ", ago(why.checked_at), class_name="mut num"),
        ),
        why_body(why, on_enable, is_flat=True),
    )
