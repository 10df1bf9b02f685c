"""The review page: all plans of a set by the steps of their order; all or some of them are applied or approved."""

import reflex as rx

from app.frame.layout import JOBS, Route, head, page, place_tabs
from app.frame.session import SessionState
from app.jobs.components.table import plan_counts
from app.triggers.components.triggers import schedule_dialogs, triggers_panel
from app.triggers.state.review import ReviewState
from app.triggers.state.triggers import TriggersState
from app.triggers.view.review import ReviewRow, StepView
from app.ui.badges import job_badge
from app.ui.controls import act_button, page_link
from app.ui.dialog import question
from app.ui.panel import or_problem, titled_panel

State = ReviewState


def _row(row: rx.Var[ReviewRow]) -> rx.Component:
    key, path = row["id"].to(str), row["path"].to(str)
    box = rx.checkbox(
        checked=State.chosen.contains(key),
        on_change=lambda is_on: State.choose(key, is_on),
        disabled=~row["is_open"].to(bool),
        custom_attrs={"aria-label": "Choose " + path},
    )
    number = row["number"].to(str)
    job = rx.cond(
        number != "",
        page_link("#", number, href="/dashboard/jobs/" + number, class_name="ry-a num"),
        rx.el.span("–", class_name="mut"),
    )
    return rx.el.li(
        rx.cond(SessionState.can_operate, box),
        rx.el.div(
            page_link(path, href="/dashboard/modules?path=" + path, class_name="ry-a ry-mono ry-breaks"),
            rx.cond(row["note"] != "", rx.el.small(row["note"], class_name="ry-breaks")),
            class_name="grow",
        ),
        rx.cond(row["has_plan"], plan_counts(row)),
        job,
        rx.cond(row["status"] != "", job_badge(row["status"].to(str))),
        key=key,
        custom_attrs={"data-testid": "review-row"},
    )


def _step(step: rx.Var[StepView]) -> rx.Component:
    label, rows = step["label"].to(str), step["rows"].to(list[ReviewRow])
    choices = rx.fragment(
        rx.button(
            "All", on_click=State.choose_step(label, True), size="1", variant="ghost", aria_label="All of " + label
        ),
        rx.button(
            "None", on_click=State.choose_step(label, False), size="1", variant="ghost", aria_label="None of " + label
        ),
    )
    return titled_panel(
        label,
        (
            rx.el.span(rows.length(), class_name="mut num"),
            rx.el.span(class_name="grow"),
            rx.cond(SessionState.can_operate, choices),
        ),
        rx.el.ul(rx.foreach(rows, _row), class_name="ry-list"),
        key=label,
    )


def _acts() -> rx.Component:
    count = State.chosen.length()
    words = rx.cond(State.review["is_plan"].to(bool), "Apply chosen plans (", "Approve chosen jobs (")
    act = act_button(
        words, count, ")", on_click=State.ask(True), disabled=(count == 0) | State.is_busy, class_name="num"
    )
    ask = question(
        is_open=State.is_asking,
        title=rx.fragment("Apply ", count, " of the plans below?"),
        text="Each plan is applied exactly as it is shown, after those that it depends on. A failure leaves out what "
        "depends on it. Jobs that wait for approval are approved.",
        act="Confirm",
        on_act=State.confirm,
        on_keep=State.ask(False),
        is_danger=False,
    )
    return rx.cond(SessionState.can_operate, rx.fragment(act, ask))


def _body() -> rx.Component:
    loading = rx.el.div(class_name="ry-panel ry-skel-block", style={"height": "320px"}, aria_busy="true")
    steps = State.review["steps"].to(list[StepView])
    shown = rx.cond(steps.length() > 0, rx.fragment(rx.foreach(steps, _step)), loading)
    return or_problem(State, "The review", shown, is_page=True)


def review() -> rx.Component:
    path = rx.cond(State.review["path"] != "", State.review["path"], "All modules").to(str)
    line = State.review["title"].to(str) + ": " + State.review["line"].to(str)
    is_known = State.review["title"] != ""
    return page(
        head(rx.cond(is_known, path, "Review").to(str), rx.cond(is_known, line, "").to(str), _acts()),
        _body(),
        title="Review",
        active="modules",
        crumbs=(("Modules", "/dashboard/modules"),),
    )


def schedules() -> rx.Component:
    return page(
        head("Schedules", "Schedules, pushes and pull requests start jobs."),
        place_tabs("Jobs", JOBS, "Schedules"),
        triggers_panel(),
        title="Schedules",
        active="jobs",
        crumbs=JOBS[:1],
        dialogs=schedule_dialogs(),
    )


ROUTES = (
    Route("/dashboard/jobs/schedules", "Schedules", schedules, TriggersState.load),
    Route("/dashboard/modules/review", "Review", review, [ReviewState.load]),
)
