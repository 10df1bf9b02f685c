"""Scaling on a cloud-hosted runner's page: limits in the rail, the ledger of decisions in the main column."""

from typing import Any

import reflex as rx

from app.frame.session import SessionState
from app.runners.state.runner import RunnerState
from app.runners.state.scaling import RunnerScalingState
from app.ui.badges import pill
from app.ui.controls import icon, small_button
from app.ui.elements import clock_time, doc_link
from app.ui.panel import titled_panel

State = RunnerScalingState
FIELDS = (
    ("min", "Minimum tasks", "0 lets it sleep"),
    ("max", "Maximum tasks", "Upper limit, whatever the queue"),
    ("jobs_per_task", "Jobs per task", "What one task runs at a time"),
    ("idle_seconds", "Idle time, seconds", "Wait before removing an extra task"),
)


def _field(name: str, label: str, hint: str) -> rx.Component:
    problem = State.errors[name]
    return rx.el.div(
        rx.el.label(label, html_for=f"scaling-{name}", class_name="ry-lab"),
        rx.input(
            id=f"scaling-{name}",
            name=name,
            type="number",
            default_value=State.limits[name],
            disabled=~SessionState.can_admin,
            aria_describedby=f"scaling-{name}-hint",
        ),
        rx.el.small(rx.cond(problem, rx.el.span(problem, class_name="t-red"), hint), id=f"scaling-{name}-hint"),
        class_name="ry-f",
    )


def scaling_limits() -> rx.Component:
    fields = [_field(*field) for field in FIELDS]
    save = small_button("Save", type="submit")
    form = rx.el.form(
        rx.el.div(*fields[:2], class_name="ry-two"),
        rx.el.div(*fields[2:], class_name="ry-two"),
        rx.cond(SessionState.can_admin, rx.el.div(save, class_name="ry-acts")),
        on_submit=State.save,
        no_validate=True,
        key=State.revision.to_string(),
        class_name="ry-pb",
    )
    panel = titled_panel("Scaling", (rx.el.span(class_name="grow"), doc_link("How it decides", "scale-to-zero")), form)
    return rx.cond(RunnerState.row["is_cloud"], panel)


def _decision(item: Any) -> rx.Component:
    mark = rx.match(item["icon"], ("up", icon("trending-up")), ("down", icon("trending-down")), icon("info"))
    rehearsal = pill("dry run")
    return rx.el.li(
        clock_time(item["at"]),
        mark,
        rx.el.span(rx.el.span(item["counts"], class_name="num"), " ", item["reason"]),
        rx.cond(item["is_rehearsal"], rehearsal),
        key=item["id"],
    )


def scaling_ledger() -> rx.Component:
    none = rx.el.p("No decisions yet. One is recorded when the number changes.", class_name="mut ry-pb")
    rows = rx.el.ul(rx.foreach(State.decisions, _decision), class_name="ry-ev", style={"padding_bottom": "10px"})
    panel = titled_panel("Scaling decisions", None, rx.cond(State.decisions.length() > 0, rows, none))
    return rx.cond(RunnerState.row["is_cloud"], panel)
