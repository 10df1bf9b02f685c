"""My own account: one line per fact, with its act on the right."""

from typing import Any

import reflex as rx

from app.frame.layout import head, page
from app.frame.session import SessionState
from app.settings.components.personal_tokens import token_dialogs, tokens_panel
from app.settings.components.sessions import session_dialogs, sessions_panel
from app.settings.components.two_steps import line, two_step_dialogs, two_step_lines
from app.settings.state.account import AccountState
from app.ui.controls import act_button, small_button
from app.ui.dialog import alert, cancel, dialog_acts, dialog_input, error_line
from app.ui.panel import problem_line, titled_panel

State = AccountState


def _button(label: str, what: str, **props: Any) -> rx.Component:
    # Opening the page closes what a reload would have left open: a click before that would be lost.
    return small_button(label, on_click=State.ask(what), disabled=State.is_loading, **props)


def _dialog(what: str, title: str, text: str, act: str, on_submit: Any, *fields: rx.Component) -> rx.Component:
    acts = dialog_acts(cancel(State.ask("")), act_button(act, type="submit"))
    form = rx.form(*fields, error_line(State.error, "account-error"), acts, on_submit=on_submit)
    return alert(title, text, form, is_open=State.asking == what, on_escape=State.ask(""))


def _password(name: str, label: str, complete: str = "new-password") -> rx.Component:
    return dialog_input(f"account-{name}", label, type="password", required=True, auto_complete=complete)


def _dialogs() -> list[rx.Component]:
    ends, sent = (
        "All your other sessions end.",
        "A link is sent to the new address. The change takes effect when you follow it.",
    )
    current = _password("current", "Current password", "current-password")
    new = (_password("password", "New password"), _password("again", "New password again"))
    email = dialog_input("account-email", "New address", type="email", required=True, auto_complete="email")
    return [
        _dialog("password", "Change password", ends, "Change password", State.change_password, current, *new),
        _dialog("email", "Change email", sent, "Send link", State.change_email, current, email),
    ]


def account() -> rx.Component:
    sign_in = titled_panel(
        "Sign-in",
        None,
        line("Email", SessionState.email, _button("Change", "email", aria_label="Change email")),
        line(
            "Password",
            rx.el.span("Changing it ends every other session.", class_name="mut"),
            _button("Change", "password", aria_label="Change password"),
        ),
        rx.cond(
            State.provider != "",
            line(
                "Company account",
                rx.el.span(State.provider, " signs your address in; the password ends then.", class_name="mut"),
                small_button("Join ", State.provider, type="button", custom_attrs={"data-join": ""}),
            ),
        ),
        problem_line(class_name="ry-pb"),
        two_step_lines(State.is_loading),
    )
    return page(
        head("Account", "Your own settings, the same in every organisation."),
        sign_in,
        sessions_panel(State.is_loading),
        tokens_panel(State.is_loading),
        title="Account",
        active="",
        dialogs=[*_dialogs(), *two_step_dialogs(), *session_dialogs(), *token_dialogs()],
    )
