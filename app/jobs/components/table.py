"""A job as a row of a table: number and type, status with its reason, plan counts."""

from typing import Any

import reflex as rx

from app.ui.badges import job_badge, tag
from app.ui.controls import icon, page_link


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
