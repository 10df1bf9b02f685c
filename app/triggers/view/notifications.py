"""Notification rules and deliveries: rows, words and the form."""

from typing import TypedDict

from app.ui.form.fields import Checked, texts
from app.ui.view import Row, read

EVENTS = {
    "job.awaiting_approval": "Approval requested",
    "job.failed": "Job failed",
    "job.succeeded": "Apply or destroy succeeded",
    "job.needs_attention": "Needs attention",
    "module.drift": "Drift found",
    "runner.lost": "Runner lost",
    "runner.degraded": "Runner degraded",
    "runner.outdated": "Runner outdated",
    "release.published": "New release",
}
CHANNELS = {"webhook": "Webhook", "slack": "Slack", "teams": "Microsoft Teams", "mail": "Email"}
MIN_SECRET = 8


class RuleView(TypedDict):
    id: str
    name: str
    events: str
    event_keys: list[str]
    channel: str
    channel_words: str
    hint: str
    path: str
    is_on: bool
    has_secret: bool
    last: str


class DeliveryView(TypedDict):
    id: str
    at: str
    title: str
    channel: str
    status: str
    why: str
    act: str


def build_rule(row: Row) -> RuleView:
    channel, keys = row.get("channel") or "webhook", row.get("events") or []
    words = CHANNELS.get(channel, channel)
    return read(
        RuleView,
        row,
        name=f"{words} {row.get('address_hint') or ''}",
        events=", ".join(EVENTS.get(key, key) for key in keys),
        event_keys=keys,
        channel=channel,
        channel_words=words,
        hint=row.get("address_hint"),
        is_on=row.get("is_on", True),
        last=_status(row.get("last_delivery") or {}),
    )


def build_delivery(row: Row, attempts: int) -> DeliveryView:
    """Read a delivery: status, attempt, and what comes next."""
    status = _status(row)
    return read(
        DeliveryView,
        row,
        at=row.get("created_at"),
        channel={**CHANNELS, "git": "Repository"}.get(str(row.get("channel"))),
        status=status,
        why=_why(row, status, attempts),
        act={"RETRYING": "Retry now", "FAILED": "Send again"}.get(status),
    )


def _status(row: Row) -> str:
    status = str(row.get("status") or "")
    return "RETRYING" if status == "PENDING" and row.get("note") else status


def _why(row: Row, status: str, attempts: int) -> str:
    note, attempt = str(row.get("note") or "").removesuffix("."), int(row.get("attempt") or 0)
    if status == "DELIVERED":
        return f"{note} in {row.get('took_ms')} ms"
    if status == "RETRYING":
        return f"{note}, attempt {attempt} of {attempts}"
    if status == "FAILED":
        return f"{note}, given up after {attempt} attempts" if attempt else note
    return note


def check_form(raw: object, channel: str, events: list[str], *, is_new: bool) -> Checked:
    """Check a rule's form; the address and the secret stay out of the specification: they are sealed first."""
    form, checked = texts(raw), Checked()
    address, secret = form.get("address", "").strip(), form.get("secret", "").strip()
    if not events:
        checked.errors["events"] = "Choose at least one event."
    if is_new and not address:
        checked.errors["address"] = "Enter an address."
    if secret and len(secret) < MIN_SECRET:
        checked.errors["secret"] = f"At least {MIN_SECRET} characters."
    checked.spec = {"path": form.get("path", "").strip().strip("/"), "events": events}
    if is_new:
        checked.spec["channel"] = channel
    return checked
