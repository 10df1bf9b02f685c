"""States that were not stored: read them, store one on purpose, or discard it."""

from typing import Any

import reflex as rx

from app.frame.session import may
from app.jobs.state.job import JobState
from app.jobs.state.kept_states import KeptStatesState
from app.jobs.view.kept_states import KeptState
from app.ui.controls import icon, link_button, small_button
from app.ui.dialog import question
from app.ui.elements import DOWNLOAD, clock_seconds

State = KeptStatesState


def _kept(kept: rx.Var[KeptState]) -> rx.Component:
    address = "/api/kept-states/" + kept["id"].to(str)
    download = link_button(icon("download"), "Download", href=address, size="1", attrs=DOWNLOAD)
    acts = rx.el.div(
        download,
        small_button("Store", on_click=State.ask("store", kept["id"].to(str))),
        small_button("Discard", on_click=State.ask("discard", kept["id"].to(str))),
        class_name="ry-acts",
    )
    about = rx.el.small(kept["about"], ", ", clock_seconds(kept["written_at"].to(str)))
    return rx.el.li(
        icon("file-json", class_name="mut"),
        rx.el.div(rx.el.span(kept["title"]), about, class_name="grow"),
        rx.cond(kept["is_open"], rx.cond(may("state.write"), acts), rx.el.span(kept["decided"], class_name="mut sm")),
        key=kept["id"].to(str),
        class_name="ry-opt",
    )


def kept_states() -> rx.Component:
    text = "Its runner wrote them, and they could no longer be stored. Resources in them may exist. Admins decide."
    panel = rx.el.section(
        rx.el.div(
            rx.el.div(rx.el.h2("State that was not stored"), rx.el.p(text, class_name="sm mut"), class_name="grow"),
            class_name="ry-ph",
        ),
        rx.el.ul(rx.foreach(JobState.kept, _kept), class_name="ry-list"),
        class_name="ry-panel ry-orange",
        custom_attrs={"data-testid": "kept-states"},
        aria_label="State that was not stored",
    )
    return rx.cond(JobState.kept.length() > 0, panel)


def kept_dialogs() -> list[rx.Component]:
    asked: dict[str, Any] = {"text": State.effect, "on_keep": State.close}
    return [
        question(
            is_open=State.kind == "store",
            title="Store " + State.title + "?",
            act="Store state",
            on_act=State.store,
            is_danger=False,
            **asked,
        ),
        question(
            is_open=State.kind == "discard",
            title="Discard " + State.title + "?",
            act="Discard state",
            on_act=State.discard,
            **asked,
        ),
    ]
