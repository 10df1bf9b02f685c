"""The table of runners, each with its instances."""

from typing import Any

import reflex as rx

from app.frame.session import SessionState
from app.runners.components.bulk import bulk_bar
from app.runners.components.health import health_mark
from app.runners.components.menu import row_actions
from app.runners.state.add_runner import AddRunnerState
from app.runners.state.bulk import BulkState
from app.runners.state.first_steps import FirstStepsState
from app.runners.state.runners import PAGE_SIZE, RunnersState
from app.runners.view.rows import Condition, Pulse, RunnerRow
from app.ui.badges import runner_badge, tag
from app.ui.controls import act_button, icon, page_link, plain_button
from app.ui.elements import ago, date, load, since
from app.ui.panel import empty, or_problem, skeleton_rows
from app.ui.table import bare_table, cell, fresh_button, holding, page_foot, show_all

HEADS = (
    ("Name", ""),
    ("Status", "c-l"),
    ("Health", ""),
    ("Version", "hide-t c-s"),
    ("Type", "hide-x c-m"),
    ("Region", "hide-w c-m"),
    ("Labels", "hide-w c-xl"),
    ("Load", "c-l"),
    ("Last seen", "r hide-u c-m"),
    ("Created", "r hide-x c-s"),
    ("Actions", "r c-l"),
)


def _head(label: str, side: str) -> rx.Component:
    """A column's head; the one of the names turns their order around."""
    if label != "Name":
        return rx.el.th(label, role="columnheader", scope="col", class_name=side)
    mark = rx.match(
        RunnersState.sort, ("name", icon("arrow-up", "xs")), ("-name", icon("arrow-down", "xs")), rx.fragment()
    )
    button = rx.el.button(label, mark, on_click=RunnersState.turn_names, class_name="rt-reset ry-row c6")
    order = rx.match(RunnersState.sort, ("name", "ascending"), ("-name", "descending"), "none")
    return rx.el.th(button, role="columnheader", scope="col", class_name=side, custom_attrs={"aria-sort": order})


def _pick(key: Any, name: Any, is_selected: Any) -> rx.Component:
    box = rx.checkbox(
        checked=is_selected,
        on_change=lambda is_on: BulkState.select(key, is_on),
        size="1",
        custom_attrs={"aria-label": "Select " + name.to(str)},
    )
    return cell(rx.cond(SessionState.can_operate, box), class_name="hide-s")


def _pick_page() -> rx.Component:
    box = rx.checkbox(
        checked=BulkState.is_all | BulkState.is_page,
        on_change=BulkState.select_page,
        size="1",
        custom_attrs={"aria-label": "Select this page"},
    )
    content = rx.cond(SessionState.can_operate, box)
    return rx.el.th(content, role="columnheader", scope="col", class_name="c-x hide-s")


def _name(row: Any, is_opened: rx.Var[bool]) -> rx.Component:
    return rx.el.div(
        rx.el.button(
            icon("chevron-right"),
            on_click=RunnersState.fold(row["id"]),
            class_name=rx.cond(row["instance_count"] > 0, "rt-reset ry-chev", "rt-reset ry-chev none"),
            aria_expanded=rx.cond(is_opened, "true", "false"),
            aria_label="Instances of " + row["name"].to(str),
        ),
        page_link(row["name"], href="/dashboard/runners/" + row["id"].to(str), custom_attrs={"data-open": ""}),
        rx.cond(row["instance_count"] > 1, tag(row["instance_count"])),
        class_name="ry-row c6",
    )


def _condition(item: rx.Var[Condition]) -> rx.Component:
    return rx.el.span(
        health_mark(item["code"], icon("circle-alert", "xs")),
        rx.el.b(item["word"]),
        rx.el.span(item["text"], class_name="mut"),
        class_name="ry-mark",
        title=item["word"] + ": " + item["text"],
        custom_attrs={"data-health": item["code"]},
    )


def _why(row: Any, pulse: Any) -> rx.Component:
    """The reason for a runner's status; the browser counts up how long the runner has been silent."""
    silence = rx.el.span(row["why"], " for ", since(pulse["at"]))
    said = rx.cond(row["is_silent"] & (pulse["at"] != ""), silence, rx.el.span(row["why"]))
    return rx.cond(row["why"] != "", rx.el.span(said, class_name="ry-why ry-el", title=row["why"]))


def health(row: Any, pulse: Any) -> rx.Component:
    """The problems of a runner, the worst first; a muted text when there are none."""
    conditions = row["health"].to(list[Condition])
    is_well = (conditions.length() == 0) & (row["why"] == "")
    well = rx.cond(row["status"] == "OFFLINE", "–", "Healthy")
    return rx.el.div(
        rx.foreach(conditions, _condition),
        _why(row, pulse),
        rx.cond(is_well, rx.el.span(well, class_name="mut")),
        class_name="ry-row ry-el",
    )


def _labels(row: Any) -> rx.Component:
    labels = row["labels"].to(list[str])
    return rx.el.div(rx.foreach(labels, lambda label: tag(label, is_mono=True)), class_name="ry-row c6 ry-labels")


def _version(row: Any) -> rx.Component:
    outdated = rx.el.span(
        row["version"], icon("circle-arrow-up"), class_name="ry-old", title="Older than " + SessionState.latest_version
    )
    return rx.cond(row["is_outdated"], outdated, rx.el.span(row["version"]))


