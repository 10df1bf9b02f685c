"""The events page: kind, type, time and words; the table; files."""

from typing import Any

import reflex as rx

from app.events.state import PAGE_SIZE, EventsState
from app.events.view import KINDS, NAMES, SPANS, EventRow
from app.frame.layout import FIGURES, Route, head, page, whole_tabs
from app.ui.controls import choice, dropdown, icon, page_link, plain_button, segments, small_button
from app.ui.elements import DOWNLOAD, clock_seconds
from app.ui.panel import empty, or_problem, skeleton_rows
from app.ui.table import cell, heads, search_box, show_all, table, turns

HEADS = (("Time", "c-m"), ("Event", ""), ("Why", ""), ("Job", ""), ("Runner", "c-l"), ("Who", "hide-m c-l"))


def _subject() -> rx.Component:
    """Show that the address names one runner or job, and link back to all."""
    chip = small_button(
        rx.cond(EventsState.job != "any", "One job", "One runner"),
        icon("x"),
        on_click=EventsState.any_subject,
        radius="full",
        aria_label="Events of all runners and jobs",
    )
    return rx.cond((EventsState.runner != "any") | (EventsState.job != "any"), chip)


def _bar() -> rx.Component:
    words = sorted(((key, said.capitalize()) for key, said in NAMES.items()), key=lambda each: each[1])
    names, spans = {"any": "Any event", **dict(words)}, {key: said for key, (said, _) in SPANS.items()}
    search = search_box(
        "event-search", "Search events", EventsState.search_for, EventsState.clear, value=EventsState.search
    )
    return rx.el.div(
        segments("Events of", KINDS, value=EventsState.kind, on_change=EventsState.choose_kind),
        choice("Event", names, value=EventsState.event, on_change=EventsState.choose_event, width=None),
        choice("Time", spans, value=EventsState.span, on_change=EventsState.choose_span, width=None),
        _subject(),
        rx.el.span(class_name="grow hide-s"),
        search,
        class_name="ry-bar",
    )


def _file(kind: str, label: str) -> rx.Component:
    address = f"/api/events.{kind}" + EventsState.export
    link = rx.el.a(label, href=address, custom_attrs=DOWNLOAD, class_name="ry-menu-link")
    return rx.dropdown_menu.item(link, as_child=True)


def _files() -> rx.Component:
    button = plain_button(icon("download"), "Export")
    ways = (_file("csv", "CSV, for a spreadsheet"), _file("jsonl", "JSON lines, for programs"))
    return dropdown(button, *ways, align="end")


def _link(text: Any, href: Any) -> rx.Component:
    return rx.cond(text != "", rx.cond(href != "", page_link(text, href=href.to(str)), text), "–")


def _of_runner(link: rx.Component) -> rx.Component:
    """A phone's card has one place for what an event is about."""
    return rx.fragment(rx.el.span("–", class_name="hide-s"), rx.el.span(link, class_name="only-s"))


def _row(event: rx.Var[EventRow]) -> rx.Component:
    runner = _link(event["runner"], event["runner_href"])
    return rx.el.tr(
        cell(clock_seconds(event["at"].to(str)), class_name="mut num n-d"),
        cell(event["words"], class_name="n-a"),
        cell(event["reason"], class_name="mut wrap n-c"),
        cell(rx.cond(event["about"] != "", _link(event["about"], event["href"]), _of_runner(runner)), class_name="n-b"),
        cell(runner, class_name="hide-s"),
        cell(event["who"], class_name="mut hide-s hide-m ry-by", title=event["who"]),
        role="row",
        key=event["key"],
        custom_attrs={"data-row": event["key"], "data-event": event["name"]},
    )


def _foot() -> rx.Component:
    first = EventsState.page_number * PAGE_SIZE + 1
    last = EventsState.page_number * PAGE_SIZE + EventsState.rows.length()
    return rx.el.div(
        rx.el.span(f"{first}–{last}, newest first", class_name="num"),
        rx.el.span(class_name="grow"),
        turns("Newer", "Older", EventsState.turn_page, is_first=first <= 1, is_last=~EventsState.has_more),
        class_name="ry-foot",
    )


def _panel() -> rx.Component:
    waiting = EventsState.is_loading & (EventsState.rows.length() == 0)
    rows = rx.cond(waiting, skeleton_rows(HEADS, 8), rx.foreach(EventsState.rows, _row))
    shown = table("Events", heads(*HEADS), rows, is_reached_by_keys=True, aria_busy=waiting)
    clear = show_all(EventsState.clear)
    hidden = empty(
        "search-x",
        "No events match",
        "Others are hidden by the filter, the time or the search.",
        clear,
        test_id="no-events-match",
    )
    quiet = empty("history", "Nothing has happened in this time", "Events of runners and jobs show up here.")
    none = rx.cond(EventsState.is_filtered, hidden, quiet)
    body = rx.cond(waiting | (EventsState.rows.length() > 0), rx.fragment(shown, _foot()), none)
    return rx.el.section(or_problem(EventsState, "Events", body), class_name="ry-panel", aria_label="Events")


def events() -> rx.Component:
    return page(
        head("Events", "What happened to runners and jobs, and why.", _files()),
        whole_tabs("Figures", FIGURES, "Events"),
        _bar(),
        _panel(),
        title="Events",
        active="figures",
        crumbs=FIGURES[:1],
    )


ROUTES = (Route("/dashboard/events", "Events", events, [EventsState.load]),)
