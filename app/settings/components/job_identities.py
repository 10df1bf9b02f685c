"""Identities of jobs: the table, the form with what the cloud has to trust, and the test."""

import reflex as rx

from app.frame.layout import admin_button
from app.frame.pick import picks
from app.frame.session import SessionState
from app.settings.components.settings_page import settings_page
from app.settings.state.job_identities import JobIdentitiesState
from app.settings.view.job_identities import FIELDS, KINDS, JobIdentityView
from app.ui.badges import pill
from app.ui.controls import code_block, icon, page_link
from app.ui.form.elements import Fields, form_dialog, labelled, text_field
from app.ui.panel import empty
from app.ui.resource import Act, Column, mono, removal, resource_panel, row_menu, strong

State = JobIdentitiesState


def _test(row: rx.Var[JobIdentityView]) -> rx.Component:
    href = "/dashboard/jobs/" + row["test_job"].to_string()
    works = pill(rx.el.i(class_name="ry-dot"), "Works", color="green")
    refused = pill(rx.el.i(class_name="ry-dot hollow"), "Refused", color="red")
    testing = pill(icon("loader-circle", class_name="ry-spin"), "Testing", color="blue")
    words = rx.el.small(row["test_words"], class_name="mut ry-breaks")
    shown = rx.match(
        row["test"],
        ("WORKS", rx.fragment(works, " ", words)),
        ("REFUSED", rx.fragment(refused, " ", words)),
        ("TESTING", testing),
        rx.el.span("Not tested", class_name="mut"),
    )
    return rx.cond(row["test_job"].to(int) > 0, page_link(shown, href=href, underline="none"), shown)


ACTS = row_menu(
    Act("plug-zap", "Test", State.test),
    Act("pencil", "Edit and trust policy", State.edit),
    Act("trash-2", "Detach", State.ask_remove, is_danger=True),
    may=SessionState.can_admin,
)
COLUMNS = (
    Column("Identity", lambda row: rx.el.span(strong("name")(row), rx.el.span(row["words"], class_name="sm")), "n-a"),
    Column("Modules", mono("place"), "n-b"),
    Column("Roles", mono("roles", "ry-breaks"), "mut hide-s"),
    Column("Audience", mono("audience", "ry-breaks"), "mut hide-s"),
    Column("Last test", _test, "n-c"),
    Column("Actions", ACTS, "r n-d"),
)


def _trust(label: str, text: rx.Var[str]) -> rx.Component:
    shown = labelled(label, code_block(text, f"Copy: {label}"))
    return rx.cond(text != "", shown)


def _setting(key: str, example: str) -> rx.Component:
    label = key.replace("_", " ").capitalize().replace(" id", " ID")
    return text_field(key, label, State.chosen["settings"][key], State.errors, placeholder=example)


def _fields() -> list[rx.Component]:
    fields, is_old = Fields(State), ~State.is_new
    settings = [(kind, rx.fragment(*map(_setting, names, names.values()))) for kind, names in FIELDS.items()]
    return [
        fields.choice("kind", "Cloud", KINDS, disabled=is_old),
        rx.cond(State.kind == "custom", fields.text("name", "Name", disabled=is_old)),
        fields.text("path", "Group or module", "If empty, all modules.", disabled=is_old, **picks("groups", "modules")),
        rx.match(State.kind, *settings, rx.fragment()),
        fields.text("audience", "Audience", "If empty, the usual one of the cloud."),
        _trust("What the plan role trusts", State.plan_trust),
        _trust("What the apply role trusts", State.apply_trust),
    ]


def job_identities() -> rx.Component:
    about = "Jobs sign in to a cloud with these: one token for each job and phase, no stored secret. The nearest one applies."
    text = "Attach one to a group, and its jobs sign in to the cloud without a stored key."
    gone = "Running jobs get no further token for it. The cloud still trusts Runyard: remove its policy there."
    add = admin_button("Attach identity", "plus", State.add)
    none = empty("fingerprint", "No identities", text, add)
    return settings_page(
        "job-identities",
        resource_panel(
            State, "Job identities", about, COLUMNS, none, add=add, mark=lambda row: {"data-row": row["name"]}
        ),
        dialogs=[
            form_dialog(State, "Attach identity", about, _fields()),
            removal(State, "Detach", gone, "Detach identity"),
        ],
    )
