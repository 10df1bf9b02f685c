"""The connection mark, which is true, and the banner that explains it when it is not 'Live'.

Two lines can break: the browser's to the dashboard, which only the browser knows of, and the
dashboard's to the project, which the feed tells of.
"""

import reflex as rx
from reflex_components_core.core.banner import has_connection_errors  # type: ignore[import-untyped]

from app.shared.icons import icon
from app.shared.session import SessionState


def _mark(word: str, kind: str, title: str) -> rx.Component:
    return rx.el.span(rx.el.i(), rx.el.span(word), class_name=f"ry-live {kind}".strip(), title=title)


def connection_mark() -> rx.Component:
    """Say how changes arrive: live, by asking, or not at all."""
    told = rx.match(
        SessionState.link,
        ("live", _mark("Live", "", "Changes arrive as they happen.")),
        ("polling", _mark("Polling, every 10 s", "poll", "Live updates stopped, so this page asks every 10 s.")),
        _mark("Offline", "off", "The database does not answer. What you see may be old."),
    )
    cut_off = _mark("Offline", "off", "The dashboard does not answer. What you see may be old.")
    return rx.el.span(rx.cond(has_connection_errors, cut_off, told), role="status")


def _banner(icon_name: str, text: str, color: str, *acts: rx.Component, class_name: str = "") -> rx.Component:
    return rx.el.div(
        icon(icon_name),
        rx.el.span(text, class_name="grow"),
        *acts,
        class_name=f"ry-banner {class_name}".strip(),
        custom_attrs={"data-accent-color": color},
    )


def connection_banner() -> rx.Component:
    """Say what is broken, what is not harmed, and offer to try now."""
    again = rx.button("Try now", on_click=SessionState.try_now, variant="ghost", color_scheme="gray", size="1")
    told = rx.match(
        SessionState.link,
        ("live", rx.fragment()),
        (
            "polling",
            _banner(
                "refresh-cw",
                "Live updates stopped, so this page asks every 10 s. Jobs are not affected.",
                "amber",
                again,
                class_name="late",
            ),
        ),
        _banner(
            "wifi-off",
            "No connection to the database. What you see may be old. Runners go on working.",
            "red",
            again,
        ),
    )
    cut_off = _banner(
        "wifi-off",
        "No connection to the dashboard; it is tried again by itself. What you see may be old. Runners go on working.",
        "red",
    )
    return rx.cond(has_connection_errors, cut_off, told)
