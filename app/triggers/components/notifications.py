"""Notifications: rules, the log of deliveries, the sheet, and the switch of the browser's own."""

import reflex as rx

from app.frame.layout import admin_button
from app.frame.pick import picks
from app.frame.session import SessionState
from app.triggers.components.marks import delivery_mark
from app.triggers.state.notifications import NotificationsState
from app.triggers.view.notifications import CHANNELS, EVENTS, DeliveryView, RuleView
from app.ui.badges import pill
from app.ui.controls import choice, icon, plain_button, small_button
from app.ui.dialog import form_sheet
from app.ui.elements import clock_seconds
from app.ui.form.elements import Fields, check_field, labelled, problem_line, text_field
from app.ui.panel import empty, settings_panel
from app.ui.resource import Act, Column, moment, mono, removal, resource_panel, row_menu, rows_table
from app.ui.table import older_foot

State = NotificationsState
STATUSES = {
    "any": "Any status",
    "PENDING": "Queued",
    "DELIVERED": "Delivered",
    "KEPT": "In the outbox",
    "FAILED": "Failed",
}


def _channel_mark(channel: rx.Var[str]) -> rx.Component:
    marks = {"slack": "hash", "teams": "users", "mail": "mail", "webhook": "webhook"}
    return rx.match(channel, *[(key, icon(name, class_name="mut")) for key, name in marks.items()], icon("webhook"))


MENU = row_menu(
    Act("pencil", "Edit", State.edit),
    Act("circle-pause", "Switch off", lambda key: State.switch(key, False), lambda row: row["is_on"]),
    Act("circle-play", "Switch on", lambda key: State.switch(key, True), lambda row: ~row["is_on"].to(bool)),
    Act("trash-2", "Remove", State.ask_remove, is_danger=True),
)


def _rule_actions(row: rx.Var[RuleView]) -> rx.Component:
    test = small_button("Send test", on_click=State.test(row["id"].to(str)))
    acts = rx.el.span(test, MENU(row), class_name="ry-row c6", style={"justify_content": "flex-end"})
    return rx.cond(SessionState.can_admin, acts)


def _events(row: rx.Var[RuleView]) -> rx.Component:
    off = pill("off")
    return rx.el.span(row["events"], rx.cond(row["is_on"], rx.fragment(), off), class_name="ry-row")


def _where(row: rx.Var[RuleView]) -> rx.Component:
    return rx.el.span(
        _channel_mark(row["channel"].to(str)),
        rx.el.span(row["channel_words"]),
        rx.el.span(row["hint"], class_name="mut ry-mono hide-s"),
        class_name="ry-row c6",
    )


def _group(row: rx.Var[RuleView]) -> rx.Component:
    return rx.cond(row["path"] != "", mono("path")(row), rx.el.span("All groups", class_name="mut"))


RULES = (
    Column("Event", _events, "n-a wrap"),
    Column("Where", _where, "n-c"),
    Column("Group", _group, "hide-s"),
    Column("Last delivery", lambda row: delivery_mark(row["last"].to(str)), "n-b"),
    Column("Actions", _rule_actions, "r hide-s"),
)


def _status(row: rx.Var[DeliveryView]) -> rx.Component:
    why = rx.el.span(row["why"], title=row["why"].to(str), class_name="ry-why ry-el hide-s")
    return rx.el.span(delivery_mark(row["status"].to(str)), why, class_name="ry-row")


def _again(row: rx.Var[DeliveryView]) -> rx.Component:
    return rx.cond(row["act"] != "", small_button(row["act"], on_click=State.again(row["id"].to(str))))


LOG = (
    Column("Time", moment("at", clock_seconds), "mut num n-d"),
    Column("Event", "title", "n-a"),
    Column("Where", "channel", "mut hide-s"),
    Column("Status", _status, "n-b ry-rest"),
    Column("Note", "why", "mut sm n-w only-s"),
    Column("Actions", _again, "r hide-s"),
)


def _log() -> rx.Component:
    none = empty("send", "Nothing sent yet", "Each message shows up here with its outcome, and stays for 30 days.")
    shown = rows_table("Deliveries", LOG, State.deliveries)
    foot = older_foot(State, rx.el.span(State.deliveries.length(), " of ", State.total, class_name="num"))
    chosen = choice("Status", STATUSES, value=State.status, on_change=State.set_status)
    text = "Kept for 30 days. Up to 10 attempts over 16 hours, then it is given up; it can be sent again at any time."
    body = rx.cond(State.deliveries.length() > 0, rx.fragment(shown, foot), none)
    panel = settings_panel("Deliveries", text, rx.el.div(chosen, style={"min_width": "140px"}), body)
    return rx.cond(SessionState.can_admin, panel)


def _browser() -> rx.Component:
    button = plain_button(
        icon("bell"),
        rx.cond(State.is_browser_on, "Turn off", "Turn on"),
        on_click=rx.call_script("window.runyardNotify.turn()", callback=State.browser_turned),
        on_mount=rx.call_script("window.runyardNotify.isOn()", callback=State.browser_is),
    )
    text = "Notifies you when another job waits for a decision while this tab is in the background. The tab's title counts them either way."
    return settings_panel("In this browser", text, button)


def notification_panels() -> list[rx.Component]:
    add = admin_button("Create rule", "plus", State.add)
    about = "Which events go where. Addresses and secrets can be replaced, never read."
    text = rx.cond(
        SessionState.can_admin,
        "Create one to hear about approvals, failures and drift.",
        "With one, approvals, failures and drift are sent to people. An admin can create it.",
    )
    none = empty("bell", "No rules yet", text, add)
    rules = resource_panel(State, "Notifications", about, RULES, none, add=add, table="Notification rules")
    return [rules, _log(), _browser()]


def _event(key: str, words: str) -> rx.Component:
    return check_field(
        words, checked=State.events.contains(key), on_change=lambda is_on: State.set_event(key, is_on), size="1"
    )


def _fields() -> list[rx.Component]:
    fields, errors = Fields(State), State.errors
    events = rx.el.div(*[_event(key, words) for key, words in EVENTS.items()], class_name="ry-two ry-tight")
    address = rx.cond(State.channel == "mail", "Write-only. An email address.", "Write-only. A public https address.")
    kept = rx.cond(State.is_new, address, "Write-only. Now " + State.chosen["hint"] + "; leave empty to keep it.")
    where = choice("Where", CHANNELS, value=State.channel, on_change=State.set_channel, disabled=~State.is_new)
    signs = "Write-only. Each message is signed with it."
    return [
        labelled("Events", events, rx.cond(errors.contains("events"), problem_line("events", errors["events"]))),
        rx.el.div(
            labelled("Where", where),
            fields.text("path", "Group", "If empty, the whole organisation.", **picks("groups")),
            class_name="ry-two",
        ),
        text_field("address", "Address", "", errors, kept),
        rx.cond(
            State.channel == "webhook",
            fields.secret("secret", "Signing secret", signs, State.chosen["has_secret"], none="for none"),
        ),
    ]


def notification_dialogs() -> list[rx.Component]:
    title = rx.cond(State.is_new, "Create rule", "Edit rule")
    about = "Sends a message when something happens."
    gone = "It stops sending, and its address is deleted. The log of deliveries stays."
    return [
        form_sheet(State, title, about, rx.cond(State.is_new, "Create rule", "Save"), _fields()),
        removal(State, "Remove", gone, "Remove rule"),
    ]
