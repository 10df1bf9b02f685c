"""My own account: one line per fact, with its act on the right; my sessions, and my tokens."""

from typing import Any

import reflex as rx

from app.frame.layout import head, page
from app.frame.pick import picks
from app.frame.session import SessionState
from app.project.token_limits import EVERYTHING, LIMITS
from app.settings.components.two_steps import line, two_step_dialogs, two_step_lines
from app.settings.state.account import AccountState
from app.settings.state.personal_tokens import DAYS, PersonalTokensState, TokenView
from app.settings.state.sessions import SessionsState
from app.settings.view.sessions import SessionView
from app.ui.badges import pill
from app.ui.controls import act_button, choice, icon, plain_button, secret_line, small_button
from app.ui.dialog import alert, cancel, dialog_acts, dialog_field, dialog_input, error_line, question
from app.ui.elements import clock_time, date
from app.ui.panel import problem_line, settings_panel, titled_panel
from app.ui.resource import Column, moment, removal, rows_table, strong

State = AccountState


def _expires(row: rx.Var[TokenView]) -> rx.Component:
    return rx.cond(row["is_live"], date(row["expires_at"].to(str)), rx.el.span("Expired", class_name="mut"))


def _revoke(row: rx.Var[TokenView]) -> rx.Component:
    return small_button(
        "Revoke",
        on_click=PersonalTokensState.ask_remove(row["id"].to(str)),
        color_scheme="red",
        aria_label="Revoke " + row["name"].to(str),
    )


TOKEN_COLUMNS = (
    Column("Name", strong("name"), "n-a"),
    Column("Ends in", "hint", "mut ry-mono n-c"),
    Column("May", lambda row: rx.el.span(row["limit"], custom_attrs={"data-testid": "limit"}), "mut wrap n-c"),
    Column("Created", moment("created_at", date), "mut num hide-s"),
    Column("Expires", _expires, "n-d"),
    Column("Last used", moment("last_used_at"), "r mut num hide-s"),
    Column("Actions", _revoke, "r n-b"),
)


def _browser(row: rx.Var[SessionView]) -> rx.Component:
    this = pill("This one")
    return rx.el.div(strong("device")(row), rx.cond(row["is_this"], this), class_name="ry-row")


def _end(row: rx.Var[SessionView]) -> rx.Component:
    end = small_button(
        "Sign out",
        on_click=SessionsState.ask(row["key"].to(str)),
        color_scheme="red",
        aria_label="Sign out " + row["device"].to(str),
    )
    return rx.cond(row["is_this"], rx.fragment(), end)


SESSION_COLUMNS = (
    Column("Browser", _browser, "n-a"),
    Column("Signed in", moment("created_at", clock_time), "mut num hide-s"),
    Column("Last used", moment("last_used_at"), "r mut num n-c"),
    Column("Actions", _end, "r n-b"),
)


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


def sessions_panel(is_loading: rx.Var[bool]) -> rx.Component:
    others = plain_button("Sign out all others", on_click=SessionsState.ask_all, disabled=is_loading)
    words = "Browsers that are signed in to this dashboard."
    table = rows_table(
        "Sessions", SESSION_COLUMNS, SessionsState.rows, lambda _row: {"data-testid": "session"}, key="key"
    )
    login = rx.fragment(
        rx.el.span("runyard login", class_name="ry-mono"),
        rx.el.span(" is not listed here. “Sign out all others” ends it too; a personal token ends when you revoke it."),
    )
    ends = line("Command line", rx.el.span(login, class_name="mut"))
    return settings_panel("Sessions", words, others, table, ends)


def session_dialogs() -> list[rx.Component]:
    one = question(
        is_open=SessionsState.asking_key != "",
        title=rx.fragment("Sign out ", SessionsState.asking_device, "?"),
        text="It loses access at once, and its open pages close within half a minute.",
        act="Sign out",
        on_act=SessionsState.end,
        on_keep=SessionsState.ask(""),
    )
    everything = question(
        is_open=SessionsState.is_asking_all,
        title="Sign out everywhere else?",
        text=(
            "Every other browser, and every runyard login, which ends within the hour that its token lasts. "
            "Personal tokens stay: revoke them below."
        ),
        act="Sign out all others",
        on_act=SessionsState.end_others,
        on_keep=SessionsState.ask(""),
    )
    return [one, everything]


def _shown() -> rx.Component:
    note = rx.el.p(
        icon("triangle-alert", class_name="t-amb"),
        rx.el.span(" Shown once and stored only as a hash. If you lose it, create a new one. "),
        rx.el.button("Done", on_click=PersonalTokensState.forget, class_name="rt-reset ry-link", type="button"),
        class_name="ry-hint",
    )
    token = secret_line(
        PersonalTokensState.shown_name, PersonalTokensState.shown_id, "Copy the token", **{"data-testid": "new-token"}
    )
    return rx.el.div(rx.el.div(token, class_name="ry-code"), note, class_name="ry-pb", role="status")


def tokens_panel(is_loading: rx.Var[bool]) -> rx.Component:
    create = act_button(icon("plus"), "Create token", on_click=PersonalTokensState.set_open(True), disabled=is_loading)
    words = "For the command line and scripts. A token can do what you can do, never more."
    table = rows_table(
        "Personal tokens", TOKEN_COLUMNS, PersonalTokensState.rows, lambda _row: {"data-testid": "personal-token"}
    )
    none = rx.el.p(
        "No tokens yet. With one, ", rx.el.code("RUNYARD_TOKEN"), " signs a script in as you.", class_name="mut ry-pb"
    )
    shown = rx.cond(PersonalTokensState.shown_id != "", _shown())
    return settings_panel(
        "Personal tokens", words, create, shown, rx.cond(PersonalTokensState.rows.length() > 0, table, none)
    )


def _form() -> rx.Component:
    days = choice("Expires", DAYS, name="days", default_value="90", key="token-days", width=None)
    limit = choice("May", LIMITS, name="limit", default_value=EVERYTHING, key="token-limit", width=None)
    place = {"auto_complete": "off", "class_name": "ry-mono", **picks("groups", "modules")}
    hint = rx.el.small("If empty, everywhere. Elsewhere it only reads.")
    return rx.form(
        dialog_input("token-name", "Name", placeholder="laptop", max_length=60, auto_focus=True),
        dialog_field("token-days", "Expires", days),
        dialog_field("token-limit", "May", limit),
        dialog_input("token-path", "At a group or module", hint, placeholder="platform/prod", **place),
        error_line(PersonalTokensState.error, "token-error"),
        dialog_acts(cancel(PersonalTokensState.set_open(False)), act_button("Create", type="submit")),
        on_submit=PersonalTokensState.create,
    )


def token_dialogs() -> list[rx.Component]:
    form = alert(
        "Create a personal token",
        "It acts as you, in every organisation of yours, until it expires or you revoke it.",
        _form(),
        is_open=PersonalTokensState.is_open,
        on_escape=PersonalTokensState.set_open(False),
    )
    lost = "Everything that uses it loses access at once."
    return [form, removal(PersonalTokensState, "Revoke", lost, "Revoke token")]
