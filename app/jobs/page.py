"""The jobs page: filter, table, pages."""

from typing import Any

import reflex as rx

from app.frame.layout import JOBS, Route, head, new_button, page, place_tabs
from app.frame.session import SessionState
from app.jobs.components.run_dialog import run_dialog
from app.jobs.components.table import job_link, job_status
from app.jobs.state.jobs import PAGE_SIZE, JobsState
from app.jobs.state.run import RunState
from app.jobs.view.rows import JobRow
from app.ui.controls import choice, icon, page_link, plain_button, small_button
from app.ui.elements import DOWNLOAD, clock_time, since
from app.ui.panel import empty, or_problem, skeleton_rows
from app.ui.table import bare_table, cell, fresh_button, heads, holding, page_foot, search_box, show_all
from app.ui.view import STATUS_WORDS, TYPE_WORDS

HEADS = (
    ("Job", "c-xl"),
    ("Module", ""),
    ("Status", ""),
    ("Runner", "c-l"),
    ("Attempt", "hide-x c-s"),
    ("Time", "r c-m"),
    ("Requested by", "hide-m c-xl"),
    ("Requested", "r c-s"),
)


def _new_job() -> rx.Component:
    button = new_button("play", "New job", RunState.ask("PLAN", ""))
    return rx.cond(SessionState.can_run, button)


def _segment(label: str, value: str, count: rx.Var[int] | None = None) -> rx.Component:
    number = rx.fragment() if count is None else rx.el.span(count, class_name="ry-n")
    return rx.segmented_control.item(label, number, value=value)


def _views() -> rx.Component:
    return rx.segmented_control.root(
        _segment("Needs you", "needs", rx.cond(SessionState.can_decide, JobsState.needs_count, 0)),
        _segment("All", "all", JobsState.all_count),
        _segment("Active", "active", JobsState.active_count),
        _segment("Finished", "finished"),
        value=JobsState.choices.view,
        on_change=JobsState.show_view,
        aria_label="Show",
    )


def _chip(name: str, label: str, value: Any, on_click: Any, lifted: str) -> rx.Component:
    return small_button(
        rx.el.span(label, class_name="mut"),
        value,
        icon("x"),
        on_click=on_click,
        radius="full",
        aria_label=lifted,
        custom_attrs={"data-testid": name},
    )


def _chips() -> rx.Component:
    """Name the runner whose jobs these are, when the address does; a runner is found by the search as well."""
    runner = _chip("runner-chip", "Runner", JobsState.runner_name, JobsState.any_runner, "Jobs of all runners")
    changed = _chip("set-chip", "Group run", "plans with changes", JobsState.any_set, "Jobs of all group runs")
    return rx.fragment(
        rx.cond(JobsState.runner_name != "", runner), rx.cond(JobsState.choices.changed != "any", changed)
    )


def _csv() -> rx.Component:
    return rx.el.a(
        plain_button(icon("download"), "CSV"),
        href="/api/jobs.csv" + JobsState.export,
        title="These jobs as a file, 10,000 at most",
        class_name="hide-s",
        custom_attrs={**DOWNLOAD, "data-testid": "jobs-csv"},
    )


def _selects() -> list[rx.Component]:
    statuses, types = {"any": "Any status", **STATUS_WORDS}, {"any": "Any type", **TYPE_WORDS}
    return [
        choice("Status", statuses, width=None, value=JobsState.choices.status, on_change=JobsState.choose_status),
        choice("Type", types, width=None, value=JobsState.choices.type, on_change=JobsState.choose_type),
        _chips(),
    ]


def _row(held: Any) -> rx.Component:
    # A changed row comes alone, as a patch over the page that the browser already has.
    key, patches = held["id"].to_string(), JobsState.patches
    job: Any = rx.cond(patches.contains(key), patches[key], held).to(JobRow)
    runner = page_link(job["runner"], href="/dashboard/runners/" + job["worker_id"].to(str), class_name="mut")
    return rx.el.tr(
        cell(job_link(job), class_name="n-a"),
        cell(rx.el.span(job["path"], class_name="ry-mono"), class_name="n-c"),
        cell(job_status(job), class_name="n-b"),
        cell(rx.cond(job["runner"] != "", runner, "–"), class_name="mut hide-s"),
        cell(rx.cond(job["attempt"] != "", job["attempt"], "–"), class_name="mut num hide-s hide-x"),
        cell(since(job["since"].to(str), job["until"].to(str)), class_name="r num n-d"),
        cell(job["by"], class_name="mut hide-s hide-m ry-by", title=job["by"]),
        cell(clock_time(job["created_at"].to(str)), class_name="r mut num hide-s"),
        role="row",
        tab_index=-1,
        key=key,
        class_name=JobsState.flashes[key],
        custom_attrs={"data-row": key, "data-status": job["status"]},
    )


def _table() -> rx.Component:
    is_waiting = JobsState.is_loading & (JobsState.rows.length() == 0)
    rows = rx.cond(is_waiting, skeleton_rows(HEADS), rx.foreach(JobsState.rows, _row))
    table = bare_table("Jobs", heads(*HEADS), rows, class_name="ry-jobs ry-fixed", aria_busy=is_waiting)
    return holding(table, JobsState.hold, JobsState.is_held)


def _nothing() -> rx.Component:
    none_yet = empty(
        "list-checks",
        "No jobs yet",
        rx.cond(
            SessionState.can_run,
            "Run a plan of a module, and it shows up here the moment it is requested.",
            "Jobs show up here the moment an operator requests them.",
        ),
        _new_job(),
        test_id="no-jobs",
    )
    clear = show_all(JobsState.clear)
    calm = empty("circle-check", "Nothing needs you", "Approvals and lost applies show up here.", clear)
    hidden = empty(
        "search-x", "No jobs match", "Others are hidden by the filter or the search.", clear, test_id="no-jobs-match"
    )
    return rx.cond(JobsState.is_filtered, rx.cond(JobsState.choices.view == "needs", calm, hidden), none_yet)


def _panel() -> rx.Component:
    fresh = fresh_button(JobsState.fresh_count, JobsState.show_fresh)
    foot = page_foot(JobsState, PAGE_SIZE, JobsState.total, fresh)
    has_table = JobsState.is_loading | (JobsState.rows.length() > 0)
    return rx.el.section(
        or_problem(JobsState, "Jobs", rx.cond(has_table, rx.fragment(_table(), foot), _nothing())),
        class_name="ry-panel",
        aria_label="Jobs of " + SessionState.org_name,
    )


def jobs() -> rx.Component:
    search = search_box(
        "job-search",
        "Search job, module or runner",
        JobsState.search_for,
        JobsState.clear,
        value=JobsState.choices.search,
    )
    return page(
        head("Jobs", "Past, running and queued jobs.", _csv(), _new_job()),
        place_tabs("Jobs", JOBS, "Jobs"),
        rx.el.div(_views(), *_selects(), rx.el.span(class_name="grow hide-s"), search, class_name="ry-bar"),
        _panel(),
        title="Jobs",
        active="jobs",
        dialogs=[run_dialog()],
    )


ROUTES = (Route("/dashboard/jobs", "Jobs", jobs, [RunState.close, JobsState.load]),)
