"""Charts: lines in a stretched picture, text and marks in html, so that nothing is squeezed when it is narrow."""

from typing import Any

import reflex as rx

from app.figures.state.figures import FiguresState
from app.figures.view.charts import Bar, Line, Moment, Tick
from app.figures.view.marks import Mark
from app.ui.controls import icon
from app.ui.elements import date, hour_of_day

# Three lines differ by stroke and end mark as well as by colour.
LINES = {
    "p50": ("var(--ry-chart-1)", "", "ci"),
    "p95": ("var(--orange-9)", "7 4", "sq"),
    "p99": ("var(--green-10)", "2 4", "tr"),
}


def _line(line: Any, colour: str, dashes: str = "") -> rx.Component:
    extra = {"stroke_dasharray": dashes} if dashes else {}
    return rx.el.svg.path(
        d=line["line"].to(str),
        fill="none",
        stroke=colour,
        stroke_width="1.75",
        vector_effect="non-scaling-stroke",
        **extra,
    )


def _area(line: Any, colour: str) -> rx.Component:
    return rx.el.svg.path(d=line["area"].to(str), fill=colour, style={"opacity": ".14"})


def _picture(*paths: rx.Component) -> rx.Component:
    return rx.el.svg(*paths, view_box="0 0 1000 200", preserve_aspect_ratio="none", aria_hidden="true")


def _mark(line: Any, colour: str, shape: str) -> rx.Component:
    at = {"left": line["left"], "top": line["top"], "--c": colour}
    return rx.cond(line["line"] != "", rx.el.i(class_name=f"ry-mk {shape}", style=at))


def _tick(tick: rx.Var[Tick]) -> rx.Component:
    return rx.fragment(
        rx.el.span(tick["text"], class_name="y num", style={"top": tick["top"]}),
        rx.el.span(class_name="ry-grid", style={"top": tick["top"]}),
    )


def _when(at: rx.Var[str]) -> rx.Component:
    return rx.cond(FiguresState.span == "7d", date(at), hour_of_day(at))


def _moment(moment: rx.Var[Moment]) -> rx.Component:
    return rx.el.span(
        _when(moment["at"].to(str)),
        class_name=rx.cond(moment["is_last"], "x num e", rx.cond(moment["is_odd"], "x num odd", "x num")),
        style={"left": moment["left"]},
    )


def _flag(mark: rx.Var[Mark]) -> rx.Component:
    """An outage as a band, a release as a line; both are named under the chart as well."""
    at = {"left": mark["left"]}
    return rx.cond(
        mark["kind"] == "outage",
        rx.el.span(class_name="ry-band", style={**at, "width": mark["width"], "minWidth": "3px"}),
        rx.el.span(class_name="ry-vl", style=at),
    )


def _happened(mark: rx.Var[Mark]) -> rx.Component:
    until = rx.cond(mark["until"] != "", rx.fragment(" to ", _when(mark["until"].to(str))))
    return rx.el.li(
        rx.cond(
            mark["kind"] == "outage",
            icon("triangle-alert", class_name="t-red"),
            icon("circle-arrow-up", class_name="mut"),
        ),
        rx.el.span(
            rx.el.b(mark["title"], ", ", _when(mark["at"].to(str)), until, class_name="ry-medium num"),
            " ",
            rx.el.span(mark["text"], class_name="mut"),
            class_name="grow",
        ),
        rx.el.span("recorded by Runyard", class_name="mut hide-s"),
        custom_attrs={"data-mark": mark["kind"]},
    )


def _marks() -> rx.Component:
    found = FiguresState.figures["marks"].to(list[Mark])
    listed = rx.el.ul(rx.foreach(found, _happened), class_name="ry-list ry-marks", aria_label="Releases and outages")
    return rx.cond(found.length() > 0, listed)


def _plot(chart: Any, *inside: rx.Component, height: str) -> rx.Component:
    return rx.fragment(
        rx.el.div(
            rx.foreach(chart["ticks"].to(list[Tick]), _tick),
            rx.foreach(FiguresState.figures["marks"].to(list[Mark]), _flag),
            *inside,
            rx.foreach(FiguresState.figures["moments"].to(list[Moment]), _moment),
            class_name="ry-plot",
            style={"--h": height},
            aria_hidden="true",
        ),
        rx.el.div(class_name="ry-plotx"),
    )


def _frame(title: str, key: str, *children: rx.Component, aside: rx.Component | None = None) -> rx.Component:
    chart = FiguresState.figures[key]
    headline = rx.el.div(
        rx.el.h2(title),
        rx.el.div(
            chart["figure"], rx.el.small(chart["unit"]), rx.el.em(chart["aside"], class_name="mut"), class_name="ry-fig"
        ),
        class_name="grow",
    )
    return rx.el.section(
        rx.el.header(headline, aside or rx.fragment()),
        *children,
        class_name="ry-panel ry-ch",
        aria_label=title,
        custom_attrs={"data-testid": f"chart-{key}"},
    )


def _key(name: str, line: Any) -> rx.Component:
    colour, dashes, shape = LINES[name]
    sample = rx.el.svg(
        rx.el.svg.path(d="M0 4.5H26", stroke=colour, stroke_width="2", fill="none", stroke_dasharray=dashes),
        class_name="ln",
        view_box="0 0 26 9",
        aria_hidden="true",
    )
    return rx.el.span(
        sample,
        rx.el.i(class_name=f"ry-mk {shape}", style={"--c": colour}),
        name,
        rx.el.b(line["figure"], class_name="num"),
    )


def wait_chart() -> rx.Component:
    """Queue wait: first, and as wide as the page."""
    chart = FiguresState.figures["wait"]
    lines = {name: chart["lines"][name].to(Line) for name in LINES}
    keys = rx.el.div(*[_key(name, line) for name, line in lines.items()], class_name="ry-key fit")
    drawn = [_line(lines[name], colour, dashes) for name, (colour, dashes, _) in LINES.items()]
    marks = [_mark(lines[name], colour, shape) for name, (colour, _, shape) in LINES.items()]
    picture = _picture(_area(lines["p50"], LINES["p50"][0]), *drawn)
    return _frame("Queue wait", "wait", _plot(chart, picture, *marks, height="190px"), _marks(), aside=keys)


def share_chart(title: str, key: str, colour: str, shape: str, *, is_filled: bool) -> rx.Component:
    """A share over time: utilisation, pass rate."""
    chart = FiguresState.figures[key]
    line = chart["lines"]["share"].to(Line)
    picture = _picture(_area(line, colour) if is_filled else rx.fragment(), _line(line, colour))
    return _frame(title, key, _plot(chart, picture, _mark(line, colour, shape), height="120px"))


def _bar(bar: rx.Var[Bar]) -> rx.Component:
    return rx.el.i(style={"height": bar["height"]}, title=bar["title"])


def throughput_chart() -> rx.Component:
    """Jobs that ended, per step."""
    chart = FiguresState.figures["throughput"]
    drawn = rx.el.div(rx.foreach(chart["bars"].to(list[Bar]), _bar), class_name="ry-columns")
    return _frame("Throughput", "throughput", _plot(chart, drawn, height="120px"))
