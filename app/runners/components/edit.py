"""The form that changes a runner."""

from typing import Any

import reflex as rx

from app.runners.state.edit import RunnerEditState
from app.runners.view.form import NO_ACCOUNT
from app.ui.controls import choice, icon, offered
from app.ui.elements import doc_link
from app.ui.form.elements import check_field, field, form_dialog, problem_line, text_field
from app.ui.view import TYPE_WORDS

State = RunnerEditState


def account_items(accounts: Any) -> list[rx.Component]:
    """List what a runner may sign in with besides its token."""
    return [rx.select.item("None: its token only", value=NO_ACCOUNT), offered(accounts)]


def _account() -> rx.Component:
    control = choice(
        "Service account", *account_items(State.accounts), name="account_id", default_value=State.chosen["account_id"]
    )
    hint = rx.fragment("It can then sign in without a token. ", doc_link("How", "authentication"))
    # A runner that was deployed from here has a token of its own, which its job renews.
    shown = field("account_id", "Service account", control, State.errors, hint)
    return rx.cond(State.chosen["is_cloud"], rx.fragment(), shown)


def _types() -> rx.Component:
    held = State.chosen["types"].to(list[str])
    boxes = [
        check_field(label, name=f"type:{name}", default_checked=held.contains(name))
        for name, label in TYPE_WORDS.items()
    ]
    problem = problem_line("types", State.errors["types"])
    return rx.el.fieldset(
        rx.el.legend("Job types it takes", class_name="ry-lab"),
        rx.el.div(*boxes, class_name="ry-checks"),
        rx.cond(State.errors.contains("types"), problem),
        class_name="ry-f ry-plain",
    )


def _refusal() -> rx.Component:
    said = rx.el.p(
        icon("circle-alert"),
        State.errors["form"],
        class_name="err ry-row c6",
        role="alert",
        custom_attrs={"data-testid": "error-form"},
    )
    return rx.cond(State.errors.contains("form"), said)


def _fields() -> list[rx.Component]:
    held, errors = State.chosen, State.errors
    hint = "Jobs that each instance runs at a time, if its host allows as many."
    return [
        text_field("name", "Name", held["name"], errors, "The id stays as it is."),
        text_field(
            "labels",
            "Labels",
            held["labels"],
            errors,
            "Jobs that ask for a label go only to runners that have it.",
            placeholder="gpu=true zone=eu",
        ),
        rx.el.div(
            text_field("capacity", "Capacity", held["capacity"], errors, hint, type="number"),
            _account(),
            class_name="ry-two",
        ),
        _types(),
        check_field(
            "Several instances may connect, each with its own name",
            name="allows_many",
            default_checked=held["allows_many"],
        ),
        _refusal(),
    ]


def edit_dialog() -> rx.Component:
    """The form in its dialog; admins reach it from the row's menu and from the runner's page."""
    return form_dialog(State, "Add runner", "Running jobs are not affected.", _fields())
