"""The panel of policy checks, above the changes: failed ones first and open, with the way out."""

import reflex as rx

from app.frame.session import may
from app.jobs.state.actions import JobActionState
from app.jobs.state.job import JobState
from app.jobs.view.checks import Check, Found
from app.ui.controls import act_button, icon
from app.ui.panel import titled_panel
from app.ui.resource import Column, mono, strong

SETS = (
    Column("Set", strong("name"), "n-a"),
    Column("Modules", mono("place"), "n-b"),
    Column("Level", "level_word", "n-c"),
    Column("Source", mono("source", "ry-breaks"), "mut hide-s"),
)


def _found(found: rx.Var[Found]) -> rx.Component:
    return rx.el.li(
        rx.el.b(found.resource, class_name="ry-mono ry-breaks"),
        rx.el.span(
            found.text, rx.cond(found.hint != "", rx.el.small(found.hint, class_name="mut")), class_name="ry-breaks"
        ),
        rx.el.span(found.rule, class_name="ry-mono mut"),
    )


def _override(check: rx.Var[Check]) -> rx.Component:
    field = rx.el.textarea(
        name="reason",
        aria_label="Reason for the override",
        placeholder="Reason for the override",
        required=True,
        max_length=500,
        rows=2,
    )
    note = "The reason is kept with the job. Approvals that were given before end."
    act = act_button("Override check", type="submit")
    form = rx.form(
        field,
        rx.el.div(act, rx.el.small(note, class_name="mut"), class_name="ry-row"),
        # A form within a list has one handler for all its rows: the row comes with the form.
        rx.el.input(type="hidden", name="policy", value=check.id),
        on_submit=JobActionState.override,
    )
    return rx.cond(
        check.can_override & JobState.can_still_override,
        rx.cond(may("policy.override"), form, rx.el.p("Somebody with policy.override can override it.")),
    )


def _check(check: rx.Var[Check]) -> rx.Component:
    head = rx.el.summary(
        rx.match(
            check.icon,
            ("circle-check", icon("circle-check", class_name="ok")),
            ("triangle-alert", icon("triangle-alert", class_name="warn")),
            icon("circle-x", class_name="bad"),
        ),
        rx.el.b(check.name),
        rx.el.span(rx.cond(check.overridden != "", check.overridden, check.words), class_name="grow mut ry-breaks"),
        rx.el.span(check.level, class_name="lv"),
        rx.el.span("from ", check.place, class_name="fr"),
    )
    body = rx.el.div(
        rx.el.ul(rx.foreach(check.found, _found), class_name="ry-found"), _override(check), class_name="ry-ckb"
    )
    is_open = (check.verdict == "failed") | (check.verdict == "error")
    return rx.el.details(
        head,
        rx.cond(check.found.length() > 0, body),
        open=is_open,
        class_name="ry-ck",
        key=check.id,
        custom_attrs={"data-testid": "check", "data-verdict": check.verdict},
    )


def checks_panel() -> rx.Component:
    """The panel; nothing where no policy set applies."""
    panel = titled_panel(
        "Checks",
        rx.el.span(JobState.checks_words, class_name="mut num"),
        rx.foreach(JobState.checks, _check),
        custom_attrs={"data-testid": "checks"},
    )
    return rx.cond(JobState.checks.length() > 0, panel)
