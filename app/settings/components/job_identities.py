"""Identities of jobs: the table, the form with what the cloud has to trust, and the test."""

import reflex as rx

from app.frame.session import SessionState
from app.settings.components.frame import admin_button, item_table, menu, menu_item, settings_page, settings_panel
from app.settings.state.job_identities import JobIdentitiesState
from app.settings.view.job_identities import FIELDS, KINDS, JobIdentityView
from app.ui.copy import code_block
from app.ui.dialog import question
from app.ui.feedback import empty
from app.ui.form.elements import field, form_dialog, text_field
from app.ui.icons import icon
from app.ui.table import cell

State = JobIdentitiesState
HEADS = (("Identity", ""), ("Modules", ""), ("Roles", ""), ("Audience", ""), ("Last test", ""), ("Actions", "r"))


def _test(row: rx.Var[JobIdentityView]) -> rx.Component:
    href = "/dashboard/jobs/" + row["test_job"].to_string()
    works = rx.badge(rx.el.i(class_name="ry-dot"), "Works", color_scheme="green", radius="full")
    refused = rx.badge(rx.el.i(class_name="ry-dot hollow"), "Refused", color_scheme="red", radius="full")
    testing = rx.badge(icon("loader-circle", class_name="ry-spin"), "Testing", color_scheme="blue", radius="full")
    words = rx.el.small(row["test_words"], class_name="mut ry-breaks")
    shown = rx.match(
        row["test"],
        ("WORKS", rx.fragment(works, " ", words)),
        ("REFUSED", rx.fragment(refused, " ", words)),
        ("TESTING", testing),
        rx.el.span("Not tested", class_name="mut"),
    )
    return rx.cond(row["test_job"].to(int) > 0, rx.link(shown, href=href, underline="none"), shown)


def _menu(row: rx.Var[JobIdentityView]) -> rx.Component:
    key = row["id"].to(str)
    acts = menu(
        "More actions for " + row["name"].to(str),
        menu_item("plug-zap", "Test", State.test(key)),
        menu_item("pencil", "Edit and trust policy", State.edit(key)),
        rx.dropdown_menu.separator(),
        menu_item("trash-2", "Detach", State.ask_remove(key), color_scheme="red"),
    )
    return rx.cond(SessionState.can_admin, acts, rx.fragment())


def _row(row: rx.Var[JobIdentityView]) -> rx.Component:
    name = rx.el.span(rx.el.b(row["name"], class_name="ry-medium"), rx.el.span(row["words"], class_name="sm"))
    return rx.el.tr(
        cell(name, class_name="n-a"),
        cell(rx.el.span(row["place"], class_name="ry-mono"), class_name="n-b"),
        cell(rx.el.span(row["roles"], class_name="ry-mono ry-breaks"), class_name="mut hide-s"),
        cell(rx.el.span(row["audience"], class_name="ry-mono ry-breaks"), class_name="mut hide-s"),
        cell(_test(row), class_name="n-c"),
        cell(_menu(row), class_name="r n-d"),
        role="row",
        key=row["id"],
        custom_attrs={"data-row": row["name"]},
    )


def _trust(label: str, text: rx.Var[str]) -> rx.Component:
    shown = rx.el.div(rx.el.span(label, class_name="ry-lab"), code_block(text, f"Copy: {label}"), class_name="ry-f")
    return rx.cond(text != "", shown, rx.fragment())


def _fields() -> list[rx.Component]:
    kinds = rx.select.root(
        rx.select.trigger(id="s-kind", aria_label="Cloud", width="100%"),
        rx.select.content(*[rx.select.item(words, value=key) for key, words in KINDS.items()]),
        value=State.kind,
        on_change=State.set_kind,
        disabled=~State.is_new,
    )
    known = [(kind, ", ".join(f"{each}=…" for each in names)) for kind, names in FIELDS.items() if names]
    settings = rx.text_area(
        id="s-settings", name="settings", default_value=State.chosen["text"], rows="4", class_name="ry-mono"
    )
    own_name = text_field("name", "Name", State.chosen["name"], State.errors, "", disabled=~State.is_new)
    return [
        field("kind", "Cloud", kinds, State.errors),
        rx.cond(State.kind == "custom", own_name, rx.fragment()),
        text_field(
            "path",
            "Group or module",
            State.chosen["path"],
            State.errors,
            "If empty, all modules.",
            disabled=~State.is_new,
        ),
        field("settings", "Fields", settings, State.errors, rx.match(State.kind, *known, "None.")),
        text_field(
            "audience", "Audience", State.chosen["audience"], State.errors, "If empty, the usual one of the cloud."
        ),
        _trust("What the plan role trusts", State.plan_trust),
        _trust("What the apply role trusts", State.apply_trust),
    ]


def job_identities() -> rx.Component:
    """The page of the identities of jobs."""
    text = "Attach one to a group, and its jobs sign in to the cloud without a stored key."
    add = admin_button("Attach identity", "plus", State.add)
    none = empty("fingerprint", "No identities", text, add)
    gone = question(
        is_open=State.removing != "",
        title=rx.fragment("Detach ", State.removing_name, "?"),
        text="Running jobs get no further token for it. The cloud still trusts Runyard: remove its policy there.",
        act="Detach identity",
        on_act=State.remove,
        on_keep=State.keep,
    )
    about = "Jobs sign in to a cloud with these: one token for each job and phase, no stored secret. The nearest one applies."
    return settings_page(
        "job-identities",
        settings_panel("Job identities", about, add, item_table(State, "Job identities", HEADS, _row, none)),
        dialogs=[form_dialog(State, "job identity", about, _fields()), gone],
    )
