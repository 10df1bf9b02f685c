"""The main column of a runner's page: facts, a day's strip, instances, jobs, events."""

from typing import Any

import reflex as rx

from app.frame.session import SessionState
from app.jobs.components.table import job_link, job_status
from app.runners.components.charts import area_chart
from app.runners.state.runner import RunnerState
from app.runners.view.curves import Curve
from app.runners.view.events import RUNNER_EVENTS
from app.ui.badges import runner_badge, tag
from app.ui.controls import icon, known_icon, page_link
from app.ui.elements import ago, clock_time, date, load, since
from app.ui.panel import fact, titled_panel
from app.ui.resource import Column, mono, rows_table, unmarked
from app.ui.table import cell, heads, table

State = RunnerState


def _version() -> rx.Component:
    old = rx.el.span(State.row["version"], icon("circle-arrow-up"), class_name="ry-old")
    new = rx.fragment(
        State.row["version"],
        rx.cond(State.row["version"] == SessionState.latest_version, rx.el.span(" latest", class_name="mut")),
    )
    return rx.cond(State.row["is_outdated"], old, new)


def _role() -> rx.Component:
    return rx.fragment(
        rx.el.span(State.cloud_role, class_name="ry-mono"), rx.el.span(" ", State.cloud_rights, class_name="mut")
    )


def facts() -> rx.Component:
    none = rx.el.span("none", class_name="mut")
    labels = rx.el.span(
        rx.foreach(State.labels, lambda label: tag(label, is_mono=True, key=label)), class_name="ry-row c6"
    )
    return rx.el.dl(
        fact("Type", State.row["type"].to(str).capitalize()),
        rx.cond(State.row["is_cloud"], fact("Region", State.row["region"])),
        fact("Version", _version()),
        fact("Load", load(State.pulse["used"], State.pulse["capacity"], State.row["status"])),
        fact("Last seen", ago(State.pulse["at"], class_name="num")),
        rx.cond(State.service_account != "", fact("Service account", State.service_account)),
        rx.cond(State.cloud_role != "", fact("Acts in AWS as", _role())),
        fact("Labels", rx.cond(State.labels.length() > 0, labels, none)),
        fact(
            "Registered",
            date(State.row["created_at"], class_name="num"),
            rx.cond(State.created_by != "", " by " + State.created_by, ""),
        ),
        class_name="ry-panel ry-facts",
    )


def _key() -> rx.Component:
    entries = (("online", "Online"), ("draining", "Draining"), ("offline", "Offline"))
    marks = [rx.el.span(rx.el.i(style={"background": f"var(--ry-st-{name})"}), label) for name, label in entries]
    return rx.el.div(*marks, class_name="ry-key hide-s")


def strip() -> rx.Component:
    """Heartbeats of 24 hours over the load, on one axis."""
    load_curve = area_chart(State.strip["load"].to(Curve), "strip-load", size=(900, 84), class_name="ry-area")
    return titled_panel(
        "Last 24 hours",
        (rx.el.span(State.strip["words"], class_name="mut"), rx.el.span(class_name="grow"), _key()),
        rx.el.div(
            rx.el.div(
                rx.foreach(State.strip["marks"].to(list[str]), lambda mark: rx.el.i(class_name=mark)),
                class_name="ry-strip",
                role="img",
                aria_label="Heartbeats: " + State.strip["words"].to(str),
            ),
            rx.el.div(
                rx.el.span("Load, as a share of its slots", class_name="sm ry-area-label"),
                rx.el.div(load_curve, class_name="ry-area-base"),
                class_name="ry-area-box",
            ),
            rx.el.div(
                rx.foreach(State.strip["axis"].to(list[str]), rx.el.span), rx.el.span("now"), class_name="ry-axis num"
            ),
            class_name="ry-pb",
        ),
    )


def _is_there(row: Any) -> Any:
    return row["status"] != "OFFLINE"


def _session(row: Any) -> rx.Component:
    return rx.cond(
        _is_there(row),
        rx.fragment("since ", clock_time(row["connected_at"]), ", epoch ", row["epoch"]),
        rx.fragment("ended, epoch ", row["epoch"]),
    )


def _load(row: Any) -> rx.Component:
    return load(State.pulses[row["id"].to(str)]["used"], rx.cond(_is_there(row), row["capacity"], 0), row["status"])


