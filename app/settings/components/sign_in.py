"""The page on which owners choose how members sign in."""

from typing import Any

import reflex as rx

from app.frame.session import SessionState
from app.settings.components.settings_page import admins_only, settings_page
from app.settings.state.sign_in import ROLES, SignInState
from app.ui.controls import act_button, choice, copy_icon, icon, small_button
from app.ui.dialog import alert, cancel, dialog_acts, question, sheet, sheet_form
from app.ui.form.elements import check_field, field, text_field
from app.ui.panel import empty, fact, or_problem, problem_line, settings_panel
from app.ui.resource import Act, Column, removal, resource_panel, row_menu, rows_table, strong

State = SignInState
IS_OWNER = SessionState.role == "owner"
DOMAINS = (
    Column("Domain", strong("name"), "n-a"),
    Column("Proof", lambda row: rx.cond(row["is_proved"], "Proved", "Waiting for DNS"), "c-m n-c"),
    Column(
        "TXT record",
        lambda row: rx.el.div(
            rx.el.code(row["record"]),
            rx.cond(~row["is_proved"], rx.el.code(row["value"])),
            class_name="ry-stack ry-breaks",
        ),
        "n-w",
    ),
    Column(
        "Actions",
        row_menu(
            Act("refresh-cw", "Check now", State.check, lambda row: ~row["is_proved"]),
            Act("trash-2", "Remove", State.ask_remove, is_danger=True),
            may=IS_OWNER,
        ),
        "r n-b",
    ),
)
TEAMS = (
    Column(
        "Group at the provider",
        lambda row: rx.cond(row["claim"] != "", rx.el.code(row["claim"]), "none: by hand"),
        "n-a",
    ),
    Column("Team", strong("name"), "n-c"),
    Column("Actions", row_menu(Act("pencil", "Choose the group", State.choose), may=IS_OWNER), "r n-b"),
)


def _line(key: str, label: str, value: Any, hint: Any = "", **props: Any) -> rx.Component:
    return text_field(key, label, value, State.errors, hint, **props)


def _provider_facts() -> rx.Component:
    secret = rx.cond(State.provider["secret_hint"] != "", "Ends in " + State.provider["secret_hint"].to(str), "Kept")
    callback = rx.el.span(State.callback, class_name="ry-mono ry-breaks")
    return rx.el.dl(
        fact("Name", State.provider["name"]),
        fact("Issuer", rx.el.span(State.provider["issuer"], class_name="ry-mono ry-breaks")),
        fact("Client id", rx.el.span(State.provider["client_id"], class_name="ry-mono ry-breaks")),
        fact("Client secret", secret),
        fact("Groups claim", rx.el.span(State.provider["claim"], class_name="ry-mono")),
        fact("Redirect address", callback, " ", copy_icon(State.callback, "Copy the redirect address")),
        class_name="ry-facts",
    )


def _provider_panel() -> rx.Component:
    edit = small_button(icon("pencil"), "Edit", on_click=State.edit_provider)
    remove = small_button("Remove", color_scheme="red", on_click=State.ask_end(True))
    connect = act_button("Connect a provider", on_click=State.edit_provider)
    none = empty(
        "log-in",
        "No provider yet",
        rx.cond(
            IS_OWNER, "Members sign in with a password.", "Members sign in with a password. An owner connects one."
        ),
        rx.cond(IS_OWNER, connect),
    )
    return settings_panel(
        "Provider",
        "OpenID Connect: anyone whom it signs in is signed in here.",
        rx.cond(State.has_provider & IS_OWNER, rx.fragment(edit, remove)),
        rx.cond(State.has_provider, _provider_facts(), none),
    )


def _provider_sheet() -> rx.Component:
    kept = rx.cond(
        State.has_provider,
        "Write-only. Leave it empty to keep the one that Auth has.",
        "Write-only: it goes to Auth, and nobody can read it again.",
    )
    fields = (
        _line("name", "Name", State.provider["name"], "Shown on the sign-in page, such as Example ID.", max_length=60),
        _line(
            "issuer",
            "Issuer",
            State.provider["issuer"],
            "Its discovery document is read when you save. It stays: another issuer is another provider.",
            placeholder="https://id.example.com",
            read_only=State.has_provider,
        ),
        _line("client_id", "Client id", State.provider["client_id"]),
        _line("client_secret", "Client secret", "", kept, type="password"),
        _line("claim", "Groups claim", State.provider["claim"], "The claim that lists a person's groups."),
        _line(
            "scopes",
            "Scopes",
            rx.cond(State.has_provider, "", "openid email profile offline_access"),
            rx.cond(
                State.has_provider,
                "Leave them empty to keep those that Auth has.",
                "With offline_access the claims are read again each hour.",
            ),
        ),
        rx.el.p("Redirect address, for the provider: ", rx.el.code(State.callback), class_name="ry-hint"),
    )
    form = sheet_form(State, "Save", *fields, on_submit=State.save_provider)
    return sheet(State, State.is_open, "Provider", "What Auth needs to send people there and back.", form)


