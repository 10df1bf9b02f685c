"""Sessions on the account's page."""

import reflex as rx

from app.settings.components.two_steps import line
from app.settings.state.sessions import SessionsState
from app.settings.view.sessions import SessionView
from app.ui.dialog import question
from app.ui.elements import ago, clock_time
from app.ui.table import cell, heads

State = SessionsState
HEADS = (("Browser", ""), ("Signed in", ""), ("Last used", "r"), ("Actions", "r"))


def _row(row: rx.Var[SessionView]) -> rx.Component:
    this = rx.badge("This one", color_scheme="gray", radius="full")
    end = rx.button(
        "Sign out",
        on_click=State.ask(row["key"].to(str)),
        size="1",
        variant="surface",
        color_scheme="red",
        aria_label="Sign out " + row["device"].to(str),
    )
    device = rx.el.b(row["device"], class_name="ry-medium")
    return rx.el.tr(
        cell(rx.el.div(device, rx.cond(row["is_this"], this), class_name="ry-row"), class_name="n-a"),
        cell(clock_time(row["created_at"].to(str)), class_name="mut num hide-s"),
        cell(ago(row["last_used_at"].to(str)), class_name="r mut num n-c"),
        cell(rx.cond(row["is_this"], rx.fragment(), end), class_name="r n-b"),
        role="row",
        key=row["key"],
        custom_attrs={"data-testid": "session"},
    )


def sessions_panel(is_loading: rx.Var[bool]) -> rx.Component:
    """The panel with the list."""
    others = rx.button(
        "Sign out all others",
        on_click=State.ask_all,
        disabled=is_loading,
        variant="surface",
        color_scheme="gray",
    )
    words = "Browsers that are signed in to this dashboard."
    table = rx.el.div(
        rx.el.table(
            heads(*HEADS), rx.el.tbody(rx.foreach(State.rows, _row)),
            class_name="ry-t cards", role="table", aria_label="Sessions",
        ),
        class_name="ry-tw",
    )  # fmt: skip
    login = rx.fragment(
        rx.el.span("runyard login", class_name="ry-mono"),
        rx.el.span(" is not listed here. “Sign out all others” ends it too; a personal token ends when you revoke it."),
    )
    return rx.el.section(
        rx.el.div(
            rx.el.div(rx.el.h2("Sessions"), rx.el.p(words, class_name="sm"), class_name="grow"),
            others,
            class_name="ry-ph",
        ),
        table,
        line("Command line", rx.el.span(login, class_name="mut")),
        class_name="ry-panel",
        aria_label="Sessions",
    )


def session_dialogs() -> list[rx.Component]:
    """End one; end all others."""
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
