"""The warning that stands beside every new token."""

import reflex as rx

from app.ui.icons import icon


def doc_link(label: str, path: str) -> rx.Component:
    """Link to a page of the documentation, which the product serves itself."""
    return rx.el.a(label, href=f"/docs/{path}/", target="_blank", class_name="ry-link")


def token_warning() -> rx.Component:
    """Say that it is shown once, and what to do when it is lost."""
    return rx.el.p(
        rx.el.span(icon("triangle-alert"), class_name="t-amb", style={"display": "flex"}),
        rx.el.span(
            "It is shown once and stored only as a hash. If you lose it, create a new one with Rotate token. ",
            doc_link("How tokens are checked", "authentication"),
        ),
        class_name="ry-hint",
        style={"display": "flex", "gap": "6px"},
        custom_attrs={"data-testid": "token-warning"},
    )
