"""The page of addresses that lead nowhere."""

import reflex as rx

from app.shared.card import card
from app.shared.route import Route


def not_found() -> rx.Component:
    """Say so, and lead back to the fleet."""
    back = rx.button("Go to the runners", color_scheme="gray", high_contrast=True, width="100%", tab_index=-1)
    return card(
        "Page not found",
        "The link may be wrong, or the item was removed.",
        rx.el.a(back, href="/dashboard/runners"),
    )


ROUTES = (Route("404", "Page not found", not_found),)
