"""Confirming the code that `runyard login` shows."""

import reflex as rx

from app.frame.card import card, submit
from app.frame.layout import Route
from app.project.token_limits import EVERYTHING, LIMITS
from app.sign_in.device_state import DeviceState
from app.ui.controls import act_button, choice, plain_button
from app.ui.form.elements import labelled

State = DeviceState


def _ask() -> rx.Component:
    return rx.form(
        rx.el.div(
            rx.el.label("Code", html_for="code", class_name="ry-lab"),
            # Text typed before the page is live would be lost the moment it is.
            rx.input(
                id="code",
                name="code",
                default_value=State.code,
                key=State.code,
                placeholder="BCDF-GHJK",
                required=True,
                auto_complete="off",
                disabled=~State.is_live,
                class_name="ry-mono",
                custom_attrs={"spellCheck": "false", "autoCapitalize": "characters"},
            ),
            rx.el.small(rx.el.code("runyard login"), " shows it in your terminal."),
            class_name="ry-f",
        ),
        rx.cond(State.problem != "", rx.el.p(State.problem, role="alert", class_name="ry-problem")),
        submit("Continue", disabled=~State.is_live),
        on_submit=State.find,
        class_name="ry-form",
    )


def _line(label: str, value: rx.Var[str]) -> rx.Component:
    return rx.el.div(rx.el.dt(label, class_name="mut"), rx.el.dd(value, class_name="ry-mono"), class_name="ry-row")


def _limit() -> rx.Component:
    limit = choice("May", LIMITS, default_value=EVERYTHING, on_change=State.set_role)
    return labelled("May", limit)


def _decide() -> rx.Component:
    return rx.el.div(
        rx.el.dl(
            _line("Code", State.code),
            _line("Program", State.program),
            _line("From", State.address),
            _line("Signs in as", State.who),
        ),
        rx.cond(State.is_terminal, _limit()),
        rx.el.p(
            rx.cond(
                State.is_terminal,
                "Confirm only if you started this sign-in: the terminal gets a personal token for 90 days, which you can "
                "revoke under Account.",
                "Confirm only if you started this sign-in and your terminal shows exactly this code: the program can then "
                "do everything that you can.",
            ),
            class_name="ry-hint",
        ),
        rx.el.div(
            plain_button("Decline", on_click=State.decline, type="button"),
            act_button("Confirm", on_click=State.confirm, type="button"),
            class_name="ry-acts",
        ),
        class_name="ry-form",
    )


def _decided() -> rx.Component:
    said = rx.cond(
        State.decided == "confirmed",
        "The program is signed in. You can close this page.",
        "The program stays signed out. You can close this page.",
    )
    return rx.el.p(said, role="status", custom_attrs={"data-decided": State.decided})


def device() -> rx.Component:
    """Type or see a code, and confirm or decline it."""
    body = rx.cond(State.decided != "", _decided(), rx.cond(State.program != "", _decide(), _ask()))
    return card("Sign in to the command line", "Compare the code with the one in your terminal.", body)


ROUTES = (Route("/device", "Sign in to the command line", device, State.load),)
