"""The audit log."""

import reflex as rx

from app.settings.components.settings_page import admins_only, settings_page
from app.settings.state.audit import KINDS, PAGE_SIZE, AuditState
from app.settings.view.audit import AuditRow, Change
from app.ui.controls import choice, export_menu, icon, page_link
from app.ui.elements import clock_seconds
from app.ui.panel import empty
from app.ui.resource import Column, moment, resource_panel, unmarked
from app.ui.table import page_foot, search_box, show_all


def _change(change: rx.Var[Change]) -> rx.Component:
    return rx.el.li(
        rx.el.span(change["field"], class_name="ry-medium"),
        " ",
        rx.el.span(change["old"], class_name="ry-mono"),
        icon("arrow-right", "xs", aria_label="became"),
        rx.el.span(change["new"], class_name="ry-mono"),
    )


def _target(row: rx.Var[AuditRow]) -> rx.Component:
    what = rx.el.span(row["what"], class_name="ry-mono")
    return rx.cond(row["href"] != "", page_link(what, href=row["href"], class_name="ry-a"), what)


def _details(row: rx.Var[AuditRow]) -> rx.Component:
    changes = row["changes"].to(list[Change])
    listed = rx.el.ul(
        rx.foreach(changes, _change), class_name="ry-audit-changes", custom_attrs={"data-testid": "changes"}
    )
    return rx.cond(changes.length() > 0, listed, row["detail"])


COLUMNS = (
    Column("Time", moment("at", clock_seconds), "mut num n-d"),
    Column("Who", "who", "n-a ry-audit-who", lambda row: {"title": row["who"]}),
    Column("Address", "address", "mut num hide-w"),
    Column("Action", lambda row: rx.el.span(row["words"], title=row["action"], class_name="ry-audit-act"), "n-b wrap"),
    Column("Target", _target, "n-c wrap ry-breaks"),
    Column("Details", _details, "mut n-w ry-audit-detail wrap"),
)


def _audit_bar() -> rx.Component:
    kinds = choice(
        "Action",
        {"any": "Any action", **KINDS},
        value=AuditState.action,
        on_change=AuditState.choose_action,
        width=None,
    )
    who = search_box(
        "audit-search",
        "Search by who",
        AuditState.search_for,
        AuditState.clear,
        class_name="ry-audit-search",
        placeholder="Who",
    )
    return rx.fragment(who, kinds, export_menu("/api/audit", "?" + AuditState.export))


def audit() -> rx.Component:
    clear, look = show_all(AuditState.clear), {"is_reached_by_keys": True, "style": {"--ry-row-h": "36px"}}
    none = empty("search-x", "No matching events", "Others are hidden by the filter.", clear, test_id="no-events-match")
    pages = page_foot(AuditState, PAGE_SIZE, AuditState.total, words=("Newer", "Older"))
    foot = rx.cond(AuditState.rows.length() > 0, pages)
    about, options = "Every change, by whom and to what.", {"mark": unmarked, "skeleton": 8, "foot": foot}
    panel = resource_panel(AuditState, "Audit log", about, COLUMNS, none, add=_audit_bar(), look=look, **options)
    return settings_page("audit", admins_only("the audit log", panel))
