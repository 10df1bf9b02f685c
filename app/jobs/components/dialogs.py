"""Confirmations about a job: what each leaves behind."""

import reflex as rx

from app.jobs.components.review import DISCARDS
from app.jobs.state.actions import JobActionState
from app.jobs.state.job import JobState
from app.ui.dialog import dialog_field, question
from app.ui.form.elements import exact_input

View = JobState.view


def _proof() -> rx.Component:
    lock = rx.el.span(JobState.state.lock_id, class_name="ry-mono")
    typed = exact_input(
        id="lock-proof", value=JobActionState.typed, on_change=JobActionState.set_typed, class_name="ry-mono"
    )
    return dialog_field("lock-proof", "Lock id", typed, rx.el.small("The state panel on this page shows it: ", lock))


QUESTIONS = (
    (
        "KILL",
        "Kill {}?",
        "The engine ends at once and may not save its state: resources that it was creating may exist without being known.",
        "Kill",
    ),
    (
        "retry",
        "Run {} again?",
        "Resources that the lost attempt created but did not record would be created a second time. Check first, if you have not.",
        "Run again",
    ),
    (
        "mark_failed",
        "Mark {} as failed?",
        "The job ends as failed and the state is unlocked as it is. Resources that were created stay.",
        "Mark as failed",
    ),
)


def _release_question() -> rx.Component:
    return question(
        _proof(),
        is_open=JobActionState.asking == "release_lock",
        title="Release the state lock?",
        text="Another job could then change this state while nobody knows how far the lost one got.",
        act="Release the lock",
        on_act=JobActionState.resolve("release_lock"),
        on_keep=JobActionState.close,
        is_disabled=(JobActionState.typed != JobState.state.lock_id) | (JobState.state.lock_id == ""),
    )


def _discard_question(number: rx.Var[str]) -> rx.Component:
    return question(
        is_open=JobActionState.asking == "discard",
        title="Discard the plan of " + number + "?",
        text=DISCARDS,
        act="Discard",
        on_act=JobActionState.decide("reject"),
        on_keep=JobActionState.close,
    )


def job_dialogs() -> list[rx.Component]:
    number = "#" + View["number"].to_string()
    asked = [
        question(
            is_open=JobActionState.asking == what,
            title=before + number + after,
            text=text,
            act=act,
            on_act=JobActionState.cancel("KILL") if what == "KILL" else JobActionState.resolve(what),
            on_keep=JobActionState.close,
            is_danger=what == "KILL",
        )
        for what, title, text, act in QUESTIONS
        for before, after in [title.split("{}")]
    ]
    return [*asked, _release_question(), _discard_question(number)]
