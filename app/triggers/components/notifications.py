"""Notifications: rules, the log of deliveries, the sheet, and the switch of the browser's own."""

import reflex as rx

from app.frame.layout import admin_button
from app.frame.session import SessionState
from app.triggers.components.marks import delivery_mark
from app.triggers.components.sheets import choice, form_sheet
from app.triggers.state.notifications import NotificationsState
from app.triggers.view.notifications import CHANNELS, EVENTS, DeliveryView, RuleView
from app.ui.dialog import question
from app.ui.elements import clock_seconds
from app.ui.feedback import empty
from app.ui.form.elements import check_field, field, problem_line, text_field
from app.ui.icons import icon
from app.ui.panel import item_table, menu, menu_item, settings_panel
from app.ui.table import cell, heads, table, turns

State = NotificationsState
RULE_HEADS = (("Event", ""), ("Where", ""), ("Group", ""), ("Last delivery", ""), ("Actions", "r"))
LOG_HEADS = (("Time", ""), ("Event", ""), ("Where", ""), ("Status", ""), ("Actions", "r"))
STATUSES = {
    "any": "Any status",
    "PENDING": "Queued",
    "DELIVERED": "Delivered",
    "KEPT": "In the outbox",
    "FAILED": "Failed",
}
SURFACE = {"variant": "surface", "color_scheme": "gray", "size": "1"}


def _channel_mark(channel: rx.Var[str]) -> rx.Component:
    marks = {"slack": "hash", "teams": "users", "mail": "mail", "webhook": "webhook"}
    return rx.match(channel, *[(key, icon(name, class_name="mut")) for key, name in marks.items()], icon("webhook"))


def _rule_actions(row: rx.Var[RuleView]) -> rx.Component:
    key = row["id"].to(str)
    switch = rx.cond(
        row["is_on"],
        menu_item("circle-pause", "Switch off", State.switch(key, False)),
        menu_item("circle-play", "Switch on", State.switch(key, True)),
    )
    acts = rx.el.span(
        rx.button("Send test", on_click=State.test(key), **SURFACE),
        menu(
            "More actions for " + row["name"].to(str),
            menu_item("pencil", "Edit", State.edit(key)),
            switch,
            rx.dropdown_menu.separator(),
            menu_item("trash-2", "Remove", State.ask_remove(key), color_scheme="red"),
        ),
        class_name="ry-row c6",
        style={"justify_content": "flex-end"},
    )
    return rx.cond(SessionState.can_admin, acts)


def _rule(row: rx.Var[RuleView]) -> rx.Component:
    where = rx.el.span(
        _channel_mark(row["channel"].to(str)),
        rx.el.span(row["channel_words"]),
        rx.el.span(row["hint"], class_name="mut ry-mono hide-s"),
        class_name="ry-row c6",
    )
    off = rx.badge("off", color_scheme="gray", radius="full")
    return rx.el.tr(
        cell(
            rx.el.span(row["events"], rx.cond(row["is_on"], rx.fragment(), off), class_name="ry-row"),
            class_name="n-a wrap",
        ),
        cell(where, class_name="n-c"),
        cell(
            rx.cond(
                row["path"] != "",
                rx.el.span(row["path"], class_name="ry-mono"),
                rx.el.span("All groups", class_name="mut"),
            ),
            class_name="hide-s",
        ),
        cell(delivery_mark(row["last"].to(str)), class_name="n-b"),
        cell(_rule_actions(row), class_name="r hide-s"),
        role="row",
        key=row["id"],
        custom_attrs={"data-row": row["id"]},
    )


def _delivery(row: rx.Var[DeliveryView]) -> rx.Component:
    again = rx.button(row["act"], on_click=State.again(row["id"].to(str)), **SURFACE)
    status = rx.el.span(
        delivery_mark(row["status"].to(str)),
        rx.el.span(row["why"], title=row["why"].to(str), class_name="ry-why ry-el hide-s"),
        class_name="ry-row",
    )
    return rx.el.tr(
        cell(clock_seconds(row["at"].to(str)), class_name="mut num n-d"),
        cell(row["title"], class_name="n-a"),
        cell(row["channel"], class_name="mut hide-s"),
        cell(status, class_name="n-b ry-rest"),
        cell(row["why"], class_name="mut sm n-w only-s"),
        cell(rx.cond(row["act"] != "", again), class_name="r hide-s"),
        role="row",
        key=row["id"],
        custom_attrs={"data-row": row["id"]},
    )


