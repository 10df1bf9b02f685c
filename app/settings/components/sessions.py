"""Sessions on the account's page."""

import reflex as rx

from app.settings.components.two_steps import line
from app.settings.state.sessions import SessionsState
from app.settings.view.sessions import SessionView
from app.ui.controls import plain_button, small_button
from app.ui.dialog import question
from app.ui.elements import clock_time
from app.ui.panel import settings_panel
from app.ui.resource import Column, moment, rows_table, strong

State = SessionsState


def _browser(row: rx.Var[SessionView]) -> rx.Component:
    this = rx.badge("This one", color_scheme="gray", radius="full")
    return rx.el.div(strong("device")(row), rx.cond(row["is_this"], this), class_name="ry-row")


def _end(row: rx.Var[SessionView]) -> rx.Component:
    end = small_button(
        "Sign out",
        on_click=State.ask(row["key"].to(str)),
        color_scheme="red",
        aria_label="Sign out " + row["device"].to(str),
    )
    return rx.cond(row["is_this"], rx.fragment(), end)


COLUMNS = (
    Column("Browser", _browser, "n-a"),
    Column("Signed in", moment("created_at", clock_time), "mut num hide-s"),
    Column("Last used", moment("last_used_at"), "r mut num n-c"),
    Column("Actions", _end, "r n-b"),
)


def sessions_panel(is_loading: rx.Var[bool]) -> rx.Component:
    others = plain_button("Sign out all others", on_click=State.ask_all, disabled=is_loading)
    words = "Browsers that are signed in to this dashboard."
    table = rows_table("Sessions", COLUMNS, State.rows, lambda _row: {"data-testid": "session"}, key="key")
    login = rx.fragment(
        rx.el.span("runyard login", class_name="ry-mono"),
        rx.el.span(" is not listed here. “Sign out all others” ends it too; a personal token ends when you revoke it."),
    )
    ends = line("Command line", rx.el.span(login, class_name="mut"))
    return settings_panel("Sessions", words, others, table, ends)


def session_dialogs() -> list[rx.Component]:
    one = question(
        is_open=State.asking_key != "",
        title=rx.fragment("Sign out ", State.asking_device, "?"),
        text="It loses access at once, and its open pages close within half a minute.",
        act="Sign out",
        on_act=State.end,
        on_keep=State.ask(""),
    )
    everything = question(
        is_open=State.is_asking_all,
        title="Sign out everywhere else?",
        text=(
            "Every other browser, and every runyard login, which ends within the hour that its token lasts. "
            "Personal tokens stay: revoke them below."
        ),
        act="Sign out all others",
        on_act=State.end_others,
        on_keep=State.ask(""),
    )
    return [one, everything]
