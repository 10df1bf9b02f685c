"""A job's page: facts, what needs you, timeline, log, and beside it plan, approvals, state and events."""

from functools import partial

import reflex as rx

from app.frame.layout import Route, page, page_key
from app.frame.not_found import absent
from app.frame.session import SessionState
from app.jobs.components.attention import attention, check_note, failure, late_report, out_of_contact, slimmed
from app.jobs.components.checks import checks_panel
from app.jobs.components.dialogs import job_dialogs
from app.jobs.components.header import job_facts, job_head, stage_line
from app.jobs.components.kept_states import kept_dialogs, kept_states
from app.jobs.components.plan import plan_panel
from app.jobs.components.policy_test import policy_test_panel
from app.jobs.components.rail import approvals, events, given_variables, outputs, record, state
from app.jobs.components.review import comments, decision_bar
from app.jobs.components.why import Enable, why_panel
from app.jobs.log.panel import log, scripts, short_timeline, timeline
from app.jobs.state.actions import JobActionState
from app.jobs.state.job import JobState
from app.jobs.state.kept_states import KeptStatesState
from app.ui.controls import download_icon, icon
from app.ui.elements import since
from app.ui.panel import or_problem, skeleton_panels

View = JobState.view


def _timeline() -> rx.Component:
    taken = since(View["created_at"].to(str), View["ended_at"].to(str))
    words = rx.cond(View["ended_at"] == "", " since it was requested", " in total")
    label, href = "Download events and timeline", "/api/jobs/" + View["id"].to_string() + "/record.json"
    export = download_icon(href, label, f"{label} as JSON", **{"data-testid": "record"})
    fold = rx.icon_button(
        rx.cond(JobState.is_line_open, icon("chevron-up"), icon("chevron-down")),
        on_click=JobState.fold_line,
        variant="ghost",
        color_scheme="gray",
        size="1",
        aria_label="Show the steps",
        title="Show the steps",
        aria_expanded=JobState.is_line_open,
        custom_attrs={"data-testid": "timeline-steps"},
    )
    head = rx.el.div(
        rx.el.h2("Timeline", class_name="ry-h2"),
        rx.el.span(taken, words, class_name="mut num"),
        rx.cond(JobState.is_line_open, rx.el.span(class_name="grow"), short_timeline(JobState.line)),
        export,
        fold,
        class_name="ry-tl1",
    )
    return rx.el.section(
        head, rx.cond(JobState.is_line_open, timeline(JobState.line)), class_name="ry-panel", aria_label="Timeline"
    )


def _log() -> rx.Component:
    return log(
        job=JobState.log_job,
        attempt=JobState.log_attempt,
        day=JobState.log_day,
        seq=JobState.log_seq,
        status=JobState.log_status,
        steps=JobState.log_steps,
        main=JobState.log_main,
        plan=JobState.log_plan,
        phase=JobState.log_phase,
        note=JobState.log_note,
        link=SessionState.link,
        custom_attrs={"role": "region", "aria-label": "Log"},
    )


def _job(on_enable: Enable) -> rx.Component:
    rail = (approvals(), comments(), outputs(), state(), record(), given_variables(), events())
    return rx.fragment(
        job_head(),
        job_facts(),
        stage_line(),
        slimmed(),
        failure(),
        out_of_contact(),
        attention(),
        late_report(),
        kept_states(),
        check_note(),
        rx.cond(JobState.why.is_known & View["is_waiting"], why_panel(JobState.why, on_enable)),
        rx.el.div(
            # The checks and the plan are above the log before, during and after the apply: they have one place.
            rx.el.div(policy_test_panel(), checks_panel(), plan_panel(), _log(), _timeline(), class_name="ry-stack"),
            rx.el.div(*rail, class_name="ry-stack"),
            class_name="ry-cols",
        ),
    )


def _skeleton() -> rx.Component:
    return rx.el.div(*skeleton_panels("52px", "67px", "220px", "360px"), class_name="ry-stack", aria_busy="true")


def job(on_enable: Enable) -> rx.Component:
    """The job's page; `on_enable` enables a runner that the job waits for."""
    none = absent("All jobs", "/dashboard/jobs", "no-such-job")
    shown = rx.cond(JobState.is_found, _job(on_enable), rx.cond(JobState.is_loading, _skeleton(), none))
    return page(
        scripts(),
        page_key("needed", JobActionState.next_needed),
        or_problem(JobState, "The job", shown, is_page=True),
        title=rx.cond(JobState.is_found, "#" + View["number"].to_string(), "Job"),
        active="jobs",
        crumbs=(("Jobs", "/dashboard/jobs"),),
        dialogs=[*job_dialogs(), *kept_dialogs()],
        foot=decision_bar(),
    )


def routes(on_enable: Enable) -> tuple[Route, ...]:
    """The page's address; what enables a runner is passed in, because runners are above jobs."""
    loads = [JobActionState.close, KeptStatesState.close, JobState.load]
    return (Route("/dashboard/jobs/[number]", "Job", partial(job, on_enable), loads),)
