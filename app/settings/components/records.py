"""Releases, the audit log and the organisation itself."""

import reflex as rx

from app.frame.releases.state import ReleaseNotesState
from app.frame.session import SessionState
from app.settings.components.frame import admins_only, or_problem, settings_page, settings_panel
from app.settings.state.audit import KINDS, PAGE_SIZE, AuditState
from app.settings.state.organisation import OrganisationState
from app.settings.state.releases import ReleaseRow, ReleasesState
from app.settings.view.audit import AuditRow, Change
from app.ui.dialog import act_button, question
from app.ui.elements import DOWNLOAD, ago, clock_seconds, date
from app.ui.feedback import empty, skeleton_rows
from app.ui.form.elements import check_field, text_field
from app.ui.icons import icon
from app.ui.table import cell, heads, page_foot, search_box, show_all, table


def _release(row: rx.Var[ReleaseRow]) -> rx.Component:
    marks = rx.fragment(
        rx.cond(row["is_latest"], rx.badge("latest", color_scheme="indigo", radius="full"), rx.fragment()),
        rx.cond(row["is_breaking"], rx.badge("breaking", color_scheme="amber", radius="full"), rx.fragment()),
        rx.cond(
            row["channel"] != "stable", rx.badge(row["channel"], color_scheme="gray", radius="full"), rx.fragment()
        ),
    )
    notes = rx.button(
        "Notes",
        on_click=ReleaseNotesState.show(row["version"].to(str)),
        size="1",
        variant="ghost",
        color_scheme="gray",
        aria_label="Notes of " + row["version"].to(str),
    )
    return rx.el.tr(
        cell(
            rx.el.span(rx.el.b(row["version"], class_name="num ry-medium"), marks, class_name="ry-row"),
            class_name="n-a",
        ),
        cell(row["first_line"], class_name="mut n-c wrap"),
        cell(row["runners"], class_name="r num hide-s"),
        cell(ago(row["published_at"].to(str)), class_name="r mut num n-d"),
        cell(notes, class_name="r n-b"),
        role="row",
        key=row["version"],
    )


def releases() -> rx.Component:
    """The releases page."""
    labels = (("Version", ""), ("What is new", ""), ("Runners on it", "r"), ("Published", "r"), ("Actions", "r"))
    waiting = ReleasesState.is_loading & (ReleasesState.rows.length() == 0)
    none = empty(
        "megaphone", "No releases yet", "CI publishes runner versions with their notes, and they show up here."
    )
    rows = rx.cond(waiting, skeleton_rows(labels, 3), rx.foreach(ReleasesState.rows, _release))
    body = rx.cond(
        waiting | (ReleasesState.rows.length() > 0), table("Releases", heads(*labels), rows, aria_busy=waiting), none
    )
    return settings_page(
        "releases",
        settings_panel(
            "Releases",
            "Runner versions. Published by CI, newest first.",
            rx.fragment(),
            or_problem(ReleasesState, "Releases", body),
        ),
    )


def _change(change: rx.Var[Change]) -> rx.Component:
    return rx.el.li(
        rx.el.span(change["field"], class_name="ry-medium"),
        " ",
        rx.el.span(change["old"], class_name="ry-mono"),
        icon("arrow-right", "xs", aria_label="became"),
        rx.el.span(change["new"], class_name="ry-mono"),
    )


def _act(row: rx.Var[AuditRow]) -> rx.Component:
    what = rx.el.span(row["what"], class_name="ry-mono")
    target = rx.cond(row["href"] != "", rx.link(what, href=row["href"], class_name="ry-a"), what)
    changes = row["changes"].to(list[Change])
    said = rx.cond(
        changes.length() > 0,
        rx.el.ul(rx.foreach(changes, _change), class_name="ry-audit-changes", custom_attrs={"data-testid": "changes"}),
        row["detail"],
    )
    return rx.el.tr(
        cell(clock_seconds(row["at"].to(str)), class_name="mut num n-d"),
        cell(row["who"], class_name="n-a ry-audit-who", title=row["who"]),
        cell(row["address"], class_name="mut num hide-w"),
        cell(rx.el.span(row["words"], title=row["action"], class_name="ry-audit-act"), class_name="n-b wrap"),
        cell(target, class_name="n-c wrap ry-breaks"),
        cell(said, class_name="mut n-w ry-audit-detail wrap"),
        role="row",
        key=row["id"].to_string(),
    )


