"""Beside the log: approvals, state, outputs, events."""

from typing import Any

import reflex as rx

from app.frame.session import may
from app.jobs.state.actions import JobActionState
from app.jobs.state.job import JobState
from app.jobs.view.detail import EventView, OutputView
from app.jobs.view.events import JOB_EVENTS
from app.jobs.view.facts import GivenView
from app.jobs.view.reviews import ApprovalView
from app.ui.controls import copy_icon, icon, known_icon, link_button, plain_button
from app.ui.elements import DOWNLOAD, ago, clock_seconds, clock_time, date, doc_link
from app.ui.panel import titled_panel
from app.ui.table import more_foot

View = JobState.view


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
    """The field and the button with which an owner approves their own job, with a reason, where nobody else could approve it."""
    return rx.el.div(
        rx.input(
            id="approval-comment",
            default_value="",
            placeholder="Why you approve it yourself",
            aria_label="Reason for approving my own job",
            on_blur=JobActionState.set_comment,
            auto_complete="off",
            custom_attrs={"data-needed": ""},
        ),
        rx.el.div(plain_button("Approve my own", on_click=JobActionState.decide("override")), class_name="ry-acts"),
        rx.el.small(
            "You requested it. You may approve it all the same, as nobody else here can: give a reason.",
            class_name="ry-hint",
        ),
        class_name="ry-sheetpart",
    )


def _none_asked() -> rx.Component:
    confirmed = rx.cond(
        JobState.planned.is_confirmed_by_hand,
        "No approvals required: one person confirms the plan.",
        "No approvals required.",
    )
    by_itself = rx.cond(
        JobState.planned.is_known, confirmed, "No approvals required. It plans and applies without review."
    )
    words = rx.match(
        View["type"], ("APPLY", by_itself), ("DESTROY", by_itself), "No approval needed: plans are read-only."
    )
    return rx.el.div(words, class_name="ry-pb mut")


def approvals() -> rx.Component:
    """The panel of approvals: the decisions, the number still missing, and the override for a member who may use it."""
    required, received = JobState.approvals_required, JobState.approvals_received
    is_open = View["status"] == "AWAITING_APPROVAL"
    left = required - received
    words = rx.cond(left == 1, "One more approval", left.to_string() + " more approvals")
    asked = _item(icon("circle-dashed", class_name="mut"), words, "May approve: " + JobState.approvers)
    given = rx.el.ul(
        rx.foreach(JobState.approvals, _approval),
        rx.cond(is_open & (left > 0), asked),
        class_name="ry-list",
    )
    may_override = may("job.approve") & (JobState.own_rule == "alone") & ~JobState.has_decided
    return titled_panel(
        "Approvals",
        rx.cond(required > 0, rx.el.span(f"{received} of {required}", class_name="mut num")),
        rx.cond((required > 0) | (JobState.approvals.length() > 0), given, _none_asked()),
        rx.cond(may_override, _override()),
    )


def state() -> rx.Component:
    found = JobState.state
    is_mine = found.lock_job == View["number"]
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
    own = _item(
        icon("history", class_name="mut"),
        rx.el.span("Serial ", found.own_serial, class_name="num"),
        rx.fragment(
            "Written by this job ",
            ago(found.own_at),
            rx.cond(found.own_serial < found.serial, "; now serial " + found.serial.to_string(), ""),
        ),
    )
    present = _item(
        icon("history", class_name="mut"),
        rx.el.span("Serial ", found.serial, class_name="num"),
        rx.fragment("Written ", ago(found.updated_at)),
    )
    writer = rx.cond(found.is_locked & is_mine, "This job has written none.", "The first apply writes it.")
    none = _item(icon("history", class_name="mut"), "No state yet", writer)
    serial = rx.cond(found.own_at != "", own, rx.cond(found.updated_at != "", present, none))
    custom = {"data-testid": "state", "data-locked": found.is_locked}
    panel = titled_panel(
        "State",
        rx.fragment(),
        rx.el.ul(rx.cond(found.is_locked, lock, unlocked), serial, class_name="ry-list", custom_attrs=custom),
    )
    return rx.cond(found.is_known, panel)