@rx.memo
def runner_row(
    row: rx.Var[RunnerRow], pulse: rx.Var[Pulse], flash: rx.Var[str], is_opened: rx.Var[bool], is_selected: rx.Var[bool]
) -> rx.Component:
    """A runner's row; remembered by the browser, so that a change draws one row again and not the page."""
    return rx.el.tr(
        _pick(row["id"], row["name"], is_selected),
        cell(_name(row, is_opened), class_name="n-a"),
        cell(runner_badge(row["status"], row["rest"]), class_name="n-b"),
        cell(health(row, pulse), class_name="hide-s"),
        cell(_version(row), class_name="num hide-s hide-t"),
        cell(row["type"], class_name="mut hide-x"),
        cell(row["region"], class_name="mut hide-w"),
        cell(_labels(row), class_name="hide-w", title=row["labels"].to(list[str]).join(", ")),
        cell(load(pulse["used"], pulse["capacity"], row["status"]), class_name="n-d"),
        cell(ago(pulse["at"]), class_name="r mut num hide-s hide-u"),
        cell(date(row["created_at"]), class_name="r mut num hide-x"),
        cell(row_actions(row, SessionState.latest_version), class_name="r hide-s"),
        cell(row["facts"], class_name="only-c n-c", style={"padding_left": "28px !important"}),
        role="row",
        tab_index=-1,
        class_name=flash,
        aria_selected=rx.cond(SessionState.can_operate, rx.cond(is_selected, "true", "false"), None),
        custom_attrs={"data-row": row["id"], "data-status": row["status"]},
    )


def _instance(row: Any) -> rx.Component:
    pulse = RunnersState.pulses[row["id"].to(str)]
    return rx.el.tr(
        cell(class_name="hide-s"),
        cell(rx.el.div(row["name"], class_name="ry-tree"), class_name="n-a"),
        cell(runner_badge(row["status"]), class_name="n-b"),
        cell(rx.el.span(row["why"], class_name="ry-why ry-el", title=row["why"]), class_name="hide-s"),
        cell(row["version"], class_name="num mut hide-t"),
        cell(class_name="hide-x"),
        cell(rx.el.span(row["host"], class_name="ry-mono sm"), class_name="mut hide-w", col_span=2),
        cell(load(pulse["used"], row["capacity"], row["status"]), class_name="n-d"),
        cell(ago(pulse["at"]), class_name="r mut num hide-u"),
        cell(class_name="hide-x"),
        cell(),
        cell(row["host"], " · ", row["why"], class_name="only-c n-c"),
        role="row",
        class_name=rx.cond(row["is_last"], "sub end", "sub"),
        key=row["id"],
    )


def _runner(held: Any) -> rx.Component:
    # A changed row comes alone, as a patch over the page that the browser already has.
    patches = RunnersState.patches
    row = rx.cond(patches.contains(held["id"]), patches[held["id"].to(str)], held).to(RunnerRow)
    key = row["id"].to(str)
    is_opened = RunnersState.instances.contains(key)
    opened = RunnersState.instances[key].to(list[dict[str, Any]])
    return rx.fragment(
        runner_row(
            row=row,
            pulse=RunnersState.pulses[key],
            flash=RunnersState.flashes[key],
            is_opened=is_opened,
            is_selected=BulkState.is_all | BulkState.selected.contains(key),
        ),
        rx.cond(is_opened, rx.foreach(opened, _instance)),
        key=key,
    )


def _nothing() -> rx.Component:
    offered = {"on_click": AddRunnerState.open_sheet, "custom_attrs": {"data-key": "n"}}
    label = (icon("plus"), "Add runner")
    # The first step's own act is the main one while it is shown.
    add = rx.cond(FirstStepsState.is_shown, plain_button(*label, **offered), act_button(*label, **offered))
    read = rx.el.a(plain_button("Read how"), href="/docs/self-hosted/", target="_blank")
    none_yet = empty(
        "server",
        "No runners yet",
        rx.cond(
            SessionState.can_admin,
            "Add one to run your first plan. It takes about two minutes.",
            "Plans and applies run on them. An admin can add one.",
        ),
        rx.cond(SessionState.can_admin, add),
        read,
        test_id="no-runners",
    )
    clear = show_all(RunnersState.clear_search, custom_attrs={"data-testid": "show-all"})
    hidden = RunnersState.fleet_count.to_string() + " runners are hidden by the filter or the search."
    none_such = empty("search-x", "No runners match", hidden, clear, test_id="no-runners-match")
    return rx.cond(RunnersState.is_filtered, none_such, none_yet)


def _pager() -> rx.Component:
    fresh = fresh_button(RunnersState.fresh_count, RunnersState.show_fresh)
    is_needed = (RunnersState.match_count > PAGE_SIZE) | (RunnersState.fresh_count > 0)
    return rx.cond(is_needed, page_foot(RunnersState, PAGE_SIZE, RunnersState.match_count, fresh))


def runners_table() -> rx.Component:
    """The table, or its placeholder while it loads, is empty or failed."""
    heads = [_pick_page(), *[_head(label, side) for label, side in HEADS]]
    is_waiting = RunnersState.is_loading & (RunnersState.rows.length() == 0)
    rows = rx.cond(is_waiting, skeleton_rows([("", "c-x"), *HEADS]), rx.foreach(RunnersState.rows, _runner))
    head = rx.el.thead(rx.el.tr(*heads, role="row"))
    table = bare_table("Runners", head, rows, class_name="ry-runners ry-fixed", aria_busy=is_waiting)
    held = holding(
        table, lambda is_held: RunnersState.hold("runners", is_held), RunnersState.held_tables.contains("runners")
    )
    has_table = is_waiting | (RunnersState.rows.length() > 0)
    return rx.el.section(
        or_problem(RunnersState, "Runners", rx.cond(has_table, rx.fragment(bulk_bar(), held, _pager()), _nothing())),
        class_name="ry-panel",
        aria_label="Runners of " + SessionState.org_name,
    )
