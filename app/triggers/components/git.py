"""Git: connected repositories, the form that connects one, and the webhook that is shown once."""

from typing import Any

import reflex as rx

from app.frame.layout import admin_button
from app.frame.session import SessionState
from app.triggers.components.marks import connection_mark, verdict_mark
from app.triggers.state.git import EVERY, GitState
from app.triggers.view.git import POLLS, PROVIDERS, ConnectionView, DeliveryView, ModuleVerdict
from app.ui.controls import choice, icon, offered, page_link, secret_line, shown_line
from app.ui.dialog import form_sheet, question, secret_dialog
from app.ui.elements import clock_seconds
from app.ui.form.elements import Fields, labelled, problem_line, text_field
from app.ui.panel import empty, settings_panel
from app.ui.resource import Act, Column, moment, removal, resource_panel, row_menu
from app.ui.table import cell, heads, older_foot, table

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


HEADS = (("Time", ""), ("Event", ""), ("Repository", ""), ("Ref", ""), ("Verdict", ""))


def _module(module: rx.Var[ModuleVerdict]) -> rx.Component:
    path = module["path"].to(str)
    mark = rx.cond(
        module["verdict"] == "PLANNED", icon("circle-check", class_name="t-grn"), icon("circle-slash", class_name="mut")
    )
    return rx.el.li(
        mark,
        page_link(path, href="/dashboard/modules?path=" + path, class_name="ry-a ry-mono ry-breaks"),
        rx.el.span(module["reason"], class_name="why"),
        key=path,
        custom_attrs={"data-verdict": module["verdict"]},
    )


def _why(row: rx.Var[DeliveryView]) -> rx.Component:
    modules = row["modules"].to(list[ModuleVerdict])
    number = row["job"].to_string()
    job = page_link("job #" + number, href="/dashboard/jobs/" + number, class_name="ry-a num")
    planned = rx.el.span(
        "Jobs: ",
        rx.foreach(
            row["jobs"].to(list[int]),
            lambda each: page_link(
                "#" + each.to_string(), " ", href="/dashboard/jobs/" + each.to_string(), class_name="ry-a num"
            ),
        ),
    )
    sender = rx.cond(row["sender"] != "", rx.el.span("Caused by ", row["sender"], ". "))
    body = rx.el.div(
        rx.el.p(rx.el.b(row["reason"], class_name="ry-medium")),
        rx.cond(modules.length() > 0, rx.el.ul(rx.foreach(modules, _module), class_name="ry-wl")),
        rx.el.p(
            sender,
            rx.cond(row["job"].to(int) > 0, rx.fragment("Decided by ", job, ". ")),
            rx.cond(row["jobs"].to(list[int]).length() > 0, planned),
            class_name="ry-hint",
        ),
        class_name="ry-wb",
    )
    return rx.el.tr(
        rx.el.td(body, col_span=len(HEADS), role="cell", class_name="n-w"),
        class_name="ry-explain",
        role="row",
        custom_attrs={"data-testid": "delivery-why"},
    )


def _linked(row: rx.Var[DeliveryView], shown: rx.Component) -> rx.Component:
    link = page_link(shown, href=row["change"].to(str), class_name="ry-a")
    return rx.cond(row["change"] != "", link, shown)


def _place(row: rx.Var[DeliveryView]) -> rx.Component:
    branch = rx.el.span(row["ref"], class_name="ry-mono", style={"overflow_wrap": "break-word"})
    pull = _linked(row, rx.el.span("Pull request ", row["pull_request"]))
    place = rx.cond(row["pull_request"] != "", pull, branch)
    commit = _linked(row, rx.el.small(row["commit"], class_name="sm ry-mono"))
    return rx.el.div(place, rx.cond(row["commit"] != "", commit))


def _event(row: rx.Var[DeliveryView], is_open: rx.Var[bool]) -> rx.Component:
    return rx.el.span(
        rx.el.button(
            icon("chevron-right"),
            on_click=State.unfold(row["id"].to(str)),
            class_name="rt-reset ry-chev",
            aria_expanded=rx.cond(is_open, "true", "false"),
            aria_label="Why: delivery " + row["id"].to(str),
        ),
        rx.el.span(row["event"]),
        class_name="ry-row c6",
    )


def _row(row: rx.Var[DeliveryView]) -> rx.Component:
    is_open = State.unfolded == row["id"]
    verdict = rx.el.div(verdict_mark(row["verdict"].to(str)), rx.el.small(row["reason"], class_name="sm hide-s"))
    shown = rx.el.tr(
        cell(clock_seconds(row["at"].to(str)), class_name="mut num n-d"),
        cell(_event(row, is_open), class_name="n-a"),
        cell(rx.el.span(row["short"], class_name="ry-mono", title=row["repository"].to(str)), class_name="mut hide-s"),
        cell(_place(row), class_name="wrap n-c"),
        cell(verdict, class_name="n-b wrap"),
        role="row",
        custom_attrs={"data-row": row["id"], "data-verdict": row["verdict"]},
    )
    return rx.fragment(shown, rx.cond(is_open, _why(row)), key=row["id"])


def _choice() -> rx.Component:
    return choice(
        "Repository",
        {EVERY: "All repositories"},
        offered(State.rows),
        value=State.only,
        on_change=State.show_only,
        width=None,
    )


def deliveries_panel() -> rx.Component:
    none = empty("webhook", "No deliveries yet", "Each push and pull request shows up here with its verdict and why.")
    shown = rx.fragment(table("Deliveries", heads(*HEADS), rx.foreach(State.deliveries, _row)), older_foot(State))
    panel = settings_panel(
        "Deliveries",
        "What each event led to, and why. Kept for 30 days.",
        _choice(),
        rx.cond(State.deliveries.length() > 0, shown, none),
    )
    return rx.cond(State.rows.length() > 0, panel)
