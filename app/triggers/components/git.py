"""Git: connected repositories, the form that connects one, and the webhook that is shown once."""

import reflex as rx

from app.frame.layout import admin_button
from app.frame.session import SessionState
from app.triggers.components.marks import connection_mark
from app.triggers.components.sheets import choice, form_sheet
from app.triggers.state.git import GitState
from app.triggers.view.git import POLLS, PROVIDERS, ConnectionView
from app.ui.copy import copy_button
from app.ui.dialog import question, secret_dialog
from app.ui.elements import ago, secret
from app.ui.feedback import empty
from app.ui.form.elements import field, problem_line, text_field
from app.ui.panel import item_table, menu, menu_item, settings_panel
from app.ui.table import cell

State = GitState
HEADS = (
    ("Repository", ""), ("Modules", ""), ("State", ""), ("Last delivery", ""), ("Last read", ""), ("Actions", "r"),
)  # fmt: skip


def _menu(row: rx.Var[ConnectionView]) -> rx.Component:
    key = row["id"].to(str)
    managed = rx.fragment(
        menu_item("pencil", "Edit", State.edit(key)),
        menu_item("key-round", "New secret", State.ask_replace(key)),
        rx.cond(row["has_token"], menu_item("megaphone-off", "Remove API token", State.remove_token(key))),
        rx.dropdown_menu.separator(),
        menu_item("unplug", "Disconnect", State.ask_remove(key), color_scheme="red"),
    )
    return menu(
        "More actions for " + row["name"].to(str),
        menu_item("list-filter", "Show its deliveries", State.show_only(key)),
        rx.cond(SessionState.can_operate, menu_item("refresh-cw", "Poll now", State.poll_now(key))),
        rx.cond(SessionState.can_admin, managed),
    )


def _row(row: rx.Var[ConnectionView]) -> rx.Component:
    name = rx.el.div(
        rx.el.b(row["name"], class_name="ry-mono ry-medium ry-breaks"),
        rx.el.small(row["provider_words"], ", ", row["reports"], class_name="sm"),
    )
    status = rx.el.div(
        connection_mark(row["status"].to(str)),
        rx.cond(row["why"] != "", rx.el.small(row["why"], class_name="sm")),
    )
    read = rx.el.div(ago(row["read_at"].to(str)), rx.el.small(row["poll_words"], class_name="sm"))
    return rx.el.tr(
        cell(name, class_name="n-a wrap"),
        cell(row["modules"], class_name="mut num hide-s"),
        cell(status, class_name="n-w wrap"),
        cell(ago(row["delivered_at"].to(str)), class_name="mut num hide-s"),
        cell(read, class_name="mut num hide-s"),
        cell(_menu(row), class_name="r n-b"),
        role="row",
        key=row["id"],
        custom_attrs={"data-row": row["id"]},
    )


def connections_panel() -> rx.Component:
    """The connected repositories."""
    text = "Connect a repository, and a push or a pull request plans the modules whose folders it changes."
    connect = admin_button("Connect repository", "plus", State.add)
    none = empty(
        "git-branch",
        "No repositories yet",
        rx.cond(
            SessionState.can_admin,
            f"{text} Modules belong to it by the URL of their source: there is nothing else to set up.",
            f"{text} An admin can connect one.",
        ),
        connect,
    )
    return settings_panel(
        "Repositories",
        "Pushes and pull requests plan modules. A runner reads the repository with its own credentials.",
        rx.el.span(admin_button("Create GitHub App", "blocks", State.create_app), connect, class_name="ry-row"),
        item_table(State, "Repositories", HEADS, _row, none),
    )


def _labelled(label: str, key: str, control: rx.Component, hint: str) -> rx.Component:
    problem = problem_line(key, State.errors[key])
    return rx.el.div(
        rx.el.span(label, class_name="ry-lab"),
        control,
        rx.cond(State.errors.contains(key), problem, rx.el.small(hint)),
        class_name="ry-f",
    )


def _fields() -> list[rx.Component]:
    provider = choice("Provider", State.provider, State.set_provider, PROVIDERS)
    poll = choice("Poll", State.poll, State.set_poll, POLLS)
    new = rx.fragment(
        _labelled("Provider", "provider", provider, "It signs the webhook."),
        text_field(
            "url",
            "Repository URL",
            "",
            State.errors,
            "As the modules name it: https://, ssh:// or git@host:path, whichever spelling.",
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
    token = rx.input(
        id="s-token",
        name="token",
        type="password",
        placeholder=rx.cond(State.chosen["has_token"], "Leave empty to keep it", "Leave empty to report nothing"),
        auto_complete="new-password",
    )
    about = "Write-only. Reports the results of plans and applies to commits and pull requests."
    return rx.fragment(
        field("token", "API token", token, State.errors, about),
        text_field(
            "base_url",
            "API address",
            State.chosen["base_url"],
            State.errors,
            "If empty, at the host of the repository. Another address removes the token: enter it again.",
            class_name="ry-mono",
        ),
    )


def _line(label: str, shown: rx.Component, button: rx.Component) -> rx.Component:
    return rx.el.div(rx.el.span(label, class_name="k"), shown, button, class_name="ry-sec1")


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
            _line("Address", rx.el.span(url, class_name="ry-el"), copy_button(url, "Copy the address")),
            _line(
                "Secret",
                secret(owner, "%TOKEN%", class_name="ry-el", custom_attrs={"data-testid": "webhook-secret"}),
                copy_button("%TOKEN%", "Copy the secret", owner=owner),
            ),
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
        question(
            is_open=State.removing != "",
            title=rx.fragment("Disconnect ", State.removing_name, "?"),
            text="Its pushes plan nothing any more, and its deliveries are refused. Modules and jobs stay. Remove the "
            "webhook at the provider, too.",
            act="Disconnect",
            on_act=State.remove,
            on_keep=State.keep,
        ),
    ]
