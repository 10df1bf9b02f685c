"""The events page: kind, type, time and words; the table; files."""

from typing import Any

import reflex as rx

from app.events.state import EventsState
from app.events.view import KINDS, NAMES, SPANS, EventRow
from app.frame.layout import FIGURES, Route, head, page, whole_tabs
from app.ui.controls import choice, export_menu, icon, page_link, segments, small_button
from app.ui.elements import clock_seconds
from app.ui.panel import empty, or_problem
from app.ui.resource import Column, moment, waiting_table
from app.ui.table import search_box, show_all, turns

Chosen = EventsState.choices


def _subject() -> rx.Component:
    """Show that the address names one runner or job, and link back to all."""
    chip = small_button(
        rx.cond(Chosen.job != "any", "One job", "One runner"),
        icon("x"),
        on_click=EventsState.any_subject,
        radius="full",
        aria_label="Events of all runners and jobs",
    )
    return rx.cond((Chosen.runner != "any") | (Chosen.job != "any"), chip)


def _bar() -> rx.Component:
    words = sorted(((key, said.capitalize()) for key, said in NAMES.items()), key=lambda each: each[1])
    names, spans = {"any": "Any event", **dict(words)}, {key: said for key, (said, _) in SPANS.items()}
    search = search_box("event-search", "Search events", EventsState.search_for, EventsState.clear, value=Chosen.search)
    return rx.el.div(
        segments("Events of", KINDS, value=Chosen.kind, on_change=EventsState.choose_kind),
        choice("Event", names, value=Chosen.event, on_change=EventsState.choose_event, width=None),
        choice("Time", spans, value=Chosen.span, on_change=EventsState.choose_span, width=None),
        _subject(),
        rx.el.span(class_name="grow hide-s"),
        search,
        class_name="ry-bar",
    )


def _link(text: Any, href: Any) -> rx.Component:
    return rx.cond(text != "", rx.cond(href != "", page_link(text, href=href.to(str)), text), "–")


def _runner(event: rx.Var[EventRow]) -> rx.Component:
    return _link(event["runner"], event["runner_href"])


def _about(event: rx.Var[EventRow]) -> rx.Component:
    """The job that it is about, or the runner: a phone's card has one place for both."""
    runner = rx.fragment(rx.el.span("–", class_name="hide-s"), rx.el.span(_runner(event), class_name="only-s"))
    return rx.cond(event["about"] != "", _link(event["about"], event["href"]), runner)


COLUMNS = (
    Column("Time", moment("at", clock_seconds), "mut num n-d c-m"),
    Column("Event", "words", "n-a"),
    Column("Why", "reason", "mut wrap n-c"),
    Column("Job", _about, "n-b"),
    Column("Runner", _runner, "hide-s c-l"),
    Column("Who", "who", "mut hide-s hide-m c-l ry-by", lambda row: {"title": row["who"]}),
)


def _mark(event: rx.Var[EventRow]) -> dict[str, Any]:
    return {"data-row": event["key"], "data-event": event["name"]}


def _foot() -> rx.Component:
    first = EventsState.page_number * EventsState.PAGE_SIZE + 1
    last = first - 1 + EventsState.rows.length()
    return rx.el.div(
        rx.el.span(f"{first}–{last}, newest first", class_name="num"),
        rx.el.span(class_name="grow"),
        turns("Newer", "Older", EventsState.turn_page, is_first=first <= 1, is_last=last >= EventsState.total),
        class_name="ry-foot",
    )


def _panel() -> rx.Component:
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
    rows, look = EventsState.rows, {"is_reached_by_keys": True}
    waiting = EventsState.is_loading & (rows.length() == 0)
    shown = waiting_table(waiting, rows, "Events", COLUMNS, none, mark=_mark, key="key", skeleton=8, look=look)
    body = rx.fragment(shown, rx.cond(rows.length() > 0, _foot()))
    return rx.el.section(or_problem(EventsState, "Events", body), class_name="ry-panel", aria_label="Events")


def events() -> rx.Component:
    return page(
        head("Events", "What happened to runners and jobs, and why.", export_menu("/api/events", EventsState.export)),
        whole_tabs("Figures", FIGURES, "Events"),
        _bar(),
        _panel(),
        title="Events",
        active="figures",
        crumbs=FIGURES[:1],
    )


ROUTES = (Route("/dashboard/events", "Events", events, [EventsState.load]),)
