"""Cloud identities: where cloud-hosted runners are deployed."""

import reflex as rx

from app.frame.session import SessionState
from app.runners.view.cloud_identities import IdentityView
from app.settings.components.frame import admin_button, item_table, menu, menu_item, settings_page, settings_panel
from app.settings.state.cloud_identities import IdentitiesState
from app.ui.copy import code_block
from app.ui.dialog import question
from app.ui.elements import ago
from app.ui.feedback import empty
from app.ui.form.elements import form_dialog, text_field
from app.ui.icons import icon
from app.ui.table import cell

State = IdentitiesState
HEADS = (("Name", ""), ("Role", ""), ("Regions", ""), ("Runners", "r"), ("Check", ""), ("Actions", "r"))


def _check(row: rx.Var[IdentityView]) -> rx.Component:
    works = rx.badge(
        rx.el.i(class_name="ry-dot"),
        "Works",
        color_scheme="green",
        radius="full",
    )
    broken = rx.badge(
        rx.el.i(class_name="ry-dot hollow"),
        row["check_words"],
        color_scheme="red",
        radius="full",
        title=row["check_words"],
    )
    unknown = rx.badge(row["check_words"], color_scheme="gray", radius="full")
    testing = rx.link(
        rx.badge(icon("loader-circle", class_name="ry-spin"), row["check_words"], color_scheme="blue", radius="full"),
        href="/dashboard/jobs/" + row["test_job"].to_string(),
        underline="none",
    )
    return rx.match(
        row["check"],
        ("TESTING", testing),
        ("WORKS", rx.el.span(works, " ", ago(row["verified_at"].to(str), class_name="mut"), class_name="ry-row")),
        ("BROKEN", broken),
        unknown,
    )


def _menu(row: rx.Var[IdentityView]) -> rx.Component:
    key = row["id"].to(str)
    return rx.cond(
        SessionState.can_admin,
        menu(
            "More actions for " + row["name"].to(str),
            menu_item("plug-zap", "Test connection", State.test(key)),
            menu_item("pencil", "Edit and trust policy", State.edit(key)),
            rx.dropdown_menu.separator(),
            menu_item("trash-2", "Remove", State.ask_remove(key), color_scheme="red"),
        ),
        rx.fragment(),
    )


def _row(row: rx.Var[IdentityView]) -> rx.Component:
    return rx.el.tr(
        cell(rx.el.b(row["name"], class_name="ry-medium"), class_name="n-a"),
        cell(rx.el.span(row["role"], class_name="ry-mono", title=row["role_arn"]), class_name="mut n-c"),
        cell(rx.el.span(row["regions"], title=row["region_list"]), class_name="mut hide-s"),
        cell(row["runners"], class_name="r num hide-s"),
        cell(_check(row), class_name="n-b"),
        cell(_menu(row), class_name="r n-d"),
        role="row",
        key=row["id"],
        custom_attrs={"data-row": row["id"]},
    )


def _trust() -> rx.Component:
    policy = rx.el.div(
        rx.el.span("Trust policy of the role", class_name="ry-lab"),
        code_block(State.policy, "Copy the trust policy"),
        rx.el.small("Paste it into the role. The external id is not a secret, but it is only for this identity."),
        class_name="ry-f",
        custom_attrs={"data-testid": "trust-policy"},
    )
    return rx.cond(State.policy != "", policy, rx.fragment())


def _text(key: str, label: str, hint: str, placeholder: str, value: str = "") -> rx.Component:
    return text_field(key, label, State.chosen[value or key], State.errors, hint, placeholder=placeholder)


def _fields() -> list[rx.Component]:
    arn = "arn:aws:iam::123456789012:role/runyard-deploy"
    return [
        _text("name", "Name", "Display name.", "aws-production"),
        _text("role_arn", "Role ARN", "The role that deploys: ECS, IAM, logs and security groups.", arn),
        _text("regions", "Regions", "Separated by commas.", "eu-west-1, us-east-1", value="region_list"),
        _text("subnets", "Subnets", "If empty, a small network is created for the runners.", "subnet-…"),
        _text("security_groups", "Security groups", "Only outbound HTTPS is needed.", "sg-…"),
        _trust(),
    ]


def _body() -> rx.Component:
    none = empty(
        "cloud",
        "No cloud identities yet",
        rx.cond(
            SessionState.can_admin,
            "Add an AWS role to deploy runners with it. Runyard keeps no secret.",
            "With an AWS role, runners can be deployed in your account. An admin can add one.",
        ),
        admin_button("Add identity", "plus", State.add),
    )
    return item_table(State, "Cloud identities", HEADS, _row, none)


def identities() -> rx.Component:
    """The cloud identities page."""
    about = "A role in your AWS account. Runyard assumes it through a runner and keeps no cloud secrets."
    form = form_dialog(State, "cloud identity", about, _fields())
    gone = question(
        is_open=State.removing != "",
        title=rx.fragment("Remove ", State.removing_name, "?"),
        text="No runner can be deployed with it any more. The role in your account stays as it is.",
        act="Remove identity",
        on_act=State.remove,
        on_keep=State.keep,
    )
    return settings_page(
        "cloud-identities",
        settings_panel(
            "Cloud identities",
            "Where cloud-hosted runners are deployed. Runyard keeps no cloud secrets.",
            admin_button("Add identity", "plus", State.add),
            _body(),
        ),
        dialogs=[form, gone],
    )