INSTANCES = (
    Column("Instance", lambda row: rx.el.b(row["name"], style={"font_weight": "500"}), "n-a"),
    Column("Host", mono("host"), "mut hide-s"),
    Column("Engines", "engines", "mut n-c wrap"),
    Column("Jobs run in", "isolation", "mut hide-s hide-n wrap"),
    Column("Status", lambda row: runner_badge(row["status"]), "n-b"),
    Column("Load", _load, "n-d"),
    Column("Session", _session, "mut num hide-s wrap"),
)


def _instance_error(row: Any) -> rx.Component:
    return rx.cond(
        row["error"] != "",
        rx.el.div(
            icon("info"),
            rx.el.span(rx.el.b(row["name"], style={"font_weight": "500"}), " said: ", row["error"]),
            class_name="ry-foot",
        ),
    )


def instances() -> rx.Component:
    """The processes of this runner, with what they last complained about."""
    rows = rows_table("Instances", INSTANCES, State.instances, unmarked)
    nobody = rx.el.p("No process has connected with its token yet.", class_name="mut ry-pb")
    return titled_panel(
        "Instances",
        rx.el.span(State.connected_count, " connected", class_name="mut"),
        rx.cond(State.instances.length() > 0, rows, nobody),
        rx.foreach(State.instances, _instance_error),
    )


def _job(job: Any) -> rx.Component:
    return rx.el.tr(
        cell(job_link(job), class_name="n-a"),
        cell(rx.el.span(job["path"], class_name="ry-mono"), class_name="n-c"),
        cell(job_status(job), class_name="n-b ry-rest"),
        cell(job["instance"], class_name="mut hide-s hide-w"),
        cell(since(job["since"].to(str), job["until"].to(str)), class_name="r num n-d"),
        cell(clock_time(job["since"].to(str)), class_name="r mut num hide-s"),
        role="row",
        tab_index=-1,
        custom_attrs={"data-row": job["id"].to_string()},
        key=job["id"].to_string(),
    )


def jobs() -> rx.Component:
    columns = (("Job", ""), ("Module", ""), ("Status", ""), ("Instance", "hide-w"), ("Duration", "r"), ("Started", "r"))
    rows = table("Jobs", heads(*columns), rx.foreach(State.jobs, _job))
    none = rx.el.p("It has not run a job yet.", class_name="mut ry-pb")
    return titled_panel(
        "Jobs",
        (
            rx.el.span(State.jobs_said, class_name="mut"),
            rx.el.span(class_name="grow"),
            page_link(
                "All its jobs",
                href="/dashboard/jobs?runner=" + State.row["id"].to(str),
                class_name="ry-link",
                underline="none",
            ),
        ),
        rx.cond(State.jobs.length() > 0, rows, none),
    )


def _event(event: Any) -> rx.Component:
    return rx.el.li(
        clock_time(event["at"]),
        known_icon(event["icon"], (name for name, _ in RUNNER_EVENTS.values()), "info"),
        rx.el.span(event["text"]),
        rx.el.span(event["by"], class_name="sm"),
        key=event["id"],
        custom_attrs={"data-event": event["name"]},
    )


def _log_line(line: Any) -> rx.Component:
    is_warning = line["level"] == "warning"
    return rx.el.li(
        clock_time(line["at"]),
        rx.cond(is_warning, icon("triangle-alert", class_name="t-amb"), icon("circle-x", class_name="t-red")),
        rx.el.span(line["text"]),
        rx.el.span(line["instance"], class_name="sm"),
        key=line["key"],
        custom_attrs={"data-testid": "runner-log-line"},
    )


def runner_log() -> rx.Component:
    lines = rx.el.ul(rx.foreach(State.log, _log_line), class_name="ry-ev", style={"padding_bottom": "10px"})
    none = rx.el.p("No warnings and no errors since it started.", class_name="mut ry-pb")
    return titled_panel(
        "Runner log",
        rx.el.span("Newest warnings and errors", class_name="mut"),
        rx.cond(State.log.length() > 0, lines, none),
    )


def events() -> rx.Component:
    return titled_panel(
        "Events", None, rx.el.ul(rx.foreach(State.events, _event), class_name="ry-ev", style={"padding_bottom": "10px"})
    )
