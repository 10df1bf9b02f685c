"""A runner's own page."""

import reflex as rx

from app.frame.layout import Route, page
from app.frame.not_found import absent
from app.frame.session import SessionState
from app.runners.components.detail import events, facts, instances, jobs, runner_log, strip
from app.runners.components.edit import edit_dialog
from app.runners.components.health import health_notes
from app.runners.components.menu import menu_items
from app.runners.components.rail import assignments, behaviour, tokens
from app.runners.components.scaling import scaling_ledger, scaling_limits
from app.runners.state.actions import RunnerActionState
from app.runners.state.edit import RunnerEditState
from app.runners.state.runner import RunnerState
from app.ui.badges import runner_badge
from app.ui.controls import dropdown, icon, icon_button, plain_button
from app.ui.panel import failed

State = RunnerState


def _actions() -> rx.Component:
    row = State.row
    drain = rx.cond(
        row["is_draining"],
        plain_button(icon("play"), "Resume", on_click=RunnerActionState.resume(row["id"])),
        plain_button(
            icon("log-out"),
            "Drain",
            on_click=RunnerActionState.ask("drain", row["id"]),
            custom_attrs={"data-key": "drain:" + row["id"].to(str)},
        ),
    )
    rotate = plain_button(icon("key-round"), "Rotate token", on_click=RunnerActionState.ask("rotate", row["id"]))
    edit = plain_button(icon("pencil"), "Edit", on_click=RunnerEditState.edit(row["id"]))
    has_token = SessionState.can_admin & ~row["is_cloud"].to(bool)
    menu = dropdown(
        icon_button("ellipsis", "More actions", variant="surface", size="2"),
        *menu_items(row, SessionState.latest_version),
        width="210px",
    )
    acts = rx.el.div(
        rx.cond(SessionState.can_admin, edit), drain, rx.cond(has_token, rotate), menu, class_name="ry-acts"
    )
    return rx.cond(SessionState.can_operate & ~row["is_shared"].to(bool), acts)


def _head() -> rx.Component:
    return rx.el.div(
        rx.el.div(
            rx.el.div(
                rx.el.h1(State.row["name"]),
                runner_badge(State.row["status"], State.row["rest"].to(str)),
                rx.el.span(State.row["why"], class_name="ry-why"),
                class_name="ry-row",
                style={"gap": "10px"},
            ),
            rx.el.p(State.about),
        ),
        _actions(),
        class_name="ry-head",
    )


def _problem() -> rx.Component:
    problem = failed("The runner could not be loaded", State.problem, State.problem_hint, State.load)
    missing = absent("All runners", "/dashboard/runners", "no-such-runner")
    return rx.cond(State.is_missing, missing, rx.el.section(problem, class_name="ry-panel"))


def _waiting() -> rx.Component:
    bones = [rx.el.div(class_name="ry-panel", style={"height": height}) for height in ("68px", "220px", "180px")]
    return rx.fragment(*bones)


def _body() -> rx.Component:
    return rx.fragment(
        _head(),
        health_notes(),
        facts(),
        rx.el.div(
            rx.el.div(strip(), instances(), jobs(), scaling_ledger(), runner_log(), events(), class_name="ry-stack"),
            rx.el.div(assignments(), tokens(), scaling_limits(), behaviour(), class_name="ry-stack"),
            class_name="ry-cols",
        ),
    )


def runner() -> rx.Component:
    return page(
        rx.cond(State.problem != "", _problem(), rx.cond(State.row["id"] == "", _waiting(), _body())),
        title=State.row["name"],
        active="runners",
        crumbs=[("Runners", "/dashboard/runners")],
        dialogs=[edit_dialog()],
    )


ROUTES = (Route("/dashboard/runners/[runner_id]", "Runner", runner, RunnerState.load),)
