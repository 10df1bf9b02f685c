"""Beside the log: approvals, state, outputs, events."""

from typing import Any

import reflex as rx

from app.jobs.state.actions import JobActionState
from app.jobs.state.job import ApprovalView, JobState
from app.jobs.view.detail import EVENT_WORDS, EventView, OutputView
from app.shared.elements import ago, clock_seconds, clock_time
from app.shared.icons import icon
from app.shared.session import SessionState

View = JobState.view


def _panel(title: str, aside: Any, *children: Any) -> rx.Component:
    return rx.el.section(
        rx.el.div(rx.el.h2(title), aside, class_name="ry-ph"), *children, class_name="ry-panel", aria_label=title
    )


def _item(mark: rx.Component, title: Any, text: Any, *more: Any) -> rx.Component:
    return rx.el.li(mark, rx.el.div(title, rx.el.small(text), class_name="grow"), *more)


def _approval(approval: rx.Var[ApprovalView]) -> rx.Component:
    mark = rx.cond(
        approval["decision"] == "approve",
        icon("circle-check", class_name="t-grn"),
        icon("circle-x", class_name="t-red"),
    )
    said = rx.cond(approval["comment"] != "", ", “" + approval["comment"].to(str) + "”", "")
    return _item(mark, approval["label"], rx.fragment(clock_time(approval["at"].to(str)), said))


def _override() -> rx.Component:
    act = JobActionState.decide("override")
    return rx.button("Approve my own", on_click=act, variant="surface", color_scheme="gray")


def _decide() -> rx.Component:
    plan_words = rx.cond(
        View["plan_job_id"].to(int) > 0,
        rx.fragment("You approve the plan of #", View["plan_job_id"], ". A new plan asks again."),
        "You approve that it plans and then makes what the plan says.",
    )
    # Who asked does not approve; the database lets an owner whom nobody else could approve for do so, and asks for the reason.
    may_override = JobState.is_own & (SessionState.role == "owner")
    return rx.el.div(
        rx.input(
            id="approval-comment",
            default_value="",
            placeholder=rx.cond(may_override, "Why, if nobody else can approve it", "Comment (optional)"),
            aria_label="Comment",
            on_blur=JobActionState.set_comment,
            auto_complete="off",
        ),
        rx.el.div(
            rx.button(
                icon("check"),
                "Approve",
                on_click=JobActionState.decide("approve"),
                color_scheme="gray",
                high_contrast=True,
            ),
            rx.button("Reject", on_click=JobActionState.decide("reject"), variant="surface", color_scheme="gray"),
            rx.cond(may_override, _override(), rx.fragment()),
            class_name="ry-acts",
        ),
        rx.cond(
            JobState.is_own,
            rx.el.small("You asked for it: somebody else approves it, unless nobody else could.", class_name="ry-hint"),
            rx.fragment(),
        ),
        rx.el.small(plan_words, class_name="ry-hint"),
        class_name="ry-sheetpart",
    )


def _still_asked(count: Any) -> rx.Component:
    words = rx.cond(count == 1, "One more operator or admin", count.to_string() + " more operators or admins")
    return rx.el.li(icon("circle-dashed", class_name="mut"), rx.el.div(words, class_name="grow mut"))


def _none_asked() -> rx.Component:
    words = rx.match(
        View["type"],
        ("APPLY", "No approvals required."),
        ("DESTROY", "No approvals required."),
        "No approval needed: plans are read-only.",
    )
    return rx.el.div(words, class_name="ry-pb mut")


def approvals() -> rx.Component:
    """Who agreed, who is still asked, and the buttons for those who may."""
    required, received = JobState.approvals_required, JobState.approvals_received
    is_open = View["status"] == "AWAITING_APPROVAL"
    given = rx.el.ul(
        rx.foreach(JobState.approvals, _approval),
        rx.cond(is_open & (required > received), _still_asked(required - received), rx.fragment()),
        class_name="ry-list",
    )
    may_decide = is_open & SessionState.can_operate & ~JobState.has_decided
    return _panel(
        "Approvals",
        rx.cond(required > 0, rx.el.span(f"{received} of {required}", class_name="mut num"), rx.fragment()),
        rx.cond(required > 0, given, _none_asked()),
        rx.cond(may_decide, _decide(), rx.fragment()),
    )


