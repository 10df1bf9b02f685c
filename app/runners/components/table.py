"""The table of runners, with the instances under their record."""

from typing import Any

import reflex as rx

from app.runners.components.menu import row_actions
from app.runners.state.add_runner import AddRunnerState
from app.runners.state.runners import RunnersState
from app.runners.view.board import PAGE_SIZE
from app.runners.view.rows import Pulse, RunnerRow
from app.shared.badges import runner_badge, tag
from app.shared.elements import ago, date, load
from app.shared.feedback import empty, failed, skeleton_rows
from app.shared.hold import fresh_button, holding
from app.shared.icons import icon
from app.shared.session import SessionState
from app.shared.table import bare_table, cell, turns

HEADS = (
    ("Name", ""),
    ("Type", "hide-n c-m"),
    ("Region", "hide-w c-m"),
    ("Status", ""),
    ("Version", "c-s"),
    ("Load", "c-m"),
    ("Last seen", "r c-s"),
    ("Created", "r hide-w c-s"),
    ("Actions", "r c-l"),
)


def _name(row: Any, is_opened: rx.Var[bool]) -> rx.Component:
    return rx.el.div(
        rx.el.button(
            icon("chevron-right"),
            on_click=RunnersState.fold(row["id"]),
            class_name=rx.cond(row["instance_count"] > 0, "rt-reset ry-chev", "rt-reset ry-chev none"),
            aria_expanded=rx.cond(is_opened, "true", "false"),
            aria_label="Instances of " + row["name"].to(str),
        ),
        rx.link(row["name"], href="/dashboard/runners/" + row["id"].to(str), custom_attrs={"data-open": ""}),
        rx.cond(row["instance_count"] > 1, tag(row["instance_count"]), rx.fragment()),
        class_name="ry-row c6",
    )


def _status(row: Any) -> rx.Component:
    return rx.el.div(
        runner_badge(row["status"], row["is_asleep"], row["is_starting"]),
        rx.el.span(row["why"], class_name="ry-why hide-s ry-el", title=row["why"]),
        class_name="ry-row",
    )


def _version(row: Any) -> rx.Component:
    outdated = rx.el.span(
        row["version"],
        icon("circle-arrow-up"),
        class_name="ry-old",
        title="Older than " + SessionState.latest_version,
    )
    return rx.cond(row["is_outdated"], outdated, rx.el.span(row["version"]))


@rx.memo
def runner_row(
    row: rx.Var[RunnerRow], pulse: rx.Var[Pulse], flash: rx.Var[str], is_opened: rx.Var[bool]
) -> rx.Component:
    """A runner's row; remembered by the browser, so that a change draws one row again and not the page."""
    return rx.el.tr(
        cell(_name(row, is_opened), class_name="n-a"),
        cell(row["type"], class_name="mut hide-n"),
        cell(row["region"], class_name="mut hide-w"),
        cell(_status(row), class_name="n-b"),
        cell(_version(row), class_name="num hide-s"),
        cell(load(pulse["used"], pulse["capacity"], row["status"]), class_name="n-d"),
        cell(ago(pulse["at"]), class_name="r mut num hide-s"),
        cell(date(row["created_at"]), class_name="r mut num hide-w"),
        cell(row_actions(row, SessionState.latest_version), class_name="r hide-s"),
        cell(row["facts"], class_name="only-c n-c", style={"padding_left": "28px !important"}),
        role="row",
        tab_index=-1,
        class_name=flash,
        custom_attrs={"data-row": row["id"], "data-status": row["status"]},
    )


def _instance(row: Any) -> rx.Component:
    pulse = RunnersState.pulses[row["id"].to(str)]
    return rx.el.tr(
        cell(rx.el.div(row["name"], class_name="ry-tree"), class_name="n-a"),
        cell(rx.el.span(row["host"], class_name="ry-mono sm"), class_name="mut hide-n"),
        cell(class_name="hide-w"),
        cell(
            rx.el.div(
                runner_badge(row["status"]), rx.el.span(row["why"], class_name="ry-why hide-s"), class_name="ry-row"
            ),
            class_name="n-b",
        ),
        cell(row["version"], class_name="num mut"),
        cell(load(pulse["used"], row["capacity"], row["status"]), class_name="n-d"),
        cell(ago(pulse["at"]), class_name="r mut num"),
        cell(class_name="hide-w"),
        cell(),
        cell(row["host"], " · ", row["why"], class_name="only-c n-c"),
        role="row",
        class_name=rx.cond(row["is_last"], "sub end", "sub"),
        key=row["id"],
    )


