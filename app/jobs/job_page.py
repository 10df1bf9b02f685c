"""A job's page: facts, what needs you, timeline, log, and beside it plan, approvals, state and events."""

import reflex as rx

from app.jobs.components.attention import attention, failure, late_report, out_of_contact
from app.jobs.components.dialogs import job_dialogs
from app.jobs.components.header import job_facts, job_head
from app.jobs.components.kept_states import kept_dialogs, kept_states
from app.jobs.components.log import log, scripts, timeline
from app.jobs.components.plan import plan_panel
from app.jobs.components.rail import approvals, events, outputs, state
from app.jobs.state.actions import JobActionState
from app.jobs.state.job import JobState
from app.jobs.state.kept_states import KeptStatesState
from app.shared.elements import since
from app.shared.feedback import empty, failed
from app.shared.job.why import why_panel
from app.shared.layout import page
from app.shared.route import Route
from app.shared.runner.actions import RunnerActionState
from app.shared.session import SessionState

View = JobState.view


def _timeline() -> rx.Component:
    taken = since(View["created_at"].to(str), View["ended_at"].to(str))
    words = rx.cond(View["ended_at"] == "", " since it was requested", " from first to last")
    asked = rx.el.span(taken, words, class_name="mut num")
    return rx.el.section(
        rx.el.div(rx.el.h2("Timeline"), asked, class_name="ry-ph"),
        timeline(JobState.line),
        class_name="ry-panel",
        aria_label="Timeline",
    )


def _log() -> rx.Component:
    return log(
        job=View["id"],
        attempt=View["attempt_number"],
        seq=JobState.log_seq,
        status=View["status"],
        steps=JobState.log_steps,
        main=JobState.log_main,
        note=JobState.log_note,
        link=SessionState.link,
        custom_attrs={"role": "region", "aria-label": "Log"},
    )


def _why() -> rx.Component:
    panel = rx.cond(
        SessionState.can_admin,
        why_panel(JobState.why, RunnerActionState.enable),
        why_panel(JobState.why),
    )
    return rx.cond(JobState.why.is_known & View["is_waiting"], panel, rx.fragment())


def _plan() -> rx.Component:
    panel = plan_panel(JobState.plan, JobState.more_resources, JobState.is_all_resources, JobState.show_resources)
    return rx.cond(JobState.plan.is_known, panel, rx.fragment())


def _job() -> rx.Component:
    return rx.fragment(
        job_head(),
        job_facts(),
        failure(),
        out_of_contact(),
        attention(),
        late_report(),
        kept_states(),
        _why(),
        _timeline(),
        rx.el.div(
            rx.el.div(_log(), class_name="ry-stack"),
            rx.el.div(_plan(), approvals(), outputs(), state(), events(), class_name="ry-stack"),
            class_name="ry-cols",
        ),
    )


def _skeleton() -> rx.Component:
    def block(height: str) -> rx.Component:
        return rx.el.div(class_name="ry-panel ry-skel-block", style={"height": height}, aria_hidden="true")

    return rx.el.div(
        block("52px"), block("67px"), block("220px"), block("360px"), class_name="ry-stack", aria_busy="true"
    )


def _absent() -> rx.Component:
    back = rx.link(rx.button("All jobs", variant="surface", color_scheme="gray"), href="/dashboard/jobs")
    text = "It may belong to another organisation, or the address is wrong."
    return rx.el.section(empty("file-question", "This job is not here", text, back), class_name="ry-panel")


def job() -> rx.Component:
    """The job's page."""
    problem = rx.el.section(
        failed("The job could not be loaded", JobState.problem, JobState.problem_hint, JobState.load),
        class_name="ry-panel",
    )
    return page(
        scripts(),
        rx.cond(
            JobState.problem != "",
            problem,
            rx.cond(JobState.is_found, _job(), rx.cond(JobState.is_loading, _skeleton(), _absent())),
        ),
        title="#" + View["id"].to_string(),
        active="jobs",
        crumbs=(("Jobs", "/dashboard/jobs"),),
        dialogs=[*job_dialogs(), *kept_dialogs()],
    )


ROUTES = (Route("/dashboard/jobs/[job_id]", "Job", job, [JobActionState.close, KeptStatesState.close, JobState.load]),)
