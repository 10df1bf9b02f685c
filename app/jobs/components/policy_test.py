"""The result of a back-test, and the form that attaches its rules."""

from typing import Any

import reflex as rx

from app.frame.session import may
from app.jobs.state.actions import JobActionState
from app.jobs.state.job import JobState
from app.jobs.view.checks import LEVELS
from app.jobs.view.policy_test import Finding, Rule
from app.ui.controls import choice, icon, page_link
from app.ui.form.elements import exact_input
from app.ui.panel import titled_panel

Test = JobState.policy_test


def _fact(name: str, value: Any, note: Any = "") -> rx.Component:
    return rx.el.div(
        rx.el.dt(name), rx.el.dd(rx.el.b(value, class_name="num"), " ", rx.el.small(note, class_name="mut"))
    )


def _finding(found: rx.Var[Finding]) -> rx.Component:
    return rx.el.li(
        rx.el.span(
            page_link("#" + found.number, href="/dashboard/jobs/" + found.number, class_name="ry-a num"),
            " ",
            found.path,
            class_name="ry-breaks",
        ),
        rx.el.span(
            rx.el.b(found.resource, class_name="ry-mono ry-breaks"), rx.el.small(found.text), class_name="ry-breaks"
        ),
        rx.el.span(found.outcome, class_name="mut"),
    )


def _rule(rule: rx.Var[Rule]) -> rx.Component:
    mark = rx.cond(rule.is_warning, icon("triangle-alert", class_name="warn"), icon("circle-x", class_name="bad"))
    head = rx.el.summary(
        mark, rx.el.b(rule.name, class_name="ry-mono"), rx.el.span(rule.words, class_name="grow mut num")
    )
    more = rx.cond(rule.more != "", rx.el.p(rule.more, class_name="mut"))
    body = rx.el.div(rx.el.ul(rx.foreach(rule.found, _finding), class_name="ry-found"), more, class_name="ry-ckb")
    return rx.el.details(
        head, body, open=True, class_name="ry-ck", key=rule.name, custom_attrs={"data-testid": "tested-rule"}
    )


def _attach() -> rx.Component:
    note = rx.el.small("Counts for plans that are requested from now on.", class_name="mut")
    act = rx.button("Attach", type="submit", color_scheme="gray", high_contrast=True)
    fields = rx.el.div(
        exact_input(name="name", default_value=Test.name, placeholder="Name", aria_label="Name", required=True),
        choice("Level", LEVELS, name="level", default_value="overridable", width=None),
        act,
        note,
        class_name="ry-row",
    )
    form = rx.form(fields, on_submit=JobActionState.attach_tested, class_name="ry-ckb")
    return rx.cond(Test.is_done & may("policy.write"), form)


def policy_test_panel() -> rx.Component:
    """The panel; nothing on the page of another job."""
    facts = rx.el.dl(
        _fact("Plans tested", Test.done, Test.of_modules),
        _fact("Would pass", Test.passed),
        _fact("Would be refused", Test.refused, Test.applied),
        _fact("Unclear", Test.unclear, "Neither passed nor refused"),
        _fact("Redacted plan not kept", Test.missing),
        class_name="ry-facts",
    )
    panel = titled_panel(
        "Back-test",
        rx.el.span(Test.name, class_name="mut"),
        rx.el.p(Test.about, class_name="ry-ckb mut ry-breaks"),
        facts,
        rx.foreach(Test.rules, _rule),
        _attach(),
        custom_attrs={"data-testid": "policy-test"},
    )
    return rx.cond(Test.about != "", panel)
