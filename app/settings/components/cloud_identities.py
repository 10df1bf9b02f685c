"""Cloud identities: where cloud-hosted runners are deployed."""

import reflex as rx

from app.frame.layout import admin_button
from app.frame.session import SessionState
from app.settings.components.settings_page import settings_page
from app.settings.state.cloud_identities import IdentitiesState
from app.settings.view.cloud_identities import IdentityView
from app.ui.badges import pill
from app.ui.controls import code_block, icon, page_link
from app.ui.elements import ago
from app.ui.form.elements import Fields, form_dialog
from app.ui.panel import empty
from app.ui.resource import Act, Column, mono, removal, resource_panel, row_menu, strong

State = IdentitiesState


def _check(row: rx.Var[IdentityView]) -> rx.Component:
    works = pill(rx.el.i(class_name="ry-dot"), "Works", color="green")
    broken = pill(rx.el.i(class_name="ry-dot hollow"), row["check_words"], color="red", title=row["check_words"])
    unknown = pill(row["check_words"])
    testing = page_link(
        pill(icon("loader-circle", class_name="ry-spin"), row["check_words"], color="blue"),
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


ACTS = row_menu(
    Act("plug-zap", "Test connection", State.test),
    Act("pencil", "Edit and trust policy", State.edit),
    Act("trash-2", "Remove", State.ask_remove, is_danger=True),
    may=SessionState.can_admin,
)
COLUMNS = (
    Column("Name", strong("name"), "n-a"),
    Column("Role", mono("role", title="role_arn"), "mut n-c"),
    Column("Regions", lambda row: rx.el.span(row["regions"], title=row["region_list"]), "mut hide-s"),
    Column("Runners", "runners", "r num hide-s"),
    Column("Check", _check, "n-b"),
    Column("Actions", ACTS, "r n-d"),
)


def _trust() -> rx.Component:
    policy = rx.el.div(
        rx.el.span("Trust policy of the role", class_name="ry-lab"),
        code_block(State.policy, "Copy the trust policy"),
        rx.el.small("Paste it into the role. The external id is not a secret, but it is only for this identity."),
        class_name="ry-f",
        custom_attrs={"data-testid": "trust-policy"},
    )
    return rx.cond(State.policy != "", policy)


def _fields() -> list[rx.Component]:
    arn, text = "arn:aws:iam::123456789012:role/runyard-deploy", Fields(State).text
    return [
        text("name", "Name", "Display name.", placeholder="aws-production"),
        text("role_arn", "Role ARN", "The role that deploys: ECS, IAM, logs and security groups.", placeholder=arn),
        text("regions", "Regions", "Separated by commas.", placeholder="eu-west-1, us-east-1", value="region_list"),
        text("subnets", "Subnets", "If empty, a small network is created for the runners.", placeholder="subnet-…"),
        text("security_groups", "Security groups", "Only outbound HTTPS is needed.", placeholder="sg-…"),
        _trust(),
    ]


def identities() -> rx.Component:
    about = "A role in your AWS account. Runyard assumes it through a runner and keeps no cloud secrets."
    where = "Where cloud-hosted runners are deployed. Runyard keeps no cloud secrets."
    gone = "No runner can be deployed with it any more. The role in your account stays as it is."
    text = rx.cond(
        SessionState.can_admin,
        "Add an AWS role to deploy runners with it. Runyard keeps no secret.",
        "With an AWS role, runners can be deployed in your account. An admin can add one.",
    )
    add = admin_button("Add identity", "plus", State.add)
    none = empty("cloud", "No cloud identities yet", text, add)
    return settings_page(
        "cloud-identities",
        resource_panel(State, "Cloud identities", where, COLUMNS, none, add=add),
        dialogs=[
            form_dialog(State, "Add identity", about, _fields()),
            removal(State, "Remove", gone, "Remove identity"),
        ],
    )
