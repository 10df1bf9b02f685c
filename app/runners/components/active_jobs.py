"""Active jobs: what waits or runs, and why what waits is waiting."""

from typing import Any

import reflex as rx

from app.jobs.components.why import why_row
from app.runners.state.actions import RunnerActionState
from app.runners.state.runners import FEW_JOBS, RunnersState
from app.ui.badges import job_badge, tag
from app.ui.controls import icon, page_link, quiet_button
from app.ui.elements import since
from app.ui.panel import empty, skeleton_rows, titled_panel
from app.ui.table import bare_table, cell, fresh_button, heads, holding, more_button

HEADS = (
    ("Job", "c-xl"),
    ("Module", ""),
    ("Status", "c-xl"),
    ("Runner", "hide-u c-l"),
    ("Time", "r c-m"),
    ("Requested by", "hide-n c-xl"),
    ("Actions", "r c-xl"),
)


def _why(job: Any) -> rx.Component:
    why = RunnersState.why
    is_about = why.is_known & (why.job_id == job["id"].to_string())
    return rx.cond(is_about, why_row(why, len(HEADS), RunnerActionState.enable))


def _action(job: Any) -> rx.Component:
    is_asked = RunnersState.why.job_id == job["id"].to_string()
    return rx.cond(
        job["status"] == "QUEUED",
        cell(
            quiet_button(
                "Why waiting?",
                rx.cond(is_asked, icon("chevron-up"), icon("chevron-down")),
                on_click=RunnersState.ask_why(job["id"]),
                aria_expanded=rx.cond(is_asked, "true", "false"),
            ),
            class_name="r n-w",
        ),
        cell(
            page_link(
                quiet_button(icon("scroll-text"), "Log"),
                href="/dashboard/jobs/" + job["number"].to_string(),
                underline="none",
                tab_index=-1,
            ),
            class_name="r hide-s",
        ),
    )


def _job(job: Any) -> rx.Component:
    href = "/dashboard/jobs/" + job["number"].to_string()
    row = rx.el.tr(
        cell(
            rx.el.div(
                page_link("#" + job["number"].to_string(), href=href, class_name="num", custom_attrs={"data-open": ""}),
                tag(job["type"], is_mono=True),
                class_name="ry-row",
            ),
            class_name="n-a",
        ),
        cell(rx.el.span(job["path"], class_name="ry-mono"), class_name="n-c"),
        cell(job_badge(job["status"].to(str)), class_name="n-b"),
        cell(job["runner"], class_name="mut hide-s hide-u"),
        cell(since(job["since"].to(str)), class_name="r num n-d"),
        cell(job["by"], class_name="mut hide-s hide-n ry-by", title=job["by"]),
        _action(job),
        role="row",
        tab_index=-1,
        custom_attrs={"data-row": job["id"].to_string()},
    )
    return rx.fragment(row, _why(job), key=job["id"].to_string())


def _table() -> rx.Component:
    is_waiting = RunnersState.is_loading & (RunnersState.job_count == 0)
    rows = rx.cond(is_waiting, skeleton_rows(HEADS, 3), rx.foreach(RunnersState.jobs, _job))
    table = bare_table("Active jobs", heads(*HEADS), rows, class_name="ry-active ry-fixed")
    return holding(table, lambda is_held: RunnersState.hold("jobs", is_held), RunnersState.held_tables.contains("jobs"))


def _foot() -> rx.Component:
    more = more_button(RunnersState.is_all_jobs, RunnersState.show_all_jobs)
    return rx.cond(
        (RunnersState.job_count > FEW_JOBS) | (RunnersState.fresh_job_count > 0),
        rx.el.div(
            rx.el.span(f"Showing {RunnersState.jobs.length()} of {RunnersState.job_count}", class_name="num"),
            rx.el.span(class_name="grow"),
            fresh_button(RunnersState.fresh_job_count, RunnersState.show_fresh),
            rx.cond(RunnersState.job_count > FEW_JOBS, more),
            class_name="ry-foot",
        ),
    )


def active_jobs() -> rx.Component:
    nothing = empty(
        "circle-check",
        "Nothing is running",
        "Jobs show up here the moment they are requested.",
        test_id="no-active-jobs",
    )
    has_table = RunnersState.is_loading | (RunnersState.job_count > 0)
    panel = titled_panel(
        "Active jobs",
        (
            rx.el.span(RunnersState.job_words, class_name="mut"),
            rx.el.span(class_name="grow"),
            page_link("All jobs", href="/dashboard/jobs", class_name="ry-link", underline="none"),
        ),
        rx.cond(has_table, rx.fragment(_table(), _foot()), nothing),
    )
    # A list that could not be read is not shown as an empty one.
    return rx.cond(RunnersState.problem != "", rx.fragment(), panel)
