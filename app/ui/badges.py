"""State badges: shape and colour and word; the word in the page is the database's."""

from typing import Any

import reflex as rx

from app.ui.controls import icon


def pill(*inside: Any, color: Any = "gray", **props: Any) -> rx.Component:
    """A badge, round as all of them are."""
    return rx.badge(*inside, color_scheme=color, radius="full", **props)


def _badge(
    status: rx.Var[str] | str, mark: rx.Component, color: str, word: str = "", variant: str = "soft"
) -> rx.Component:
    """Show a status; `word` names why a runner is offline on purpose, for the filters it is OFFLINE all the same."""
    shown = rx.el.span(*([word] if word else _words(status)), class_name="ry-word")
    return pill(mark, shown, color=color, variant=variant, custom_attrs={"data-status": status})


def _words(status: rx.Var[str] | str) -> list[rx.Var[str] | rx.Component | str]:
    """Keep the database's word as text, and let the style sheet show its underscores as spaces."""
    if not isinstance(status, str) or "_" not in status:
        return [status]
    first, *rest = status.split("_")
    gap = rx.el.span("_", class_name="ry-gap-word")
    return [first, *[part for word in rest for part in (gap, word)]]


RESTS = {
    "asleep": ("Scaled to zero", "moon", "gray"),
    "starting": ("Starting", "loader-circle", "blue"),
    "new": ("Not started", "circle-dashed", "gray"),
}


def runner_badge(status: rx.Var[str], rest: rx.Var[str] | str = "") -> rx.Component:
    """Show a runner's or an instance's state; `rest` is why it is offline, where nothing is wrong."""
    rests = [
        (key, _badge("OFFLINE", icon(name, "xs", class_name="ry-spin" if key == "starting" else ""), color, word))
        for key, (word, name, color) in RESTS.items()
    ]
    offline = _badge("OFFLINE", rx.el.i(class_name="ry-dot hollow"), "red")
    return rx.match(
        status,
        ("ONLINE", _badge("ONLINE", rx.el.i(class_name="ry-dot"), "green")),
        ("DRAINING", _badge("DRAINING", rx.el.i(class_name="ry-dot half"), "amber")),
        rx.match(rest, *rests, offline) if isinstance(rest, rx.Var) else offline,
    )


JOB_MARKS: dict[str, tuple[str, str]] = {
    "AWAITING_APPROVAL": ("hand", "violet"),
    "QUEUED": ("circle-dashed", "gray"),
    "CLAIMED": ("circle-dot", "cyan"),
    "PROCESSING": ("loader-circle", "blue"),
    "SUCCEEDED": ("circle-check", "green"),
    "FAILED": ("circle-x", "red"),
    "CANCELLED": ("ban", "gray"),
    "NEEDS_ATTENTION": ("triangle-alert", "orange"),
}


# The classes of text in a mark's colour.
TEXT = {"green": "t-grn", "red": "t-red", "blue": "t-blu", "violet": "t-vio", "orange": "t-org"}


# Runners have dots.
DOTS = {"ONLINE": ("ry-dot", "green"), "DRAINING": ("ry-dot half", "amber"), "OFFLINE": ("ry-dot hollow", "red")}


def status_mark(status: rx.Var[str]) -> rx.Component:
    """Show the mark of a job's or a runner's status without its word."""
    marks = [(word, icon(name, "xs", class_name=TEXT.get(color, "mut"))) for word, (name, color) in JOB_MARKS.items()]
    dots = [
        (word, rx.el.i(class_name=look, custom_attrs={"data-accent-color": color}))
        for word, (look, color) in DOTS.items()
    ]
    return rx.match(status, *marks, *dots, icon("circle", "xs", class_name="mut"))


def _job_badge(status: str) -> rx.Component:
    name, color = JOB_MARKS[status]
    spin = "ry-spin" if status == "PROCESSING" else ""
    variant = "surface" if status == "NEEDS_ATTENTION" else "soft"
    return _badge(status, icon(name, "xs", class_name=spin), color, variant=variant)


def job_badge(status: rx.Var[str]) -> rx.Component:
    cases = [(status_name, _job_badge(status_name)) for status_name in JOB_MARKS]
    return rx.match(status, *cases, rx.badge(status, color_scheme="gray"))


def tag(text: rx.Var[str] | str, *, is_mono: bool = False, **props: object) -> rx.Component:
    """Show a label, a type or a count; never a state."""
    return rx.el.span(text, class_name="ry-tag mono" if is_mono else "ry-tag", **props)


def step_mark(status: Any) -> rx.Component:
    """Show the state of one step of several."""
    return rx.match(
        status,
        ("SUCCEEDED", icon("circle-check", class_name="t-grn")),
        ("RUNNING", icon("loader-circle", class_name="t-blu ry-spin")),
        ("FAILED", icon("circle-x", class_name="t-red")),
        icon("circle-dashed", class_name="mut"),
    )
