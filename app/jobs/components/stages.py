"""The line of a run's stages: plan, review, apply."""

import reflex as rx

from app.jobs.state.job import JobState
from app.jobs.view.stages import Stage
from app.ui.badges import JOB_MARKS
from app.ui.controls import icon
from app.ui.elements import clock_time, since

_TONES = {"green": "t-grn", "red": "t-red", "violet": "t-vio", "orange": "t-org", "blue": "t-blu", "cyan": "t-blu"}


def _mark(status: rx.Var[str]) -> rx.Component:
    marks = [
        (each, icon(name, "", class_name=f"{_TONES.get(color, 'mut')}{' ry-spin' if each == 'PROCESSING' else ''}"))
        for each, (name, color) in JOB_MARKS.items()
    ]
    return rx.match(status, *marks, icon("circle-dashed", "", class_name="mut"))


def _stage(stage: rx.Var[Stage]) -> rx.Component:
    look = rx.match(
        stage["status"],
        ("SUCCEEDED", "done"),
        ("NOT_STARTED", "todo"),
        ("FAILED", "over"),
        ("CANCELLED", "over"),
        "now",
    )
    times = rx.el.small(
        clock_time(stage["since"].to(str)),
        ", ",
        since(stage["since"].to(str), stage["until"].to(str)),
        class_name="sm num",
    )
    return rx.el.li(
        _mark(stage["status"].to(str)),
        rx.el.div(rx.el.b(stage["name"]), " ", rx.el.em(stage["words"]), rx.cond(stage["since"] != "", times)),
        key=stage["name"],
        class_name=look,
        custom_attrs={"data-stage": stage["name"], "data-status": stage["status"]},
    )


def stage_line() -> rx.Component:
    """The line of stages that shows how far a run got; nothing for a job that is not part of a run."""
    line = rx.el.section(
        rx.el.ol(rx.foreach(JobState.stages, _stage), class_name="ry-stages"),
        class_name="ry-panel",
        aria_label="Stages",
        custom_attrs={"data-testid": "stages"},
    )
    return rx.cond(JobState.stages.length() > 0, line)
