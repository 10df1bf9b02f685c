"""Making an organisation."""

import reflex as rx

from app.frame.card import card, line_below, submit
from app.frame.layout import Route
from app.sign_in.state import WelcomeState
from app.ui.controls import page_link


def welcome() -> rx.Component:
    form = rx.form(
        rx.el.div(
            rx.el.label("Name", html_for="name", class_name="ry-lab"),
            # Text typed before the page is live would be lost the moment it is.
            rx.input(
                id="name",
                name="name",
                placeholder="Example Platform",
                required=True,
                auto_complete="organization",
                disabled=~WelcomeState.is_live,
            ),
            rx.el.small("People, runners and modules belong to it. You become its owner."),
            class_name="ry-f",
        ),
        rx.cond(WelcomeState.problem != "", rx.el.p(WelcomeState.problem, role="alert", class_name="ry-problem")),
        submit("Create organisation", disabled=~WelcomeState.is_live),
        on_submit=WelcomeState.create,
        class_name="ry-form",
    )
    sign_out = rx.el.button(
        "Sign out", on_click=rx.call_script("window.runyard.signOut()"), class_name="rt-reset ry-link", type="button"
    )
    back = page_link("Back to the runners", href="/dashboard/runners", class_name="ry-link", underline="none")
    below = rx.cond(
        WelcomeState.has_organisation,
        line_below("Changed your mind?", back),
        line_below("Waiting for an invitation? Open its link while you are signed in.", sign_out),
    )
    closed = rx.el.p(
        "On this installation only owners of an organisation create new ones. Ask an owner to invite you.",
        id="closed", class_name="mut",
    )  # fmt: skip
    shown = rx.cond(WelcomeState.may_create, form, closed)
    return card("Create organisation", "A fleet of runners and the modules they work on.", shown, below=below)


ROUTES = (Route("/welcome", "New organisation", welcome, WelcomeState.load),)
