"""Git: connected repositories, the form that connects one, and the webhook that is shown once."""

from typing import Any

import reflex as rx

from app.frame.layout import admin_button
from app.frame.session import SessionState
from app.triggers.components.marks import connection_mark
from app.triggers.state.git import GitState
from app.triggers.view.git import POLLS, PROVIDERS, ConnectionView
from app.ui.controls import choice, secret_line, shown_line
from app.ui.dialog import form_sheet, question, secret_dialog
from app.ui.form.elements import Fields, labelled, problem_line, text_field
from app.ui.panel import empty
from app.ui.resource import Act, Column, moment, removal, resource_panel, row_menu

State = GitState


def _name(row: rx.Var[ConnectionView]) -> rx.Component:
    return rx.el.div(
        rx.el.b(row["name"], class_name="ry-mono ry-medium ry-breaks"),
        rx.el.small(row["provider_words"], ", ", row["reports"], class_name="sm"),
    )


def _status(row: rx.Var[ConnectionView]) -> rx.Component:
    why = rx.cond(row["why"] != "", rx.el.small(row["why"], class_name="sm"))
    return rx.el.div(connection_mark(row["status"].to(str)), why)


def _read(row: rx.Var[ConnectionView]) -> rx.Component:
    return rx.el.div(moment("read_at")(row), rx.el.small(row["poll_words"], class_name="sm"))


def _is_admin(_row: rx.Var[ConnectionView]) -> Any:
    return SessionState.can_admin


ACTS = row_menu(
    Act("list-filter", "Show its deliveries", State.show_only),
    Act("refresh-cw", "Poll now", State.poll_now, lambda _row: SessionState.can_operate),
    Act("pencil", "Edit", State.edit, _is_admin),
    Act("key-round", "New secret", State.ask_replace, _is_admin),
    Act(
        "megaphone-off",
        "Remove API token",
        State.remove_token,
        lambda row: SessionState.can_admin & row["has_token"].to(bool),
    ),
    Act("unplug", "Disconnect", State.ask_remove, _is_admin, is_danger=True),
)
COLUMNS = (
    Column("Repository", _name, "n-a wrap"),
    Column("Modules", "modules", "mut num hide-s"),
    Column("State", _status, "n-w wrap"),
    Column("Last delivery", moment("delivered_at"), "mut num hide-s"),
    Column("Last read", _read, "mut num hide-s"),
    Column("Actions", ACTS, "r n-b"),
)


def connections_panel() -> rx.Component:
    text = "Connect a repository, and a push or a pull request plans the modules whose folders it changes."
    told = rx.cond(
        SessionState.can_admin,
        f"{text} Modules belong to it by the URL of their source: there is nothing else to set up.",
        f"{text} An admin can connect one.",
    )
    connect = admin_button("Connect repository", "plus", State.add)
    about = "Pushes and pull requests plan modules. A runner reads the repository with its own credentials."
    add = rx.el.span(admin_button("Create GitHub App", "blocks", State.create_app), connect, class_name="ry-row")
    none = empty("git-branch", "No repositories yet", told, connect)
    return resource_panel(State, "Repositories", about, COLUMNS, none, add=add)


def _labelled(label: str, key: str, control: rx.Component, hint: str = "") -> rx.Component:
    problem = problem_line(key, State.errors[key])
    return labelled(label, control, rx.cond(State.errors.contains(key), problem, rx.el.small(hint)))


def _fields() -> list[rx.Component]:
    provider = choice("Provider", PROVIDERS, value=State.provider, on_change=State.set_provider)
    poll = choice("Poll", POLLS, value=State.poll, on_change=State.set_poll)
    new = rx.fragment(
        _labelled("Provider", "provider", provider),
        text_field(
            "url",
            "Repository URL",
            "",
            State.errors,
            "As the modules name it: https://, ssh:// or git@host:path.",
            class_name="ry-mono",
            placeholder="https://git.example.com/infra/edge.git",
        ),
    )
    return [
        rx.cond(State.is_new, new),
        _labelled("Poll", "poll", poll, "How often it is read without a webhook."),
        rx.cond(State.provider != "generic", _reporting()),
    ]


def _reporting() -> rx.Component:
    fields, is_kept = Fields(State), State.chosen["has_token"]
    about = "Write-only. Reports the results of plans and applies to commits and pull requests."
    where = "If empty, at the host of the repository. Another address removes the token: enter it again."
    return rx.fragment(
        fields.secret("token", "API token", about, is_kept, none="to report nothing"),
        fields.text("base_url", "API address", where, class_name="ry-mono"),
    )


def _webhook() -> rx.Component:
    owner, url = State.shown_id, State.shown_url
    steps = rx.el.ol(
        rx.foreach(State.shown_steps, rx.el.li),
        class_name="ry-howto ry-dialog-field",
        custom_attrs={"data-testid": "webhook-steps"},
    )
    note = rx.el.p(
        "The provider must be able to reach this address. Without a webhook everything works as well, as often as the "
        "repository is polled.",
        class_name="ry-hint ry-dialog-field",
    )
    return secret_dialog(
        steps,
        note,
        owner=owner,
        title="Create the webhook at the provider",
        text="The secret is shown once. If you lose it, create a new one.",
        lines=[
            shown_line("Address", url, "Copy the address"),
            secret_line("Secret", owner, "Copy the secret", **{"data-testid": "webhook-secret"}),
        ],
        on_close=State.forget,
    )


def git_dialogs() -> list[rx.Component]:
    """The form, the webhook, and the questions before a secret is replaced or a repository disconnected."""
    return [
        form_sheet(
            State,
            rx.cond(State.is_new, "Connect repository", "Edit " + State.chosen["name"].to(str)),
            "Plans modules when their branch or a pull request changes them.",
            rx.cond(State.is_new, "Connect", "Save"),
            _fields(),
        ),
        _webhook(),
        question(
            is_open=State.replacing != "",
            title=rx.fragment("Replace the secret of ", State.replacing_name, "?"),
            text="Deliveries that are signed with the old one are refused at once, until the provider has the new one.",
            act="Replace secret",
            on_act=State.replace_secret,
            on_keep=State.keep_secret,
        ),
        removal(
            State,
            "Disconnect",
            "Its pushes plan nothing any more, and its deliveries are refused. Modules and jobs stay. Remove the "
            "webhook at the provider, too.",
            "Disconnect",
        ),
    ]
