"""Deciding about a plan: what it was made from, the bar with the decision, and what members say about it."""

from typing import Any

import reflex as rx

from app.frame.session import may
from app.jobs.state.actions import JobActionState
from app.jobs.state.job import JobState
from app.jobs.state.run import RunState
from app.jobs.view.reviews import Comment
from app.ui.controls import act_button, icon, number_link, plain_button
from app.ui.elements import clock_time, zoned_time
from app.ui.panel import titled_panel

View = JobState.view
Planned = JobState.planned
DISCARDS = "Discard is final: nothing is changed, and this plan is never applied."
COUNTS = (("creates", "+", "p-c"), ("updates", "~", "p-u"), ("replaces", "±", "p-r"), ("deletes", "−", "p-d"))


def planned_from() -> rx.Component:
    """The foot of a plan that waits: from which revision and state it was made, and what ends it."""
    number = Planned.number.to_string()
    other = rx.fragment(" by ", number_link(number))
    words = rx.el.span(
        "Planned",
        rx.cond(Planned.number > 0, other),
        rx.cond(Planned.runner != "", " on " + Planned.runner, ""),
        rx.cond(Planned.source != "", rx.fragment(" from ", rx.el.span(Planned.source, class_name="ry-mono")), ""),
        ", against ",
        rx.cond(Planned.serial >= 0, "serial " + Planned.serial.to_string(), "no state"),
        ".",
        rx.cond(View["is_before_run"], " If the state changes before the apply starts, this plan is refused.", ""),
    )
    return rx.cond(Planned.is_known, rx.el.div(words, class_name="ry-foot"))


def _counts() -> rx.Component:
    parts = [
        rx.el.span(
            symbol, getattr(JobState.plan, name), class_name=rx.cond(getattr(JobState.plan, name) > 0, style, "mut")
        )
        for name, symbol, style in COUNTS
    ]
    return rx.cond(JobState.plan.is_known, rx.el.span(*parts, class_name="sum"))


def _own() -> Any:
    """The sentence that explains why the requester of a job cannot confirm it."""
    return rx.cond(
        JobState.own_rule == "alone",
        "You requested it, and nobody else here can approve it: you may, with a reason, under Approvals.",
        "You requested this job, so somebody else approves it.",
    )


def _missing() -> Any:
    """Describe the effect of the decision on the approvals that the job requires."""
    required, received = JobState.approvals_required, JobState.approvals_received
    given = received.to_string() + " of " + required.to_string() + " approvals. "
    last = rx.cond(
        received + 1 >= required, "Confirming gives the last one, and it starts.", "Confirming gives one more."
    )
    alone = "Confirming starts it. No runner is reserved: any eligible one applies the saved plan."
    deadline = rx.cond(
        Planned.deadline != "",
        rx.fragment(" It expires at ", zoned_time(Planned.deadline), "."),
    )
    words = rx.cond(required > 0, given + rx.cond(JobState.own_rule != "", _own(), last), alone)
    return rx.fragment(words, deadline, " ", DISCARDS)


def discard_button() -> rx.Component:
    return plain_button(
        "Discard", on_click=JobActionState.ask("discard"), title=DISCARDS, custom_attrs={"data-testid": "discard"}
    )


def _sentence() -> Any:
    blind = "It has no plan yet: it plans and applies without review. Anyone who approves it approves any plan."
    outdated = "The state has moved on since this plan. It can no longer be applied."
    planned = rx.fragment(JobState.plan_words, " ", JobState.checks_missing)
    known = rx.cond(JobState.plan.is_known, planned, blind)
    return rx.cond(Planned.is_outdated, outdated, known)


def _message() -> rx.Component:
    said = rx.el.b("“", View["message"], "” ", custom_attrs={"data-testid": "decision-message"})
    return rx.cond(View["message"] != "", said)


def _acts() -> rx.Component:
    is_last = (JobState.approvals_received + 1) >= JobState.approvals_required
    label = rx.cond(
        JobState.plan.is_known & is_last,
        rx.cond(View["type"] == "DESTROY", "Confirm and destroy", "Confirm and apply"),
        "Approve",
    )
    confirm = rx.button(
        icon("check"),
        label,
        on_click=JobActionState.decide("approve"),
        color_scheme=rx.cond(View["type"] == "DESTROY", "red", "gray"),
        high_contrast=View["type"] != "DESTROY",
        disabled=(JobState.own_rule != "") | (is_last & (JobState.checks_missing != "")),
        title=rx.cond(JobState.own_rule != "", _own(), ""),
        custom_attrs={"data-testid": "confirm"},
    )
    again = act_button(
        icon("rotate-cw"),
        "Plan again",
        on_click=RunState.plan_to_apply(View["module_id"].to(str), View["type"] == "DESTROY"),
    )
    # Without approvals, confirming is what runs it.
    may_confirm = may("job.apply") | (JobState.approvals_required > 0)
    go = rx.cond(Planned.is_outdated, rx.cond(may("job.apply"), again), rx.cond(may_confirm, confirm))
    return rx.el.div(discard_button(), go, class_name="ry-acts")


def decision_bar() -> rx.Component:
    """The decision at the foot of the page: numbers, who is missing, the two acts."""
    bar = rx.el.div(
        rx.el.div(_counts(), rx.el.p(_message(), rx.el.span(_sentence()), rx.el.small(_missing())), _acts()),
        class_name="ry-decide",
        role="region",
        aria_label="Decision",
        custom_attrs={"data-testid": "decision"},
    )
    return rx.cond(JobState.is_found & can_decide(), bar)


def can_decide() -> Any:
    return (View["status"] == "AWAITING_APPROVAL") & may("job.approve") & ~JobState.has_decided


def _comment(comment: rx.Var[Comment]) -> rx.Component:
    return rx.el.li(
        rx.el.header(rx.el.b(comment["who"]), clock_time(comment["at"].to(str))),
        rx.el.p(comment["body"], class_name="ry-breaks"),
        key=comment["id"],
    )


def comments() -> rx.Component:
    """The panel of the members' comments on the job, with a field for a new one."""
    field = rx.form(
        rx.input(
            id="job-comment",
            name="body",
            placeholder="Write a comment",
            aria_label="Write a comment",
            auto_complete="off",
            max_length=4000,
            required=True,
        ),
        plain_button("Send", type="submit"),
        on_submit=JobActionState.say,
        reset_on_submit=True,
        class_name="ry-say",
    )
    return titled_panel(
        "Comments",
        rx.el.span(JobState.comments.length(), class_name="mut num"),
        rx.el.ul(rx.foreach(JobState.comments, _comment), class_name="ry-th"),
        field,
        custom_attrs={"data-testid": "comments"},
    )
