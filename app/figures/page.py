"""The figures page: queue wait, utilisation, throughput, pass rate, and where jobs wait longest."""

from typing import Any

import reflex as rx

from app.figures.components.charts import share_chart, throughput_chart, wait_chart
from app.figures.state.figures import FiguresState
from app.figures.view.figures import FEW_PARTS, RANGES, Part, Said
from app.frame.layout import head, page
from app.frame.route import Route
from app.ui.elements import DOWNLOAD
from app.ui.feedback import empty, failed
from app.ui.icons import icon
from app.ui.panel import link_button
from app.ui.table import cell, heads, more_button, table

WORDS = {"1h": "1 h", "24h": "24 h", "7d": "7 d"}


def _spans() -> rx.Component:
    items = [rx.segmented_control.item(WORDS[span], value=span) for span in RANGES]
    control = rx.segmented_control.root(
        *items, value=FiguresState.span, on_change=FiguresState.choose, aria_label="Time span"
    )
    return rx.el.div(control, class_name="ry-bar")


def _spark(line: rx.Var[str]) -> rx.Component:
    path = rx.el.svg.path(
        d=line, fill="none", stroke="var(--ry-chart-1)", stroke_width="1.5", vector_effect="non-scaling-stroke"
    )
    return rx.el.svg(
        path, view_box="0 -10 1000 220", preserve_aspect_ratio="none", class_name="ry-sp", aria_hidden="true"
    )


def _part(part: rx.Var[Part]) -> rx.Component:
    name = rx.cond(part["href"] != "", rx.link(part["name"], href=part["href"].to(str)), part["name"])
    meter = rx.el.span(rx.el.i(style={"width": part["width"]}), class_name="ry-meter", aria_hidden="true")
    return rx.el.tr(
        cell(name, class_name="n-a ry-mono"),
        cell(part["p95"], class_name="r num n-b"),
        cell(rx.el.span(meter, rx.el.span(part["busy"], class_name="mut num"), class_name="ry-row"), class_name="n-c"),
        cell(part["passed"], class_name=rx.cond(part["is_low"], "r num t-red n-d", "r num n-d")),
        cell(_spark(part["line"].to(str)), class_name="r hide-s"),
        role="row",
    )


def _parts(title: str, label: str, rows: Any, said: rx.Var[Said]) -> rx.Component:
    columns = heads((label, ""), ("Wait p95", "r"), ("Busy", ""), ("Pass rate", "r"), ("Mean wait", "r"))
    found = rows.to(list[Part])
    body = rx.foreach(found, lambda part: rx.cond(FiguresState.is_all | ~part["is_more"].to(bool), _part(part), ""))
    more = more_button(FiguresState.is_all, FiguresState.show_all)
    return rx.el.section(
        rx.el.div(
            rx.el.h2(title),
            rx.el.span(class_name="grow"),
            rx.el.span(
                rx.cond(FiguresState.span == "7d", "last 24 hours, ", ""), "longest wait first", class_name="mut"
            ),
            class_name="ry-ph",
        ),
        table(title, columns, body, is_reached_by_keys=True),
        rx.el.div(
            rx.el.span(rx.cond(FiguresState.is_all, said["every"], said["few"]), class_name="num"),
            rx.el.span(class_name="grow"),
            rx.cond(found.length() > FEW_PARTS, more, rx.fragment()),
            class_name="ry-foot",
        ),
        class_name="ry-panel",
        aria_label=title,
    )


def _tables() -> rx.Component:
    figures = FiguresState.figures
    return rx.el.div(
        _parts("By runner", "Runner", figures["runners"], figures["runners_said"]),
        _parts("By group", "Group", figures["groups"], figures["groups_said"]),
        class_name="ry-halves",
    )


def _body() -> rx.Component:
    nothing = rx.el.section(
        empty("chart-line", "No job ended in this time", "Figures are drawn from jobs that have ended."),
        class_name="ry-panel",
    )
    charts = rx.fragment(
        wait_chart(),
        rx.el.div(
            share_chart("Utilisation", "utilisation", "var(--ry-chart-1)", "ci", is_filled=True),
            throughput_chart(),
            share_chart("Pass rate", "passed", "var(--green-10)", "tr", is_filled=False),
            class_name="ry-charts",
        ),
        rx.cond(FiguresState.figures["jobs"] > 0, _tables(), nothing),
    )
    problem = failed("Figures could not be loaded", FiguresState.problem, FiguresState.problem_hint, FiguresState.load)
    return rx.cond(FiguresState.problem != "", rx.el.section(problem, class_name="ry-panel"), charts)


def _csv() -> rx.Component:
    hours = rx.match(FiguresState.span, *[(span, str(number)) for span, number in RANGES.items()], "24").to(str)
    address, attrs = "/api/figures.csv?hours=" + hours, {**DOWNLOAD, "data-testid": "figures-csv"}
    return link_button(icon("download"), "Export CSV", href=address, size="2", attrs=attrs)


def figures() -> rx.Component:
    """The figures page."""
    return page(
        head("Figures", "How long jobs wait, how busy runners are, and how jobs end.", _csv()),
        _spans(),
        _body(),
        title="Figures",
        active="figures",
    )


ROUTES = (Route("/dashboard/figures", "Figures", figures, [FiguresState.load]),)
