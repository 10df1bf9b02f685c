"""The audit log."""

import reflex as rx

from app.settings.components.frame import admins_only, or_problem, settings_page, settings_panel
from app.settings.state.audit import KINDS, PAGE_SIZE, AuditState
from app.settings.view.audit import AuditRow, Change
from app.ui.button import plain_button
from app.ui.choice import choice, dropdown
from app.ui.elements import DOWNLOAD, clock_seconds
from app.ui.feedback import empty, skeleton_rows
from app.ui.icons import icon
from app.ui.table import cell, heads, page_foot, search_box, show_all, table


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
    kinds = choice(
        "Action",
        {"any": "Any action", **KINDS},
        value=AuditState.action,
        on_change=AuditState.choose_action,
        width=None,
    )
    button = plain_button(icon("download"), "Export")
    ways = (_export("csv", "CSV, for a spreadsheet"), _export("jsonl", "JSON lines, for programs"))
    export = dropdown(button, *ways, align="end")
    who = search_box(
        "audit-search",
        "Search by who",
        AuditState.search_for,
        AuditState.clear,
        class_name="ry-audit-search",
        placeholder="Who",
    )
    return rx.fragment(who, kinds, export)


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
