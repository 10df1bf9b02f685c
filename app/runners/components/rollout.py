"""The rollout that is under way: its waves, and pause, resume, abort."""

from typing import Any

import reflex as rx

from app.frame.session import SessionState
from app.runners.state.rollout import RolloutState
from app.runners.state.runners import RunnersState
from app.ui.badges import pill, step_mark
from app.ui.controls import icon, small_button
from app.ui.dialog import question


def _wave(wave: Any) -> rx.Component:
    mark = step_mark(wave["status"])
    return rx.el.li(mark, rx.el.span(wave["title"]), rx.el.span(wave["words"], class_name="mut num"), key=wave["title"])


def _actions() -> rx.Component:
    rollout = RunnersState.rollout
    key = rollout["id"].to(str)
    pause = small_button(icon("pause"), "Pause", on_click=RolloutState.pause(key))
    resume = small_button(icon("play"), "Resume", on_click=RolloutState.resume(key))
    abort = small_button("Abort", on_click=RolloutState.ask_abort(key))
    acts = rx.el.div(rx.cond(rollout["is_paused"], resume, pause), abort, class_name="ry-acts")
    return rx.cond(SessionState.can_admin, acts)


def rollout_panel() -> rx.Component:
    """The panel with the progress of the fleet's update, live; nothing when no update is under way."""
    rollout = RunnersState.rollout
    reason = rx.el.div(icon("info"), rx.el.span(rollout["reason"]), class_name="ry-foot")
    panel = rx.el.section(
        rx.el.div(
            rx.el.h2("Rolling out ", rollout["version"]),
            rx.cond(rollout["is_paused"], pill("Paused", color="amber")),
            rx.el.span(rollout["words"], class_name="mut num"),
            rx.el.span(class_name="grow"),
            _actions(),
            class_name="ry-ph",
        ),
        rx.el.ul(rx.foreach(rollout["waves"], _wave), class_name="ry-steps", style={"padding": "0 16px 12px"}),
        rx.cond(rollout["reason"] != "", reason),
        class_name="ry-panel",
        role="status",
        aria_label="Rollout",
    )
    return rx.cond(rollout["id"] != "", panel)


def abort_question() -> rx.Component:
    return question(
        is_open=RolloutState.aborting != "",
        title="Abort the rollout?",
        text="Queued updates are cancelled. Updated runners stay so, and updates that have begun finish first.",
        act="Abort",
        on_act=RolloutState.abort,
        on_keep=RolloutState.keep,
        keep="Keep going",
    )
