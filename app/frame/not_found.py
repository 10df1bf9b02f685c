"""The page of addresses that lead nowhere."""

from typing import Any

import reflex as rx

from app.frame.card import card
from app.frame.layout import Route, head, page
from app.frame.session import SessionState
from app.ui.controls import act_button, link_button

TITLE, TEXT = "Page not found", "The link may be wrong, or the item was removed."


def _back(**props: Any) -> rx.Component:
    button = act_button("Go to the runners", tab_index=-1, **props)
    return rx.el.a(button, href="/dashboard/runners")


def not_found() -> rx.Component:
    """Explain it, and link back to the fleet; a tab that knows its viewer keeps its menu."""
    framed = page(head(TITLE, TEXT, _back()), title=TITLE, active="")
    return rx.cond(SessionState.org_id != "", framed, card(TITLE, TEXT, _back(width="100%")))


def absent(back: str, href: str, test_id: str) -> rx.Component:
    """Explain, in the frame of a page, that there is nothing at its address."""
    button = link_button(back, href=href, size="2", attrs={})
    return rx.el.div(head(TITLE, TEXT, button), role="alert", custom_attrs={"data-testid": test_id})


ROUTES = (Route("404", TITLE, not_found),)