def _domains_panel() -> rx.Component:
    add = rx.form(
        rx.input(name="domain", placeholder="example.com", aria_label="Domain", auto_complete="off", max_length=253),
        small_button("Add domain", type="submit"),
        on_submit=State.add_domain,
        reset_on_submit=True,
        class_name="ry-foot",
    )
    none = empty("globe", "No domains yet", "Without a proof nobody is sent to the provider and no account is joined.")
    about = "Addresses that the provider answers for, each proved by a DNS record."
    return resource_panel(State, "Domains", about, DOMAINS, none, foot=rx.cond(IS_OWNER, add), skeleton=1)


def _test_panel() -> rx.Component:
    said = rx.el.dl(
        rx.foreach(
            State.claims, lambda pair: rx.fragment(rx.el.dt(pair[0]), rx.el.dd(pair[1], class_name="ry-mono ry-breaks"))
        ),
        class_name="ry-dl",
    )
    none = empty("key-round", "You have not signed in there yet", "A test shows your claims and changes nothing.")
    test = small_button("Test", type="button", custom_attrs={"data-join": "true"}, disabled=~IS_OWNER)
    join = small_button("Join your account", type="button", custom_attrs={"data-join": ""})
    about = "The claims of your own sign-in there, and what they give you. Once you join, your password here ends."
    return settings_panel(
        "Test sign-in",
        about,
        rx.fragment(test, rx.cond(State.is_joined, rx.fragment(), join)),
        problem_line(State.said, "ry-pb"),
        rx.cond(State.claims.length() > 0, rx.el.div(said, class_name="ry-pb"), none),
    )


def _teams_panel() -> rx.Component:
    none = empty("users", "No teams yet", "Create one under Members, and choose here which group fills it.")
    table = rx.cond(State.teams.length() > 0, rows_table("Groups fill teams", TEAMS, State.teams), none)
    return settings_panel(
        "Groups fill teams", "At every sign-in and refresh. A claim never makes an owner.", rx.fragment(), table
    )


def _rules_panel() -> rx.Component:
    role = choice("Default role", ROLES, value=State.default_role, on_change=State.set_default_role)
    emails = State.owners.keys()
    glass = rx.select.root(
        rx.select.trigger(placeholder="Choose an owner", aria_label="Break-glass owner"),
        rx.select.content(rx.foreach(emails, lambda email: rx.select.item(email, value=email))),
        value=State.break_glass,
        on_change=State.set_break_glass,
    )
    outside = rx.cond(
        State.is_only & (State.outside != ""),
        rx.el.p(
            "These members never signed in through it, and cannot enter: ",
            State.outside,
            ".",
            role="alert",
            class_name="ry-hint",
        ),
    )
    form = rx.form(
        field("default_role", "Who is in no mapped group becomes", role, State.errors),
        text_field(
            "hours",
            "A sign-in counts for",
            State.provider["hours"],
            State.errors,
            "Hours, also for personal tokens.",
            type="number",
        ),
        check_field(
            "Only through the provider: passwords stop counting here", checked=State.is_only, on_change=State.set_only
        ),
        rx.cond(
            State.is_only,
            field(
                "break_glass",
                "Break-glass owner",
                glass,
                State.errors,
                "Enters with a password when the provider is away; each time is in the audit log.",
            ),
        ),
        outside,
        rx.el.div(act_button("Save", type="submit", disabled=~IS_OWNER), class_name="ry-acts"),
        on_submit=State.save_rules,
        class_name="ry-pb ry-org-form",
        key=State.provider["hours"].to(str),
    )
    return settings_panel("How people sign in", "Service accounts are not affected.", rx.fragment(), form)


def _group_dialog() -> rx.Component:
    form = rx.form(
        text_field(
            "group", "Group", State.chosen["claim"], State.errors, "As the provider writes it. Empty: by hand alone."
        ),
        dialog_acts(cancel(State.close), act_button("Save", type="submit")),
        on_submit=State.save,
        class_name="ry-dialog-form",
        key=State.chosen["id"].to(str),
    )
    title = rx.fragment("The group of ", State.chosen["name"])
    return alert(
        title, "Everybody in it at the provider is in the team.", form, is_open=State.is_choosing, on_escape=State.close
    )


def sign_in() -> rx.Component:
    more = rx.cond(State.has_provider, rx.fragment(_domains_panel(), _test_panel(), _teams_panel(), _rules_panel()))
    body = or_problem(State, "How people sign in", rx.el.div(_provider_panel(), more, class_name="ry-stack"))
    gone = removal(State, "Remove", "The provider signs nobody in with its addresses any more.", "Remove domain")
    end = question(
        is_open=State.is_ending,
        title="Remove the provider?",
        text="Its domains, its groups and its rules go with it. Members sign in with a password from then on.",
        act="Remove provider",
        on_act=State.remove_provider,
        on_keep=State.ask_end(False),
    )
    dialogs = [_provider_sheet(), _group_dialog(), gone, end]
    return settings_page("sign-in", admins_only("how people sign in", body), dialogs=dialogs)
