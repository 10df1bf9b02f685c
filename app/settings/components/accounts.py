"""Service accounts: sign-in for runners and CI."""

import reflex as rx

from app.settings.components.frame import admin_button, menu, menu_item, records, settings_page, settings_panel
from app.settings.state.accounts import AccountsState
from app.settings.view.accounts import AccountView
from app.shared.copy import copy_button
from app.shared.elements import ago, secret
from app.shared.feedback import empty
from app.shared.forms import field, form_dialog, question, secret_dialog, text_field
from app.shared.session import SessionState
from app.shared.table import cell, heads

State = AccountsState
HEADS = (("Name", ""), ("Signs in with", ""), ("Scope", ""), ("Last used", "r"), ("Actions", "r"))


def _menu(row: rx.Var[AccountView]) -> rx.Component:
    key = row["id"].to(str)
    switch = rx.cond(
        row["is_disabled"],
        menu_item("circle-play", "Enable", State.switch(key, True)),
        menu_item("circle-pause", "Disable", State.switch(key, False)),
    )
    secret_words = rx.cond(row["has_secret"], "New secret", "Make a secret")
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
        rx.fragment(),
    )


def _row(row: rx.Var[AccountView]) -> rx.Component:
    disabled = rx.badge("disabled", color_scheme="gray", radius="full")
    signs_in = rx.el.span(row["signs_in"], rx.el.span(row["hint"], class_name="ry-mono"), class_name="ry-row c6")
    return rx.el.tr(
        cell(
            rx.el.div(
                rx.el.b(row["name"], class_name="ry-medium"),
                rx.cond(row["is_disabled"], disabled, rx.fragment()),
                class_name="ry-row",
            ),
            class_name="n-a",
        ),
        cell(signs_in, class_name="mut n-c"),
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


def _trust() -> rx.Component:
    chosen, errors = State.chosen, State.errors
    claims = rx.text_area(
        id="s-claims",
        name="claims",
        default_value=chosen["claims"],
        rows="4",
        class_name="ry-codearea",
        placeholder='{"sub": "repo:infra/platform:ref:refs/heads/main"}',
        custom_attrs={"spellCheck": "false"},
    )
    return rx.fragment(
        text_field(
            "issuer",
            "Issuer",
            chosen["issuer"],
            errors,
            "Who signs its tokens.",
            placeholder="https://oidc.example.com",
        ),
        text_field(
            "audience",
            "Audience",
            chosen["audience"],
            errors,
            "What its tokens must be meant for.",
            placeholder="runyard",
        ),
        field("claims", "Bound claims", claims, errors, "All of these must be in the token."),
    )


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
        "path", "Scope", chosen["path"], errors, "A group; runners with it serve modules below. Empty: everything."
    )
    kept = rx.el.p(
        "A secret is created and shown once. Prefer OIDC trust: there is no secret to leak.", class_name="ry-hint"
    )
    return [
        text_field("name", "Name", chosen["name"], errors, "Display name.", placeholder="k8s-runner"),
        text_field("description", "Description", chosen["description"], errors),
        rx.cond(State.is_new, path, rx.fragment()),
        rx.cond(State.is_new, ways, rx.fragment()),
        rx.cond(State.way == "oidc", _trust(), rx.cond(State.is_new, kept, rx.fragment())),
    ]


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
    none = empty(
        "key-round",
        "No service accounts yet",
        "With one, runners and CI sign in by themselves: by the trust in an OIDC issuer, or by a secret.",
        admin_button("Add account", "plus", State.add),
    )
    return records(State, "Service accounts", heads(*HEADS), _row, none, 5)


def _questions() -> list[rx.Component]:
    name = State.asking_name
    return [
        question(
            is_open=State.asking == "rotate",
            title=rx.fragment("New secret for ", name, "?"),
            text="The old one stops working at once. Sessions that are open go on.",
            act="Make a secret",
            on_act=State.confirm,
            on_keep=State.keep,
            is_danger=False,
        ),
        question(
            is_open=State.asking == "remove",
            title=rx.fragment("Remove ", name, "?"),
            text="It cannot sign in any more. Runners that use it must have another way first.",
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
