"""An output, as the pages of a job and of a module show it."""

import reflex as rx

from app.jobs.view.detail import OutputView
from app.ui.copy import copy_icon
from app.ui.icons import icon


def output_item(output: rx.Var[OutputView]) -> rx.Component:
    """One output; of a sensitive one the name, and a word instead of the value."""
    name = output["name"].to(str)
    secret = rx.el.span(icon("eye-off"), "sensitive", class_name="ry-row c6 mut")
    value = rx.el.span(output["value"], class_name="ry-mono ry-breaks")
    copy = copy_icon(output["value"].to(str), "Copy the output " + name)
    return rx.el.li(
        rx.el.div(
            rx.el.span(name, class_name="ry-mono"), rx.cond(output["is_secret"], secret, value), class_name="grow"
        ),
        rx.cond(output["is_secret"], rx.fragment(), copy),
    )
