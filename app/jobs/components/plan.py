"""A plan by resource: symbol, colour and word; while it is applied, how far it is."""

from typing import Any

import reflex as rx

from app.jobs.components.review import planned_from
from app.jobs.state.job import JobState
from app.jobs.view.plan import Attribute, Resource
from app.ui.controls import download_icon, icon, icon_button
from app.ui.panel import titled_panel
from app.ui.table import more_foot

PARTS = (
    ("create", "+", "p-c", "green"),
    ("update", "~", "p-u", "amber"),
    ("replace", "±", "p-r", "violet"),
    ("delete", "−", "p-d", "red"),
)
MARKS = (
    ("DONE", "circle-check", "t-grn", "done"),
    ("RUNNING", "loader-circle", "t-blu ry-spin", "in progress"),
    ("STOPPED", "circle-slash", "t-org", "begun, not ended"),
    ("FAILED", "circle-x", "t-red", "failed"),
    ("PENDING", "circle-dashed", "mut", "not begun"),
)


def _number(name: str) -> Any:
    return getattr(JobState.plan, f"{name}s")


def _bar() -> rx.Component:
    parts = [
        rx.cond(
            _number(name) > 0,
            rx.el.i(style={"flex": _number(name).to_string(), "background": f"var(--{colour}-9)"}),
        )
        for name, _, _, colour in PARTS
    ]
    return rx.el.div(*parts, class_name="ry-plan", aria_hidden="true")


def _counts() -> rx.Component:
    """The number of resources of each kind; a press shows only that kind, a second press all again."""
    counts = [
        rx.cond(
            _number(name) > 0,
            rx.el.button(
                symbol,
                _number(name),
                f" {name}",
                on_click=JobState.choose_kind(name),
                class_name=f"rt-reset ry-kind {style}",
                type="button",
                title=rx.cond(JobState.kind == name, "Show all resources", f"Show only what it will {name}"),
                custom_attrs={"aria-pressed": JobState.kind == name, "data-testid": f"kind-{name}"},
            ),
        )
        for name, symbol, style, _ in PARTS
    ]
    return rx.el.div(*counts, class_name="ry-row num ry-plan-counts", role="group", aria_label="Filter the plan")


def _mark(resource: rx.Var[Resource]) -> rx.Component:
    """Show in words what an apply has done to a resource: a phone has no tooltips."""
    return rx.match(
        resource.state,
        *(
            (state, rx.el.span(icon(name, class_name=style), word, class_name="ry-row c6 mut"))
            for state, name, style, word in MARKS
        ),
        rx.fragment(),
    )


def _side(text: rx.Var[str], note: rx.Var[str], name: str) -> rx.Component:
    return rx.el.span(rx.cond(note != "", rx.el.em(note), rx.el.b(text)), class_name=name)


def _attribute(attribute: rx.Var[Attribute]) -> rx.Component:
    forcing = rx.el.em(" forces replacement", class_name="p-r")
    return rx.el.li(
        rx.el.span(attribute.symbol, class_name="ry-sym " + attribute.style.to(str), aria_hidden="true"),
        rx.el.span(attribute.path, rx.cond(attribute.is_forcing, forcing), class_name="k"),
        _side(attribute.old, attribute.old_note, "o"),
        icon("arrow-right", "s", aria_label="becomes"),
        _side(attribute.new, attribute.new_note, "w"),
    )


def _changes(resource: rx.Var[Resource]) -> rx.Component:
    note = rx.el.li(rx.el.span(), rx.el.span(resource.note, class_name="rest"))
    return rx.el.ul(
        rx.foreach(resource.attributes, _attribute),
        rx.cond(resource.note != "", note),
        class_name="ry-df",
        custom_attrs={"data-testid": "plan-attributes"},
    )


def _address_part(part: rx.Var[str], place: rx.Var[int]) -> rx.Component:
    """One part of an address, which breaks before its dots rather than inside a name."""
    return rx.fragment(rx.cond(place > 0, rx.fragment(rx.el.wbr(), ".")), part)


def _resource(resource: rx.Var[Resource]) -> rx.Component:
    """One resource; it unfolds to its attributes, and leads to its lines in the log."""
    fold = rx.el.button(
        icon("chevron-right", "s", class_name="ry-fold"),
        rx.el.span(resource.symbol, class_name="ry-sym " + resource.style.to(str), aria_hidden="true"),
        rx.el.span(resource.word.to(str).capitalize(), class_name="wd " + resource.style.to(str)),
        rx.el.span(rx.foreach(resource.address.to(str).split("."), _address_part), class_name="ad"),
        on_click=JobState.open_resource(resource.address),
        class_name="rt-reset ry-rr-open",
        aria_expanded=resource.is_open,
        type="button",
    )
    leads = {"data-log-find": resource.address, "data-local": ""}
    label = "Show " + resource.address.to(str) + " in the log"
    jump = icon_button("scroll-text", label, title="Show in the log", type="button", custom_attrs=leads)
    return rx.el.div(
        rx.el.div(fold, _mark(resource), jump, class_name="hd"),
        rx.cond(resource.is_open, _changes(resource)),
        class_name="ry-rr",
        key=resource.address,
        custom_attrs={"data-testid": "plan-resource"},
    )


def _words() -> rx.Component:
    plan = JobState.plan
    total = rx.cond(plan.total == 1, "1 resource", plan.total.to_string() + " resources")
    return rx.el.span(total, rx.cond(plan.is_applied, ", " + plan.done.to_string() + " done", ""), class_name="mut num")


def _output(output: rx.Var[str]) -> rx.Component:
    return rx.el.li(rx.el.span("○", class_name="ry-sym mut", aria_hidden="true"), rx.el.span(output))


def plan_panel() -> rx.Component:
    """The plan, its first resources, the rest on demand, and what it was made from; nothing where there is no plan."""
    same = rx.cond(
        JobState.view["is_refresh_only"].to(bool),
        "No drift. Infrastructure matches the state.",
        "No changes. Infrastructure matches the configuration.",
    )
    plan, nothing = JobState.plan, rx.el.div(same, class_name="ry-pb mut")
    has_changes = plan.total > 0
    body = rx.fragment(
        rx.el.div(_bar(), _counts(), class_name="ry-pb ry-plan-head"), rx.foreach(plan.resources, _resource)
    )
    label, href = "Download the plan", "/api/jobs/" + JobState.view["id"].to_string() + "/plan.json"
    download = download_icon(href, label, f"{label} as JSON", **{"data-testid": "plan-file"})
    words = rx.fragment(_words(), rx.el.span(class_name="grow"), download)
    outputs = rx.el.ul(rx.foreach(plan.outputs, _output), class_name="ry-pl ry-plan-list")
    panel = titled_panel(
        "Plan",
        rx.cond(has_changes, words),
        rx.cond(has_changes, body, nothing),
        rx.cond(plan.outputs.length() > 0, outputs),
        more_foot(JobState.more_resources, JobState.is_all_resources, JobState.show_resources),
        planned_from(),
        custom_attrs={"data-testid": "plan"},
    )
    return rx.cond(plan.is_known, panel)
