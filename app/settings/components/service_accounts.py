"""Service accounts: sign-in for runners and CI."""

import reflex as rx

from app.frame.session import SessionState
from app.settings.components.frame import admin_button, item_table, menu, menu_item, settings_page, settings_panel
from app.settings.state.service_accounts import AccountsState
from app.settings.view.service_accounts import NO_ROLE, ROLES, AccountView, TrustView
from app.settings.view.trusts import PLATFORMS
from app.ui.copy import copy_button
from app.ui.dialog import question, secret_dialog
from app.ui.elements import ago, secret
from app.ui.feedback import empty
from app.ui.form.elements import field, form_dialog, text_field
from app.ui.table import cell

State = AccountsState
HEADS = (("Name", ""), ("Signs in with", ""), ("Role", ""), ("Scope", ""), ("Last used", "r"), ("Actions", "r"))


def _menu(row: rx.Var[AccountView]) -> rx.Component:
    key = row["id"].to(str)
    switch = rx.cond(
        row["is_disabled"],
        menu_item("circle-play", "Enable", State.switch(key, True)),
        menu_item("circle-pause", "Disable", State.switch(key, False)),
    )
    secret_words = rx.cond(row["has_secret"], "New secret", "Create secret")
    return rx.cond(
        SessionState.can_admin,
        menu(
            "More actions for " + row["name"].to(str),
            menu_item("pencil", "Edit", State.edit(key)),
            menu_item("key-round", secret_words, State.ask("rotate", key)),
            switch,
            rx.dropdown_menu.separator(),
            menu_item("trash-2", "Remove", State.ask("remove", key), color_scheme="red"),
        ),
    )


def _row(row: rx.Var[AccountView]) -> rx.Component:
    disabled = rx.badge("disabled", color_scheme="gray", radius="full")
    signs_in = rx.el.span(row["signs_in"], rx.el.span(row["hint"], class_name="ry-mono"), class_name="ry-row c6")
    return rx.el.tr(
        cell(
            rx.el.div(
                rx.el.b(row["name"], class_name="ry-medium"),
                rx.cond(row["is_disabled"], disabled),
                class_name="ry-row",
            ),
            class_name="n-a",
        ),
        cell(signs_in, class_name="mut n-c"),
        cell(rx.cond(row["role"] != NO_ROLE, row["role"], "runners only"), class_name="mut hide-s"),
        cell(
            rx.cond(row["path"] != "", rx.el.span(row["path"], class_name="ry-mono"), "everything"),
            class_name="mut hide-s",
        ),
        cell(ago(row["last_used_at"].to(str)), class_name="r mut num n-b"),
        cell(_menu(row), class_name="r n-d"),
        role="row",
        key=row["id"],
        custom_attrs={"data-row": row["id"]},
    )


def _trust(trust: rx.Var[TrustView]) -> rx.Component:
    """One issuer with its audience and claims; the fields' names carry its key."""
    errors, key = State.errors, trust["key"].to(str)
    claims = rx.text_area(
        id="s-claims-" + key,
        name="claims-" + key,
        default_value=trust["claims"],
        rows="4",
        class_name="ry-codearea",
        custom_attrs={"spellCheck": "false"},
    )
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
        rx.dropdown_menu.trigger(
            rx.button("Trust an issuer", type="button", variant="surface", color_scheme="gray"), as_child=True
        ),
        rx.dropdown_menu.content(*items),
    )
    return rx.fragment(rx.foreach(State.trusts, _trust), add)


def _fields() -> list[rx.Component]:
    chosen, errors = State.chosen, State.errors
    ways = rx.segmented_control.root(
        rx.segmented_control.item("OIDC trust", value="oidc"),
        rx.segmented_control.item("Client secret", value="secret"),
        value=State.way,
        on_change=State.set_way,
        aria_label="How it signs in",
    )
    path = text_field(
        "path", "Scope", chosen["path"], errors, "A group; runners with it serve modules below. If empty, all modules."
    )
    kept = rx.el.p(
        "A secret is created and shown once. Prefer OIDC trust: there is no secret to leak.", class_name="ry-hint"
    )
    return [
        text_field("name", "Name", chosen["name"], errors, "Display name.", placeholder="k8s-runner"),
        text_field("description", "Description", chosen["description"], errors),
        rx.cond(State.is_new, path),
        rx.cond(State.is_new, ways),
        _role(),
        rx.cond(State.is_new & (State.way == "secret"), kept, _trusts()),
    ]


def _role() -> rx.Component:
    words = {NO_ROLE: "None (runners only)", **{role: role for role in ROLES if role != NO_ROLE}}
    options = [rx.select.item(text, value=role) for role, text in words.items()]
    control = rx.select.root(
        rx.select.trigger(id="s-role"), rx.select.content(*options), name="role", default_value=State.chosen["role"]
    )
    return field("role", "Role in the organisation", control, State.errors, "What a pipeline may do as this account.")


def _line(label: str, shown: rx.Component, button: rx.Component) -> rx.Component:
    return rx.el.div(rx.el.span(label, class_name="k"), shown, button, class_name="ry-sec1")


def _shown() -> rx.Component:
    owner = State.shown_id
    return secret_dialog(
        owner=owner,
        title="Copy the secret now",
        text="It is shown once. Only its hash is kept: if you lose it, create a new one.",
        lines=[
            _line(
                "Client id",
                rx.el.span(State.shown_client, class_name="ry-el"),
                copy_button(State.shown_client, "Copy the client id"),
            ),
            _line(
                "Secret",
                secret(owner, "%TOKEN%", class_name="ry-el"),
                copy_button("%TOKEN%", "Copy the secret", owner=owner),
            ),
        ],
        on_close=State.forget,
    )


def _body() -> rx.Component:
    text = "With one, runners and CI sign in without a person: through OIDC, or with a secret."
    none = empty(
        "key-round",
        "No service accounts yet",
        rx.cond(SessionState.can_admin, text, f"{text} An admin can add one."),
        admin_button("Add account", "plus", State.add),
    )
    return item_table(State, "Service accounts", HEADS, _row, none)


def _questions() -> list[rx.Component]:
    name = State.asking_name
    return [
        question(
            is_open=State.asking == "rotate",
            title=rx.fragment("New secret for ", name, "?"),
            text="The old one stops working at once, and whatever signed in with the account signs in again.",
            act="Create secret",
            on_act=State.confirm,
            on_keep=State.keep,
            is_danger=False,
        ),
        question(
            is_open=State.asking == "remove",
            title=rx.fragment("Remove ", name, "?"),
            text="It can no longer sign in. Give runners that use it another way first.",
            act="Remove account",
            on_act=State.confirm,
            on_keep=State.keep,
        ),
    ]


def accounts() -> rx.Component:
    """The service accounts page."""
    form = form_dialog(State, "service account", "An identity for something that is not a person.", _fields())
    return settings_page(
        "service-accounts",
        settings_panel(
            "Service accounts",
            "Non-human sign-in for runners and CI.",
            admin_button("Add account", "plus", State.add),
            _body(),
        ),
        dialogs=[form, _shown(), *_questions()],
    )