def _audit_bar() -> rx.Component:
    kinds = [rx.select.item(label, value=value) for value, label in KINDS]
    choice = rx.select.root(
        rx.select.trigger(aria_label="Action"),
        rx.select.content(rx.select.item("Any action", value="any"), *kinds),
        value=AuditState.action,
        on_change=AuditState.choose_action,
    )
    button = rx.button(icon("download"), "Export", variant="surface", color_scheme="gray")
    ways = (_export("csv", "CSV, for a spreadsheet"), _export("jsonl", "JSON lines, for programs"))
    export = rx.dropdown_menu.root(
        rx.dropdown_menu.trigger(button),
        rx.dropdown_menu.content(*ways, align="end", variant="soft", color_scheme="gray"),
    )
    who = search_box(
        "audit-search",
        "Search by who",
        AuditState.search_for,
        AuditState.clear,
        class_name="ry-audit-search",
        placeholder="Who",
    )
    return rx.fragment(who, choice, export)


def _export(kind: str, label: str) -> rx.Component:
    address = f"/api/audit.{kind}?" + AuditState.export
    return rx.dropdown_menu.item(
        rx.el.a(label, href=address, custom_attrs=DOWNLOAD, class_name="ry-menu-link"), as_child=True
    )


def audit() -> rx.Component:
    """The audit page."""
    labels = (("Time", ""), ("Who", ""), ("Address", "hide-w"), ("Action", ""), ("Target", ""), ("Details", ""))
    waiting = AuditState.is_loading & (AuditState.rows.length() == 0)
    clear = show_all(AuditState.clear)
    none = empty("search-x", "No matching events", "Others are hidden by the filter.", clear, test_id="no-events-match")
    rows = rx.cond(waiting, skeleton_rows(labels, 8), rx.foreach(AuditState.rows, _act))
    shown = table(
        "Audit log", heads(*labels), rows, is_reached_by_keys=True, aria_busy=waiting, style={"--ry-row-h": "36px"}
    )
    body = rx.cond(
        waiting | (AuditState.rows.length() > 0),
        rx.fragment(shown, page_foot(AuditState, PAGE_SIZE, AuditState.total, words=("Newer", "Older"))),
        none,
    )
    panel = settings_panel(
        "Audit log", "Every change, by whom and to what.", _audit_bar(), or_problem(AuditState, "The audit log", body)
    )
    return settings_page("audit", admins_only("the audit log", panel))


def _organisation_form() -> rx.Component:
    state = OrganisationState
    may = SessionState.role == "owner"
    save = rx.button("Save", type="submit", variant="surface", color_scheme="gray", disabled=~state.is_changed | ~may)
    said = rx.cond(may, rx.cond(state.is_changed, "", "No changes"), "Only an owner changes this.")
    return rx.form(
        text_field("name", "Name", state.name, state.errors, "Shown in the UI.", on_change=state.touch),
        text_field(
            "retention",
            "Keep job logs for",
            state.retention,
            state.errors,
            "Days. Older logs are removed; jobs, plans and events stay.",
            type="number",
            on_change=state.touch,
        ),
        check_field(
            "People may approve jobs that they requested themselves",
            name="can_approve_own",
            default_checked=state.can_approve_own,
            on_change=state.touch_check,
        ),
        rx.el.div(save, rx.el.span(said, class_name="sm"), class_name="ry-acts"),
        on_submit=state.save,
        class_name="ry-pb ry-org-form",
        key=state.ident + state.name + state.retention + state.can_approve_own.to_string(),
    )


def _delete_panel() -> rx.Component:
    """The way to delete the organisation, for its owners."""
    state = OrganisationState
    typed = rx.el.div(
        rx.el.label("Type ", rx.el.b(state.slug), " to confirm", html_for="organisation-typed"),
        rx.input(
            id="organisation-typed",
            value=state.typed,
            on_change=state.type_slug,
            auto_complete="off",
            custom_attrs={"spellCheck": "false"},
        ),
        class_name="ry-f ry-dialog-field",
    )
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
    button = act_button("Delete organisation…", is_danger=True, variant="surface", on_click=state.ask_delete(True))
    return settings_panel(
        "Delete",
        "Possible once the organisation has no modules and no runners. To leave it or to hand it over, use Members.",
        rx.fragment(),
        rx.el.div(button, dialog, class_name="ry-pb"),
    )


def organisation() -> rx.Component:
    """The organisation's page."""
    state = OrganisationState
    facts = rx.el.div(
        rx.el.dl(
            rx.el.dt("Short name"),
            rx.el.dd(state.slug, class_name="ry-mono"),
            rx.el.dt("Id"),
            rx.el.dd(state.ident, class_name="ry-mono ry-breaks"),
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
            "Its name, and how long logs are kept.",
            rx.fragment(),
            or_problem(state, "The organisation", _organisation_form()),
        ),
        settings_panel(
            # Only when it is known: our own elements write into the page, which would confuse React's first look at it.
            "Identity",
            "Identifier for the API.",
            rx.fragment(),
            rx.cond(state.ident != "", facts, rx.fragment()),
        ),
        rx.cond(SessionState.role == "owner", _delete_panel(), rx.fragment()),
    )
