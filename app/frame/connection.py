"""The connection mark, which is true, and the banner that explains it when it is not 'Live'.

Two lines can break: the browser's to the dashboard, which only the browser knows of
(assets/connection.js), and the dashboard's to the project, which the feed reports.
"""

import reflex as rx

from app.frame.session import NO_LINK, SessionState
from app.ui.controls import icon, quiet_button
from app.ui.elements import zoned_time
from app.ui.panel import RETRY

KEPT = "Applies continue on their runners, and their state is kept there."


def _mark(word: str, kind: str, title: str) -> rx.Component:
    classes = f"ry-live {kind}".strip()
    custom = {"data-link": kind or "live"}
    return rx.el.span(rx.el.i(), rx.el.span(word), class_name=classes, title=title, custom_attrs=custom)


def connection_mark() -> rx.Component:
    """Show how changes arrive: live, by polling, or not at all."""
    link_words = rx.match(
        SessionState.link,
        ("live", _mark("Live", "", "Changes arrive as they happen.")),
        ("", _mark("Connecting…", "poll", "Live updates start in a moment.")),
        (NO_LINK, rx.fragment()),
        ("polling", _mark("Polling, every 10 s", "poll", "Live updates paused. Refreshing every 10 s.")),
        _mark("Offline", "off", "The database does not answer. This page may be out of date."),
    )
    cut_off = _mark("Offline", "off", "The dashboard does not answer. This page may be out of date.")
    return rx.el.span(
        rx.el.span(link_words, class_name="ry-told"), rx.el.span(cut_off, class_name="ry-cut"), role="status"
    )


def _banner(icon_name: str, text: rx.Component, color: str, *acts: rx.Component, class_name: str = "") -> rx.Component:
    return rx.el.div(
        icon(icon_name),
        text,
        *acts,
        class_name=f"ry-banner {class_name}".strip(),
        custom_attrs={"data-accent-color": color, "data-testid": "connection-banner"},
    )


def _words(*parts: rx.Component | str) -> rx.Component:
    return rx.el.span(*parts, class_name="grow")


def _since() -> rx.Component:
    at = SessionState.link_since
    return rx.cond(at != "", rx.fragment(" since ", zoned_time(at)))


def connection_banner() -> rx.Component:
    """Explain what is broken and since when, and what becomes of running work; offer to try now."""
    again = quiet_button("Try now", on_click=SessionState.try_now, custom_attrs=RETRY)
    paused = _words("Live updates paused. Refreshing every 10 s. Jobs are not affected.")
    away = _words(
        "Out of contact with the database", _since(), ". This page may be out of date, and nothing is sent. ", KEPT
    )
    unswept = _words(
        "Nothing sweeps this database: lost jobs are not found, and schedules do not start. Run ",
        rx.el.code("runyard doctor"),
        " on the server to see why.",
    )
    alone_in = _words(
        "You came in without ", SessionState.without, ", which everybody else must use. This is in the audit log."
    )
    swept = rx.cond(SessionState.is_unswept, _banner("alarm-clock-off", unswept, "amber"))
    link_words = rx.match(
        SessionState.link,
        ("live", swept),
        ("", NO_LINK, rx.fragment()),
        ("polling", _banner("refresh-cw", paused, "amber", again, class_name="late")),
        _banner("wifi-off", away, "red", again),
    )
    since = rx.el.span(custom_attrs={"data-cut-since": ""})
    alone = _words(
        "No connection to the dashboard", since, ". Reconnecting… This page may be out of date, and nothing is sent."
    )
    return rx.fragment(
        rx.cond(SessionState.without != "", _banner("key-round", alone_in, "amber")),
        rx.el.div(link_words, class_name="ry-told"),
        rx.el.div(_banner("wifi-off", alone, "red"), class_name="ry-cut"),
    )
