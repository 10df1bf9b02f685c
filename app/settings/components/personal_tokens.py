"""Personal tokens on the account's page."""

import reflex as rx

from app.project.token_limits import EVERYTHING, LIMITS
from app.settings.state.personal_tokens import DAYS, PersonalTokensState, TokenView
from app.ui.controls import act_button, choice, icon, secret_line, small_button
from app.ui.dialog import alert, cancel, dialog_acts, dialog_field, dialog_input, error_line
from app.ui.elements import date
from app.ui.panel import settings_panel
from app.ui.resource import Column, moment, removal, rows_table, strong

State = PersonalTokensState


def _expires(row: rx.Var[TokenView]) -> rx.Component:
    return rx.cond(row["is_live"], date(row["expires_at"].to(str)), rx.el.span("Expired", class_name="mut"))


def _revoke(row: rx.Var[TokenView]) -> rx.Component:
    return small_button(
        "Revoke",
        on_click=State.ask_remove(row["id"].to(str)),
        color_scheme="red",
        aria_label="Revoke " + row["name"].to(str),
    )


COLUMNS = (
    Column("Name", strong("name"), "n-a"),
    Column("Ends in", "hint", "mut ry-mono n-c"),
    Column("May", lambda row: rx.el.span(row["limit"], custom_attrs={"data-testid": "limit"}), "mut wrap n-c"),
    Column("Created", moment("created_at", date), "mut num hide-s"),
    Column("Expires", _expires, "n-d"),
    Column("Last used", moment("last_used_at"), "r mut num hide-s"),
    Column("Actions", _revoke, "r n-b"),
)


def _shown() -> rx.Component:
    """A new token, once, above the list."""
    note = rx.el.p(
        icon("triangle-alert", class_name="t-amb"),
        rx.el.span(" Shown once and stored only as a hash. If you lose it, create a new one. "),
        rx.el.button("Done", on_click=State.forget, class_name="rt-reset ry-link", type="button"),
        class_name="ry-hint",
    )
    token = secret_line(State.shown_name, State.shown_id, "Copy the token", **{"data-testid": "new-token"})
    return rx.el.div(rx.el.div(token, class_name="ry-code"), note, class_name="ry-pb", role="status")


def tokens_panel(is_loading: rx.Var[bool]) -> rx.Component:
    create = act_button(icon("plus"), "Create token", on_click=State.set_open(True), disabled=is_loading)
    words = "For the command line and scripts. A token can do what you can do, never more."
    table = rows_table("Personal tokens", COLUMNS, State.rows, lambda _row: {"data-testid": "personal-token"})
    none = rx.el.p(
        "No tokens yet. With one, ", rx.el.code("RUNYARD_TOKEN"), " signs a script in as you.", class_name="mut ry-pb"
    )
    shown = rx.cond(State.shown_id != "", _shown())
    return settings_panel("Personal tokens", words, create, shown, rx.cond(State.rows.length() > 0, table, none))


def _form() -> rx.Component:
    days = choice("Expires", DAYS, name="days", default_value="90", key="token-days", width=None)
    limit = choice("May", LIMITS, name="limit", default_value=EVERYTHING, key="token-limit", width=None)
    mono = {"auto_complete": "off", "class_name": "ry-mono", "custom_attrs": {"spellCheck": "false"}}
    hint = rx.el.small("If empty, everywhere. Elsewhere it only reads.")
    return rx.form(
        dialog_input("token-name", "Name", placeholder="laptop", max_length=60, auto_focus=True),
        dialog_field("token-days", "Expires", days),
        dialog_field("token-limit", "May", limit),
        dialog_input("token-path", "At a group or module", hint, placeholder="platform/prod", **mono),
        error_line(State.error, "token-error"),
        dialog_acts(cancel(State.set_open(False)), act_button("Create", type="submit")),
        on_submit=State.create,
    )


def token_dialogs() -> list[rx.Component]:
    form = alert(
        "Create a personal token",
        "It acts as you, in every organisation of yours, until it expires or you revoke it.",
        _form(),
        is_open=State.is_open,
        on_escape=State.set_open(False),
    )
    lost = "Everything that uses it loses access at once."
    return [form, removal(State, "Revoke", lost, "Revoke token")]
