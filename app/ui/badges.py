"""State badges: shape and colour and word; the word in the page is the database's."""

import reflex as rx

from app.ui.controls import icon


def _badge(status: rx.Var[str] | str, mark: rx.Component, color: str, **props: object) -> rx.Component:
    return rx.badge(
        mark,
        rx.el.span(*_words(status), class_name="ry-word"),
        color_scheme=color,
        variant=str(props.pop("variant", "soft")),
        radius="full",
        custom_attrs={"data-status": status},
        **props,
    )


def _words(status: rx.Var[str] | str) -> list[rx.Var[str] | rx.Component | str]:
    """Keep the database's word as text, and let the style sheet show its underscores as spaces."""
    if not isinstance(status, str) or "_" not in status:
        return [status]
    first, *rest = status.split("_")
    gap = rx.el.span("_", class_name="ry-gap-word")
    return [first, *[part for word in rest for part in (gap, word)]]


def _resting(word: str, mark: rx.Component, color: str) -> rx.Component:
    """Name why a runner is offline on purpose; for the filters it is OFFLINE all the same."""
    return rx.badge(
        mark,
        rx.el.span(word, class_name="ry-word"),
        color_scheme=color,
        variant="soft",
        radius="full",
        custom_attrs={"data-status": "OFFLINE"},
    )


def runner_badge(
    status: rx.Var[str], is_asleep: rx.Var[bool] | bool = False, is_starting: rx.Var[bool] | bool = False
) -> rx.Component:
    """Show a runner's or an instance's state; asleep and starting are offline on purpose."""
    return rx.match(
        status,
        ("ONLINE", _badge("ONLINE", rx.el.i(class_name="ry-dot"), "green")),
        ("DRAINING", _badge("DRAINING", rx.el.i(class_name="ry-dot half"), "amber")),
        rx.cond(
            is_asleep,
            _resting("Scaled to zero", icon("moon", "xs"), "gray"),
            rx.cond(
                is_starting,
                _resting("Starting", icon("loader-circle", "xs", class_name="ry-spin"), "blue"),
                _badge("OFFLINE", rx.el.i(class_name="ry-dot hollow"), "red"),
            ),
        ),
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


def _job_badge(status: str) -> rx.Component:
    name, color = JOB_MARKS[status]
    spin = "ry-spin" if status == "PROCESSING" else ""
    variant = "surface" if status == "NEEDS_ATTENTION" else "soft"
    return _badge(status, icon(name, "xs", class_name=spin), color, variant=variant)


def job_badge(status: rx.Var[str]) -> rx.Component:
    """Show a job's status."""
    cases = [(status_name, _job_badge(status_name)) for status_name in JOB_MARKS]
    return rx.match(status, *cases, rx.badge(status, color_scheme="gray"))


def tag(text: rx.Var[str] | str, *, is_mono: bool = False, **props: object) -> rx.Component:
    """Show a label, a type or a count; never a state."""
    return rx.el.span(text, class_name="ry-tag mono" if is_mono else "ry-tag", **props)
