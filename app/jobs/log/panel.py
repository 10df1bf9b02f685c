"""The log and the timeline: elements of our own that live in assets/job/."""

from typing import Any

import reflex as rx

from app.ui.elements import OwnElement


class LogElement(OwnElement):
    """`<ry-log job attempt day seq plan …>`: fetches both logs itself; `seq` only makes it look again."""

    tag = "RyLog"
    job: rx.Var[int]
    attempt: rx.Var[int]
    day: rx.Var[str]
    seq: rx.Var[int]
    status: rx.Var[str]
    steps: rx.Var[str]
    main: rx.Var[str]
    note: rx.Var[str]
    plan: rx.Var[str]
    phase: rx.Var[str]
    link: rx.Var[str]


class TimelineElement(OwnElement):
    """`<ry-timeline data=…>`: states and steps on one axis; the browser lets open bars grow."""

    tag = "RyTimeline"
    data: rx.Var[str]
    short: rx.Var[str]


def scripts() -> rx.Component:
    """Load the elements with the first page that needs them; React keeps one of each script."""
    return rx.el.script(src="/job/index.js", type="module", custom_attrs={"async": True})


def log(**attributes: Any) -> rx.Component:
    return LogElement.create(class_name="ry-log", **attributes)


def timeline(data: rx.Var[str]) -> rx.Component:
    return TimelineElement.create(data=data, class_name="ry-wf")


def short_timeline(data: rx.Var[str]) -> rx.Component:
    """Show a job's timeline on one line; its axis is broken where the wait is longer than the rest."""
    return TimelineElement.create(data=data, short="yes", class_name="ry-tl-short")