def outputs() -> rx.Component:
    """The panel of the state's outputs; secret values stay on the runner."""
    panel = titled_panel(
        "Outputs",
        rx.el.span(JobState.outputs.length(), class_name="mut num"),
        rx.el.ul(rx.foreach(JobState.outputs, output_item), class_name="ry-list"),
    )
    return rx.cond(JobState.outputs.length() > 0, panel)


def _event(event: rx.Var[EventView]) -> rx.Component:
    return rx.el.li(
        clock_seconds(event["at"].to(str), class_name="num"),
        known_icon(event["icon"], (name for name, _ in JOB_EVENTS.values()), "dot"),
        rx.el.span(event["words"]),
        key=event["key"],
        custom_attrs={"data-event": event["name"]},
    )


def events() -> rx.Component:
    return titled_panel(
        "Events",
        rx.fragment(),
        rx.el.ul(rx.foreach(JobState.events, _event), class_name="ry-ev three"),
        more_foot(JobState.more_events, JobState.is_all_events, JobState.show_events),
    )


def _given(row: rx.Var[GivenView]) -> rx.Component:
    note = rx.cond(row["note"] != "", rx.fragment(", ", row["note"]))
    text = rx.el.div(rx.el.span(row["name"], class_name="ry-mono"), rx.el.small(row["source"], note), class_name="grow")
    return rx.el.li(icon("variable", class_name="mut"), text)


def given_variables() -> rx.Component:
    """The variables that the job was given, with their versions; nothing where it was given none."""
    rows = JobState.given
    panel = titled_panel(
        "Variables",
        rx.el.span(rows.length(), class_name="mut num"),
        rx.el.ul(rx.foreach(rows, _given), class_name="ry-list"),
    )
    return rx.cond(rows.length() > 0, panel)


def record() -> rx.Component:
    """Whether the record is signed and its chain complete, and the file to verify; nothing for a run without one."""
    found = JobState.record
    href = "/api/jobs/" + JobState.view["id"].to_string() + "/record.dsse.json"
    look: dict[str, Any] = {"size": "1", "attrs": {"data-testid": "signed-record", **DOWNLOAD}}
    download = link_button(icon("download"), "Download", href=href, look="rt-Button rt-variant-ghost", **look)
    mark = rx.match(
        found["tone"],
        ("signed", icon("shield-check", class_name="t-grn")),
        ("broken", icon("circle-x", class_name="t-red")),
        icon("circle-dashed", class_name="mut"),
    )
    since = rx.cond(found["since"] != "", date(found["since"].to(str)))
    words = rx.el.div(
        rx.el.span(found["words"], since),
        rx.el.small(found["place"], ". ", doc_link("Verify it yourself", "records")),
        class_name="grow",
    )
    panel = titled_panel(
        "Record",
        (rx.el.span(class_name="grow"), rx.cond(found["tone"] == "signed", download)),
        rx.el.ul(rx.el.li(mark, words), class_name="ry-list", custom_attrs={"data-testid": "record-status"}),
    )
    return rx.cond(found["tone"] != "", panel)


def output_item(output: rx.Var[OutputView]) -> rx.Component:
    """One output; of a sensitive one the name, and a word instead of the value."""
    name = output["name"].to(str)
    secret = rx.el.span(icon("eye-off"), "sensitive", class_name="ry-row c6 mut")
    value = rx.el.span(output["value"], class_name="ry-mono ry-breaks")
    copy = copy_icon(output["value"].to(str), "Copy the output " + name)
    return rx.el.li(
        rx.el.div(
            rx.el.span(name, class_name="ry-mono"), rx.cond(output["is_secret"], secret, value), class_name="grow"
        ),
        rx.cond(output["is_secret"], rx.fragment(), copy),
    )
