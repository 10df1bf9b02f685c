"""The organisation itself: its settings, and its end."""

from typing import Any

import reflex as rx

from app.frame.session import SessionState
from app.settings.components.settings_page import settings_page
from app.settings.state.organisation import OrganisationState
from app.ui.controls import act_button, copy_icon, plain_button
from app.ui.dialog import question, typed_field
from app.ui.elements import date
from app.ui.form.elements import check_field, text_field
from app.ui.panel import or_problem, settings_panel


def _organisation_form() -> rx.Component:
    state = OrganisationState
    may = SessionState.role == "owner"
    save = plain_button("Save", type="submit", disabled=~state.is_changed | ~may)
    said = rx.cond(may, rx.cond(state.is_changed, "", "No changes"), "Only an owner changes this.")
    days = "Days. Older logs are removed; jobs, plans and events stay."
    longer, example = "What takes longer is stopped. Groups and modules may have others.", "plan=1h, apply=4h, hook=60s"

    def line(key: str, label: str, hint: str, **props: Any) -> rx.Component:
        return text_field(key, label, getattr(state, key), state.errors, hint, on_change=state.touch, **props)

    return rx.form(
        line("name", "Name", "What members see in menus and messages."),
        line("retention", "Keep job logs for", days, type="number"),
        line("time_limits", "Time limits", longer, placeholder=example),
        check_field(
            "People may approve jobs that they requested themselves",
            name="can_approve_own",
            default_checked=state.can_approve_own,
            on_change=state.touch,
        ),
        rx.el.div(save, rx.el.span(said, class_name="sm"), class_name="ry-acts"),
        on_submit=state.save,
        class_name="ry-pb ry-org-form",
        key=state.ident + state.name + state.retention + state.time_limits + state.can_approve_own.to_string(),
    )


def _delete_panel() -> rx.Component:
    state = OrganisationState
    label = ("Type ", rx.el.b(state.slug), " to confirm")
    typed = typed_field("organisation-typed", *label, value=state.typed, on_change=state.type_slug)
    dialog = question(
        typed,
        is_open=state.is_deleting,
        title="Delete this organisation?",
        text="Its jobs, logs, states and audit log are deleted for everybody. This cannot be undone.",
        act="Delete organisation",
        on_act=state.delete,
        on_keep=state.ask_delete(False),
        is_disabled=state.typed != state.slug,
    )
    is_used = state.contents != ""
    button = act_button(
        "Delete organisation…", is_danger=True, variant="surface", on_click=state.ask_delete(True), disabled=is_used
    )
    return settings_panel(
        "Delete",
        "Possible once the organisation has no modules and no runners. To leave it or to hand it over, use People.",
        rx.fragment(),
        rx.el.div(button, rx.cond(is_used, rx.el.p(state.contents, class_name="ry-hint")), dialog, class_name="ry-pb"),
    )


def organisation() -> rx.Component:
    state = OrganisationState
    facts = rx.el.div(
        rx.el.dl(
            rx.el.dt("Short name"),
            rx.el.dd(state.slug, class_name="ry-mono"),
            rx.el.dt("Id"),
            rx.el.dd(
                rx.el.span(state.ident, class_name="ry-mono ry-breaks"),
                copy_icon(state.ident, "Copy the id"),
                class_name="ry-row c6",
            ),
            rx.el.dt("Since"),
            rx.el.dd(date(state.created_at)),
            class_name="ry-dl",
        ),
        class_name="ry-pb",
    )
    return settings_page(
        "organisation",
        settings_panel(
            "Organisation",
            "Its name, how long logs are kept, and how long jobs may take.",
            rx.fragment(),
            or_problem(state, "The organisation", _organisation_form()),
        ),
        settings_panel(
            # Only when it is known: our own elements write into the page, which would confuse React's first look at it.
            "Identity",
            "Identifier for the API.",
            rx.fragment(),
            rx.cond(state.ident != "", facts),
        ),
        rx.cond(SessionState.role == "owner", _delete_panel()),
    )
