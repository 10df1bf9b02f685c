"""A plan by resource: symbol, colour and word; while it is applied, how far it is."""

from typing import Any

import reflex as rx

from app.jobs.view.plan import Plan, Resource
from app.shared.icons import icon

PARTS = (
    ("create", "+", "p-c", "green"),
    ("update", "~", "p-u", "amber"),
    ("replace", "±", "p-r", "violet"),
    ("delete", "−", "p-d", "red"),
)


def _bar(plan: rx.Var[Plan]) -> rx.Component:
    parts = [
        rx.cond(
            getattr(plan, f"{name}s") > 0,
            rx.el.i(style={"flex": getattr(plan, f"{name}s").to_string(), "background": f"var(--{colour}-9)"}),
            rx.fragment(),
        )
        for name, _, _, colour in PARTS
    ]
    return rx.el.div(*parts, class_name="ry-plan", aria_hidden="true")


def _counts(plan: rx.Var[Plan]) -> rx.Component:
    counts = [
        rx.cond(
            getattr(plan, f"{name}s") > 0,
            rx.el.span(symbol, getattr(plan, f"{name}s"), f" {name}", class_name=style),
            rx.fragment(),
        )
        for name, symbol, style, _ in PARTS
    ]
    return rx.el.div(*counts, class_name="ry-row num ry-plan-counts")


def _mark(resource: rx.Var[Resource]) -> rx.Component:
    return rx.match(
        resource.state,
        ("DONE", icon("circle-check", class_name="t-grn", aria_label="done")),
        ("RUNNING", icon("loader-circle", class_name="t-blu ry-spin", aria_label="in progress")),
        ("FAILED", icon("circle-x", class_name="t-red", aria_label="failed")),
        ("PENDING", icon("circle-dashed", class_name="mut", aria_label="not yet")),
        rx.fragment(),
    )


def _resource(resource: rx.Var[Resource]) -> rx.Component:
    return rx.el.li(
        rx.el.span(resource.symbol, class_name="ry-sym " + resource.style.to(str), title=resource.word),
        rx.el.span(resource.address),
        rx.el.span(resource.word, class_name="sr"),
        _mark(resource),
    )


def _words(plan: rx.Var[Plan]) -> rx.Component:
    total = rx.cond(plan.total == 1, "1 resource", plan.total.to_string() + " resources")
    return rx.el.span(total, rx.cond(plan.is_applied, ", " + plan.done.to_string() + " done", ""), class_name="mut num")


def _output(output: rx.Var[str]) -> rx.Component:
    return rx.el.li(rx.el.span("○", class_name="ry-sym mut", aria_hidden="true"), rx.el.span(output))


def plan_panel(plan: rx.Var[Plan], more: rx.Var[int], is_all: rx.Var[bool], on_more: Any) -> rx.Component:
    """The plan, its first resources, and the rest on demand."""
    nothing = rx.el.div("No changes. Infrastructure matches the configuration.", class_name="ry-pb mut")
    foot = rx.el.div(
        rx.el.span(rx.cond(is_all, "", more.to_string() + " more"), class_name="num"),
        rx.el.span(class_name="grow"),
        rx.button(
            rx.cond(is_all, "Show few", "Show all"), on_click=on_more, variant="ghost", color_scheme="gray", size="1"
        ),
        class_name="ry-foot",
    )
    has_changes = plan.total > 0
    body = rx.fragment(
        rx.el.div(_bar(plan), _counts(plan), class_name="ry-pb ry-plan-head"),
        rx.el.ul(rx.foreach(plan.resources, _resource), class_name="ry-pl ry-plan-list"),
    )
    outputs = rx.el.ul(rx.foreach(plan.outputs, _output), class_name="ry-pl ry-plan-list")
    return rx.el.section(
        rx.el.div(rx.el.h2("Plan"), rx.cond(has_changes, _words(plan), rx.fragment()), class_name="ry-ph"),
        rx.cond(has_changes, body, nothing),
        rx.cond(plan.outputs.length() > 0, outputs, rx.fragment()),
        rx.cond((more > 0) | is_all, foot, rx.fragment()),
        class_name="ry-panel",
        aria_label="Plan",
    )
