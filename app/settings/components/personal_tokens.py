"""Personal tokens on the account's page."""

import reflex as rx

from app.project.token_limits import EVERYTHING, LIMITS
from app.settings.state.personal_tokens import PersonalTokensState, TokenView
from app.ui.copy import copy_button
from app.ui.dialog import act_button, alert, cancel, dialog_acts, question
from app.ui.elements import date, secret
from app.ui.icons import icon
from app.ui.panel import settings_panel
from app.ui.resource import Column, moment, rows_table, strong

State = PersonalTokensState


def _expires(row: rx.Var[TokenView]) -> rx.Component:
    return rx.cond(row["is_live"], date(row["expires_at"].to(str)), rx.el.span("Expired", class_name="mut"))


def _may(row: rx.Var[TokenView]) -> rx.Component:
    return rx.el.span(row["limit"], custom_attrs={"data-testid": "limit"})


def _revoke(row: rx.Var[TokenView]) -> rx.Component:
    return rx.button(
        "Revoke",
        on_click=State.ask(row["id"].to(str)),
        size="1",
        variant="surface",
        color_scheme="red",
        aria_label="Revoke " + row["name"].to(str),
    )


COLUMNS = (
    Column("Name", strong("name"), "n-a"),
    Column("Ends in", "hint", "mut ry-mono n-c"),
    Column("May", _may, "mut wrap n-c"),
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
    token = rx.el.div(
        rx.el.span(State.shown_name, class_name="k"),
        secret(State.shown_id, "%TOKEN%", class_name="ry-el", custom_attrs={"data-testid": "new-token"}),
        copy_button("%TOKEN%", "Copy the token", owner=State.shown_id),
        class_name="ry-sec1",
    )
    return rx.el.div(rx.el.div(token, class_name="ry-code"), note, class_name="ry-pb", role="status")


def tokens_panel(is_loading: rx.Var[bool]) -> rx.Component:
    """The panel with the list."""
    create = rx.button(
        icon("plus"),
        "Create token",
        on_click=State.set_open(True),
        disabled=is_loading,
        color_scheme="gray",
        high_contrast=True,
    )
    words = "For the command line and scripts. A token can do what you can do, never more."
    table = rows_table("Personal tokens", COLUMNS, State.rows, lambda _row: {"data-testid": "personal-token"})
    none = rx.el.p(
        "No tokens yet. With one, ", rx.el.code("RUNYARD_TOKEN"), " signs a script in as you.", class_name="mut ry-pb"
    )
    shown = rx.cond(State.shown_id != "", _shown())
    return settings_panel("Personal tokens", words, create, shown, rx.cond(State.rows.length() > 0, table, none))


def _form() -> rx.Component:
    days = rx.select.root(
        rx.select.trigger(id="token-days", aria_label="Expires"),
        rx.select.content(
            rx.select.item("In 30 days", value="30"),
            rx.select.item("In 90 days", value="90"),
            rx.select.item("In a year", value="365"),
        ),
        name="days",
        default_value="90",
    )
    limit = rx.select.root(
        rx.select.trigger(id="token-limit", aria_label="May"),
        rx.select.content(*[rx.select.item(words, value=role) for role, words in LIMITS.items()]),
        name="limit",
        default_value=EVERYTHING,
    )
    path = rx.input(
        id="token-path", name="path", placeholder="platform/prod", auto_complete="off", class_name="ry-mono",
        custom_attrs={"spellCheck": "false"},
    )  # fmt: skip
    problem = rx.el.p(State.error, class_name="t-red sm", role="alert", custom_attrs={"data-testid": "token-error"})
    return rx.form(
        rx.el.div(
            rx.el.label("Name", html_for="token-name"),
            rx.input(id="token-name", name="name", placeholder="laptop", max_length=60, auto_focus=True),
            class_name="ry-f ry-dialog-field",
        ),
        rx.el.div(rx.el.label("Expires", html_for="token-days"), days, class_name="ry-f ry-dialog-field"),
        rx.el.div(rx.el.label("May", html_for="token-limit"), limit, class_name="ry-f ry-dialog-field"),
        rx.el.div(
            rx.el.label("At a group or module", html_for="token-path"),
            path,
            rx.el.small("If empty, everywhere. Elsewhere it only reads."),
            class_name="ry-f ry-dialog-field",
        ),
        rx.cond(State.error != "", problem),
        dialog_acts(cancel(State.set_open(False)), act_button("Create", type="submit")),
        on_submit=State.create,
    )


def token_dialogs() -> list[rx.Component]:
    """Create a token; revoke one."""
    form = alert(
        "Create a personal token",
        "It acts as you, in every organisation of yours, until it expires or you revoke it.",
        _form(),
        is_open=State.is_open,
        on_escape=State.set_open(False),
    )
    revoke = question(
        is_open=State.asking_id != "",
        title=rx.fragment("Revoke ", State.asking_name, "?"),
        text="Everything that uses it loses access at once.",
        act="Revoke token",
        on_act=State.revoke,
        on_keep=State.ask(""),
    )
    return [form, revoke]
