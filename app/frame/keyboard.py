"""The list of keys; what they do is in assets/runyard.js."""

import reflex as rx

from app.ui.controls import plain_button

KEYS = (
    ("/", "Search"),
    ("Ctrl+K", "Search or run a command"),
    ("g r", "Runners"),
    ("g j", "Jobs"),
    ("g m", "Modules"),
    ("g s", "Settings"),
    ("j k", "Next and previous row"),
    ("Enter", "Open the row"),
    ("→ ←", "Unfold and fold"),
    ("n", "Add runner; in a log the next hit"),
    (".", "Menu of the row"),
    ("c", "To what the decision lacks, or to Confirm; Enter presses it"),
    ("d", "Discard the plan, after a question"),
    ("u", "The next job that needs you"),
    ("f", "Follow the log"),
    ("[ ]", "Previous and next step of the log"),
    ("Esc", "Close, then clear the search"),
    ("?", "This list"),
)


def keyboard_help() -> rx.Component:
    """A native dialog, so that no server is needed to open and close it."""
    rows = [
        rx.fragment(rx.el.dt(*[rx.el.kbd(key, class_name="rt-Kbd") for key in keys.split()]), rx.el.dd(what))
        for keys, what in KEYS
    ]
    return rx.el.dialog(
        rx.el.h2("Keyboard", class_name="ry-h2"),
        rx.el.dl(*rows, class_name="ry-dl"),
        rx.el.form(plain_button("Close", type="submit"), method="dialog"),
        id="ry-help",
        class_name="ry-help",
        aria_label="Keyboard",
    )