def _record(held: Any) -> rx.Component:
    # A changed row comes alone, as a patch over the page that the browser already has.
    patches = RunnersState.patches
    row = rx.cond(patches.contains(held["id"]), patches[held["id"].to(str)], held).to(RunnerRow)
    key = row["id"].to(str)
    is_opened = RunnersState.instances.contains(key)
    opened = RunnersState.instances[key].to(list[dict[str, Any]])
    return rx.fragment(
        runner_row(row=row, pulse=RunnersState.pulses[key], flash=RunnersState.flashes[key], is_opened=is_opened),
        rx.cond(is_opened, rx.foreach(opened, _instance), rx.fragment()),
        key=key,
    )


def _nothing() -> rx.Component:
    add = rx.button(
        icon("plus"), "Add runner", on_click=AddRunnerState.open_sheet, color_scheme="gray", high_contrast=True
    )
    read = rx.el.a(
        rx.button("Read how", variant="surface", color_scheme="gray"), href="/docs/self-hosted/", target="_blank"
    )
    none_yet = empty(
        "server",
        "No runners yet",
        "Add one to run your first plan. It takes about two minutes.",
        rx.cond(SessionState.can_admin, add, rx.fragment()),
        read,
    )
    clear = rx.button("Clear search", on_click=RunnersState.clear_search, variant="surface", color_scheme="gray")
    hidden = RunnersState.counts["all"].to_string() + " runners are hidden by this search."
    none_called = empty("search-x", "No runner is called “" + RunnersState.search + "”", hidden, clear)
    show_all = rx.button("Show all", on_click=RunnersState.filter_by("ALL"), variant="surface", color_scheme="gray")
    none_such = empty("server", "None of your runners is in this state", "The others are behind All.", show_all)
    return rx.cond(
        RunnersState.counts["all"] == 0,
        none_yet,
        rx.cond(RunnersState.search != "", none_called, none_such),
    )


def _pager() -> rx.Component:
    first = RunnersState.page_number * PAGE_SIZE + 1
    last = RunnersState.page_number * PAGE_SIZE + RunnersState.rows.length()
    is_last = last >= RunnersState.match_count
    pages = turns("Previous", "Next", RunnersState.turn_page, is_first=first <= 1, is_last=is_last)
    return rx.cond(
        (RunnersState.match_count > PAGE_SIZE) | (RunnersState.fresh_count > 0),
        rx.el.div(
            rx.el.span(f"{first} to {last} of {RunnersState.match_count}", class_name="num"),
            rx.el.span(class_name="grow"),
            fresh_button(RunnersState.fresh_count, RunnersState.show_fresh),
            rx.cond(RunnersState.match_count > PAGE_SIZE, pages, rx.fragment()),
            class_name="ry-foot",
        ),
        rx.fragment(),
    )


def runners_table() -> rx.Component:
    """The table, or what stands for it while it loads, is empty or failed."""
    heads = [rx.el.th(label, role="columnheader", scope="col", class_name=side) for label, side in HEADS]
    is_waiting = RunnersState.is_loading & (RunnersState.rows.length() == 0)
    rows = rx.cond(is_waiting, skeleton_rows(9), rx.foreach(RunnersState.rows, _record))
    head = rx.el.thead(rx.el.tr(*heads, role="row"))
    table = bare_table("Runners", head, rows, class_name="ry-runners ry-fixed", aria_busy=is_waiting)
    held = holding(table, lambda is_held: RunnersState.hold("runners", is_held))
    has_table = is_waiting | (RunnersState.rows.length() > 0)
    return rx.el.section(
        rx.cond(
            RunnersState.problem != "",
            failed(
                "Runners could not be loaded",
                RunnersState.problem,
                RunnersState.problem_hint,
                RunnersState.load,
            ),
            rx.cond(has_table, rx.fragment(held, _pager()), _nothing()),
        ),
        class_name="ry-panel",
        aria_label="Runners of " + SessionState.org_name,
    )