def _log() -> rx.Component:
    none = empty("send", "Nothing sent yet", "Each message shows up here with its outcome, and stays for 30 days.")
    shown = table("Deliveries", heads(*LOG_HEADS), rx.foreach(State.deliveries, _delivery))
    foot = rx.el.div(
        rx.el.span(State.deliveries.length(), " of ", State.total, class_name="num"),
        rx.el.span(class_name="grow"),
        turns("Newer", "Older", State.turn, is_first=State.before.length() == 0, is_last=~State.has_older),
        class_name="ry-foot",
    )
    chosen = choice("Status", State.status, State.set_status, STATUSES)
    text = "Kept for 30 days. Up to 10 attempts over 16 hours, then it is given up; it can be sent again at any time."
    body = rx.cond(State.deliveries.length() > 0, rx.fragment(shown, foot), none)
    panel = settings_panel("Deliveries", text, rx.el.div(chosen, style={"min_width": "140px"}), body)
    return rx.cond(SessionState.can_admin, panel)


def _browser() -> rx.Component:
    button = rx.button(
        icon("bell"),
        rx.cond(State.is_browser_on, "Turn off", "Turn on"),
        on_click=rx.call_script("window.runyardNotify.turn()", callback=State.browser_turned),
        on_mount=rx.call_script("window.runyardNotify.isOn()", callback=State.browser_is),
        variant="surface",
        color_scheme="gray",
    )
    text = "Notifies you when another job waits for a decision while this tab is in the background. The tab's title counts them either way."
    return settings_panel("In this browser", text, button)


def notification_panels() -> list[rx.Component]:
    """Rules, deliveries, and this browser."""
    none = empty(
        "bell",
        "No rules yet",
        rx.cond(
            SessionState.can_admin,
            "Create one to hear about approvals, failures and drift.",
            "With one, approvals, failures and drift are sent to people. An admin can create it.",
        ),
        admin_button("Create rule", "plus", State.add),
    )
    rules = settings_panel(
        "Notifications",
        "Which events go where. Addresses and secrets can be replaced, never read.",
        admin_button("Create rule", "plus", State.add),
        item_table(State, "Notification rules", RULE_HEADS, _rule, none),
    )
    return [rules, _log(), _browser()]


def _event(key: str, words: str) -> rx.Component:
    return check_field(
        words, checked=State.events.contains(key), on_change=lambda is_on: State.set_event(key, is_on), size="1"
    )


def _fields() -> list[rx.Component]:
    errors = State.errors
    events = rx.el.div(*[_event(key, words) for key, words in EVENTS.items()], class_name="ry-two ry-tight")
    wrong = problem_line("events", errors["events"])
    address = rx.cond(State.channel == "mail", "Write-only. An email address.", "Write-only. A public https address.")
    kept = rx.cond(State.is_new, address, "Write-only. Now " + State.chosen["hint"] + "; leave empty to keep it.")
    secret = rx.input(
        id="s-secret",
        name="secret",
        type="password",
        placeholder=rx.cond(State.chosen["has_secret"], "Leave empty to keep it", "Leave empty for none"),
        auto_complete="new-password",
    )
    return [
        rx.el.div(
            rx.el.span("Events", class_name="ry-lab"),
            events,
            rx.cond(errors.contains("events"), wrong),
            class_name="ry-f",
        ),
        rx.el.div(
            rx.el.div(
                rx.el.span("Where", class_name="ry-lab"),
                choice("Where", State.channel, State.set_channel, CHANNELS, disabled=~State.is_new),
                class_name="ry-f",
            ),
            text_field("path", "Group", State.chosen["path"], errors, "If empty, the whole organisation."),
            class_name="ry-two",
        ),
        text_field("address", "Address", "", errors, kept),
        rx.cond(
            State.channel == "webhook",
            field("secret", "Signing secret", secret, errors, "Write-only. Each message is signed with it."),
        ),
    ]


def notification_dialogs() -> list[rx.Component]:
    """The sheet, and the question before a rule is removed."""
    title = rx.cond(State.is_new, "Create rule", "Edit rule")
    about = "Sends a message when something happens."
    return [
        form_sheet(State, title, about, rx.cond(State.is_new, "Create rule", "Save"), _fields()),
        question(
            is_open=State.removing != "",
            title=rx.fragment("Remove ", State.removing_name, "?"),
            text="It stops sending, and its address is deleted. The log of deliveries stays.",
            act="Remove rule",
            on_act=State.remove,
            on_keep=State.keep,
        ),
    ]
