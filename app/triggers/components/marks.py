"""Badges of runs, deliveries and repositories: shape, colour and word."""

from typing import Any

import reflex as rx

from app.ui.badges import pill
from app.ui.controls import icon

RUNS = {
    "RUNNING": ("loader-circle", "blue", "Running"),
    "SUCCEEDED": ("circle-check", "green", "Succeeded"),
    "FAILED": ("circle-x", "red", "Failed"),
    "CANCELLED": ("ban", "gray", "Cancelled"),
    "DRIFT": ("triangle-alert", "amber", "Drift found"),
}
DELIVERIES = {
    "PENDING": ("circle-dashed", "gray", "Queued"),
    "RETRYING": ("rotate-cw", "amber", "Retrying"),
    "DELIVERED": ("circle-check", "green", "Delivered"),
    "KEPT": ("mail", "gray", "In the outbox"),
    "FAILED": ("circle-x", "red", "Failed"),
}

CONNECTIONS = {
    "CONNECTED": ("circle-check", "green", "Connected"),
    "SILENT": ("circle-check", "gray", "Found by poll only"),
    "UNREAD": ("circle-dashed", "gray", "Not read yet"),
    "UNUSED": ("circle-dashed", "gray", "Not used yet"),
    "MISSING": ("triangle-alert", "amber", "Folder missing"),
    "REFUSED": ("circle-x", "red", "Signature refused"),
    "BROKEN": ("circle-x", "red", "Cannot be read"),
}
VERDICTS = {
    "PENDING": ("circle-dashed", "blue", "Pending"),
    "PLANNED": ("circle-check", "green", "Planned"),
    "NOTHING": ("circle-slash", "gray", "Nothing to plan"),
    "IGNORED": ("circle-slash", "gray", "Ignored"),
    "FAILED": ("circle-x", "red", "Failed"),
    "DONE": ("circle-check", "green", "Done"),
    "REFUSED": ("circle-x", "amber", "Refused"),
}
RESULTS = {"success": ("circle-check", "green"), "failure": ("circle-x", "red"), "pending": ("circle-dashed", "blue")}


def result_mark(state: rx.Var[str], words: Any) -> rx.Component:
    """The badge for the result of a module or a whole change, in its own words."""
    badges = [
        (key, pill(icon(name, "xs"), words, color=color, custom_attrs={"data-status": key}))
        for key, (name, color) in RESULTS.items()
    ]
    return rx.match(state, *badges, rx.el.span("–", class_name="mut"))


def _mark(status: rx.Var[str], known: dict[str, tuple[str, str, str]]) -> rx.Component:
    badges = [
        (key, pill(icon(name, "xs"), words, color=color, custom_attrs={"data-status": key}))
        for key, (name, color, words) in known.items()
    ]
    return rx.match(status, *badges, rx.el.span("–", class_name="mut"))


def trigger_mark(status: rx.Var[str]) -> rx.Component:
    """The badge for the result of a schedule's last run, or of a repository's last event."""
    return _mark(status, VERDICTS | RUNS)


def delivery_mark(status: rx.Var[str]) -> rx.Component:
    return _mark(status, DELIVERIES)


def connection_mark(status: rx.Var[str]) -> rx.Component:
    """The badge that shows whether a repository is read and its webhook works."""
    return _mark(status, CONNECTIONS)


def verdict_mark(verdict: rx.Var[str]) -> rx.Component:
    return _mark(verdict, VERDICTS)
