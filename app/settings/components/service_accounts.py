"""Service accounts: sign-in for runners and CI."""

import reflex as rx

from app.frame.layout import admin_button
from app.frame.pick import picks
from app.frame.session import SessionState
from app.settings.components.settings_page import settings_page
from app.settings.state.service_accounts import AccountsState
from app.settings.view.service_accounts import NO_ROLE, PLATFORMS, ROLES, AccountView, TrustView
from app.ui.badges import pill
from app.ui.controls import choice, plain_button, secret_line, segments, shown_line
from app.ui.dialog import question, secret_dialog
from app.ui.form.elements import Fields, field, form_dialog, text_area, text_field
from app.ui.panel import empty
from app.ui.resource import Act, Column, moment, mono, resource_panel, row_menu, strong

State = AccountsState


def _name(row: rx.Var[AccountView]) -> rx.Component:
    disabled = pill("disabled")
    return rx.el.div(strong("name")(row), rx.cond(row["is_disabled"], disabled), class_name="ry-row")


def _signs_in(row: rx.Var[AccountView]) -> rx.Component:
    return rx.el.span(row["signs_in"], mono("hint")(row), class_name="ry-row c6")


ACTS = row_menu(
    Act("pencil", "Edit", State.edit),
    Act(
        "key-round",
        lambda row: rx.cond(row["has_secret"], "New secret", "Create secret"),
        lambda key: State.ask("rotate", key),
    ),
    Act("circle-play", "Enable", lambda key: State.switch(key, True), lambda row: row["is_disabled"]),
    Act("circle-pause", "Disable", lambda key: State.switch(key, False), lambda row: ~row["is_disabled"].to(bool)),
    Act("trash-2", "Remove", lambda key: State.ask("remove", key), is_danger=True),
    may=SessionState.can_admin,
)
COLUMNS = (
    Column("Name", _name, "n-a"),
    Column("Signs in with", _signs_in, "mut n-c"),
    Column("Role", lambda row: rx.cond(row["role"] != NO_ROLE, row["role"], "runners only"), "mut hide-s"),
    Column("Scope", lambda row: rx.cond(row["path"] != "", mono("path")(row), "everything"), "mut hide-s"),
    Column("Last used", moment("last_used_at"), "r mut num n-b"),
    Column("Actions", ACTS, "r n-d"),
)


def _trust(trust: rx.Var[TrustView]) -> rx.Component:
    """One issuer with its audience and claims; the fields' names carry its key."""
    errors, key = State.errors, trust["key"].to(str)
    claims = text_area("claims-" + key, trust["claims"], class_name="ry-codearea")
    drop = rx.button(
        "Remove this issuer", type="button", variant="ghost", color_scheme="gray", on_click=State.drop_trust(key)
    )
    return rx.el.div(
        text_field("issuer-" + key, "Issuer", trust["issuer"], errors, trust["hint"]),
        text_field("audience-" + key, "Audience", trust["audience"], errors, "The audience its tokens must name."),
        field("claims-" + key, "Bound claims", claims, errors, "All of these must be in the token."),
        drop,
        class_name="ry-dialog-form",
        key=key,
    )


def _trusts() -> rx.Component:
    items = [
        rx.dropdown_menu.item(platform.label, on_select=State.add_trust(name)) for name, platform in PLATFORMS.items()
    ]
    add = rx.dropdown_menu.root(
        rx.dropdown_menu.trigger(plain_button("Trust an issuer", type="button"), as_child=True),
        rx.dropdown_menu.content(*items),
    )
    return rx.fragment(rx.foreach(State.trusts, _trust), add)


def _fields() -> list[rx.Component]:
    text = Fields(State).text
    ways = segments(
        "How it signs in", {"oidc": "OIDC trust", "secret": "Client secret"}, value=State.way, on_change=State.set_way
    )
    kept = rx.el.p(
        "A secret is created and shown once. Prefer OIDC trust: there is no secret to leak.", class_name="ry-hint"
    )
    scope = "A group; runners with it serve modules below. If empty, all modules."
    return [
        text("name", "Name", "Display name.", placeholder="k8s-runner"),
        text("description", "Description"),
        rx.cond(State.is_new, text("path", "Scope", scope, **picks("groups"))),
        rx.cond(State.is_new, ways),
        _role(),
        rx.cond(State.is_new & (State.way == "secret"), kept, _trusts()),
    ]


def _role() -> rx.Component:
    words = {NO_ROLE: "None (runners only)", **{role: role for role in ROLES if role != NO_ROLE}}
    label, chosen = "Role in the organisation", {"name": "role", "default_value": State.chosen["role"]}
    control = choice(label, words, width=None, key="s-role", **chosen)
    return field("role", label, control, State.errors, "What a pipeline may do as this account.")


def _shown() -> rx.Component:
    owner = State.shown_id
    return secret_dialog(
        owner=owner,
        title="Copy the secret now",
        text="It is shown once. Only its hash is kept: if you lose it, create a new one.",
        lines=[
            shown_line("Client id", State.shown_client, "Copy the client id"),
            secret_line("Secret", owner, "Copy the secret"),
        ],
        on_close=State.forget,
    )


def _questions() -> list[rx.Component]:
    name, asked = State.asking_name, {"on_act": State.confirm, "on_keep": State.keep}
    return [
        question(
            is_open=State.asking == "rotate",
            title=rx.fragment("New secret for ", name, "?"),
            text="The old one stops working at once, and whatever signed in with the account signs in again.",
            act="Create secret",
            is_danger=False,
            **asked,
        ),
        question(
            is_open=State.asking == "remove",
            title=rx.fragment("Remove ", name, "?"),
            text="It can no longer sign in. Give runners that use it another way first.",
            act="Remove account",
            **asked,
        ),
    ]


def accounts() -> rx.Component:
    form = form_dialog(State, "Add account", "An identity for something that is not a person.", _fields())
    about = "Non-human sign-in for runners and CI."
    text = "With one, runners and CI sign in without a person: through OIDC, or with a secret."
    add = admin_button("Add account", "plus", State.add)
    told = rx.cond(SessionState.can_admin, text, f"{text} An admin can add one.")
    none = empty("key-round", "No service accounts yet", told, add)
    return settings_page(
        "service-accounts",
        resource_panel(State, "Service accounts", about, COLUMNS, none, add=add),
        dialogs=[form, _shown(), *_questions()],
    )
