"""Confirmations about a job: what each leaves behind."""

from typing import Any

import reflex as rx

from app.jobs.state.actions import JobActionState
from app.jobs.state.job import JobState

View = JobState.view


def _question(what: str, title: Any, text: Any, act: str, event: Any, **options: Any) -> rx.Component:
    is_danger = bool(options.get("is_danger"))
    color: dict[str, Any] = {"color_scheme": "red"} if is_danger else {"color_scheme": "gray", "high_contrast": True}
    return rx.alert_dialog.root(
        rx.alert_dialog.content(
            rx.alert_dialog.title(title, size="4", margin_bottom="6px"),
            rx.alert_dialog.description(text, size="2", class_name="mut"),
            options.get("field", rx.fragment()),
            rx.el.div(
                rx.button("Cancel", on_click=JobActionState.close, variant="surface", color_scheme="gray"),
                rx.button(act, on_click=event, disabled=options.get("is_disabled", False), **color),
                class_name="ry-acts ry-dialog-acts",
            ),
            max_width="440px",
            on_escape_key_down=JobActionState.close,
        ),
        open=JobActionState.asking == what,
    )


def _proof() -> rx.Component:
    return rx.el.div(
        rx.el.label("Lock id", html_for="lock-proof"),
        rx.input(
            id="lock-proof",
            value=JobActionState.typed,
            on_change=JobActionState.set_typed,
            auto_complete="off",
            class_name="ry-mono",
            custom_attrs={"spellCheck": "false"},
        ),
        rx.el.small(
            "The state panel on this page shows it: ", rx.el.span(JobState.state.lock_id, class_name="ry-mono")
        ),
        class_name="ry-f ry-dialog-field",
    )


QUESTIONS = (
    (
        "KILL",
        "Kill ",
        "The engine ends at once and may not save its state: what it was creating may exist without being known.",
        "Kill",
    ),
    (
        "retry",
        "Run again ",
        "What the lost attempt has created but not recorded would be created a second time. Check first, if you have not.",
        "Run again",
    ),
    (
        "mark_failed",
        "Mark as failed ",
        "The job ends as failed and the state is unlocked as it is. Resources that were created stay.",
        "Mark as failed",
    ),
)


def _release_question() -> rx.Component:
    return _question(
        "release_lock",
        "Release the state lock?",
        "Another job could then change this state while nobody knows how far the lost one got.",
        "Release the lock",
        JobActionState.resolve("release_lock"),
        is_danger=True,
        field=_proof(),
        is_disabled=(JobActionState.typed != JobState.state.lock_id) | (JobState.state.lock_id == ""),
    )


def job_dialogs() -> list[rx.Component]:
    """Every confirmation of the page; at most one is open."""
    number = "#" + View["id"].to_string()
    asked = [
        _question(
            what,
            start + number + "?",
            text,
            act,
            JobActionState.cancel("KILL") if what == "KILL" else JobActionState.resolve(what),
            is_danger=what == "KILL",
        )
        for what, start, text, act in QUESTIONS
    ]
    return [*asked, _release_question()]
