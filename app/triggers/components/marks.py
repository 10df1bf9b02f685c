"""Badges of runs and deliveries: shape, colour and word."""

import reflex as rx

from app.ui.icons import icon

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


def _mark(status: rx.Var[str], known: dict[str, tuple[str, str, str]]) -> rx.Component:
    badges = [
        (key, rx.badge(icon(name, "xs"), words, color_scheme=color, radius="full", custom_attrs={"data-status": key}))
        for key, (name, color, words) in known.items()
    ]
    return rx.match(status, *badges, rx.el.span("–", class_name="mut"))


def run_mark(status: rx.Var[str]) -> rx.Component:
    """How a schedule's last run went."""
    return _mark(status, RUNS)


def delivery_mark(status: rx.Var[str]) -> rx.Component:
    """What became of a message."""
    return _mark(status, DELIVERIES)
