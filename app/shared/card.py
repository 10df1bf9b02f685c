"""The card that stands alone on the tracks: sign-in and its neighbours."""

import reflex as rx

from app.shared.brand import logo, yard


def card(
    title: str, text: rx.Var[str] | str, *content: rx.Component, below: rx.Component | None = None
) -> rx.Component:
    """Put one form on the page, and at most one line below it."""
    return rx.el.main(
        yard(),
        rx.el.div(
            rx.el.div(logo(), class_name="ry-brand"),
            rx.el.section(
                rx.el.div(rx.el.h1(title, class_name="ry-h1"), rx.el.p(text, class_name="mut")),
                *content,
                class_name="ry-panel ry-card",
            ),
            below or rx.fragment(),
            class_name="ry-lc",
        ),
        class_name="ry-login",
    )


def line_below(text: str, link: rx.Component) -> rx.Component:
    """One sentence with one link."""
    return rx.el.p(text, " ", link, class_name="mut ry-under")


def submit(label: str, **props: object) -> rx.Component:
    """The card's one ink button."""
    return rx.button(label, type="submit", color_scheme="gray", high_contrast=True, width="100%", **props)