def state() -> rx.Component:
    """The state lock with its proof, and the last version."""
    found = JobState.state
    is_mine = found.lock_job == View["id"]
    holder = rx.cond(
        is_mine,
        "Locked by this job",
        rx.cond(found.lock_job > 0, "Locked by #" + found.lock_job.to_string(), "Locked by " + found.lock_who),
    )
    proof = rx.fragment(
        rx.cond(found.lock_attempt > 0, "Attempt " + found.lock_attempt.to_string() + ", since ", "Since "),
        clock_seconds(found.lock_at),
        rx.cond(found.lock_id != "", rx.fragment(", id ", rx.el.span(found.lock_id, class_name="ry-mono")), ""),
    )
    tone = rx.cond(
        View["status"] == "NEEDS_ATTENTION", icon("lock", class_name="t-org"), icon("lock", class_name="t-amb")
    )
    lock = _item(tone, holder, proof)
    unlocked = _item(icon("lock-open", class_name="mut"), "Not locked", "No job is writing it.")
    serial = rx.cond(
        found.serial > 0,
        _item(
            icon("history", class_name="mut"),
            rx.el.span("Serial ", found.serial, class_name="num"),
            rx.fragment("Written ", ago(found.updated_at)),
        ),
        _item(icon("history", class_name="mut"), "No state yet", "The first apply writes it."),
    )
    panel = _panel(
        "State", rx.fragment(), rx.el.ul(rx.cond(found.is_locked, lock, unlocked), serial, class_name="ry-list")
    )
    return rx.cond(found.is_known, panel, rx.fragment())


def _output(output: rx.Var[OutputView]) -> rx.Component:
    secret = rx.el.span(icon("eye-off"), "secret", class_name="ry-row c6 mut")
    value = rx.el.span(output["value"], class_name="ry-mono ry-breaks")
    return rx.el.li(
        rx.el.div(
            rx.el.span(output["name"], class_name="ry-mono"),
            rx.cond(output["is_secret"], secret, value),
            class_name="grow",
        )
    )


def outputs() -> rx.Component:
    """What the state answers; secret values stay on the runner."""
    panel = _panel(
        "Outputs",
        rx.el.span(JobState.outputs.length(), class_name="mut num"),
        rx.el.ul(rx.foreach(JobState.outputs, _output), class_name="ry-list"),
    )
    return rx.cond(JobState.outputs.length() > 0, panel, rx.fragment())


def _event_icon(name: rx.Var[str]) -> rx.Component:
    names = sorted({icon_name for icon_name, _ in EVENT_WORDS.values()})
    return rx.match(name, *[(each, icon(each)) for each in names], icon("dot"))


def _event(event: rx.Var[EventView]) -> rx.Component:
    return rx.el.li(
        clock_seconds(event["at"].to(str), class_name="num"),
        _event_icon(event["icon"].to(str)),
        rx.el.span(event["words"]),
        key=event["key"],
    )


def events() -> rx.Component:
    """What happened, newest first."""
    more = rx.el.div(
        rx.el.span(rx.cond(JobState.is_all_events, "", JobState.more_events.to_string() + " more"), class_name="num"),
        rx.el.span(class_name="grow"),
        rx.button(
            rx.cond(JobState.is_all_events, "Show few", "Show all"),
            on_click=JobState.show_events,
            variant="ghost",
            color_scheme="gray",
            size="1",
        ),
        class_name="ry-foot",
    )
    return _panel(
        "Events",
        rx.fragment(),
        rx.el.ul(rx.foreach(JobState.events, _event), class_name="ry-ev three"),
        rx.cond((JobState.more_events > 0) | JobState.is_all_events, more, rx.fragment()),
    )
