"""The figures page: queue wait, utilisation, throughput and pass rate."""

import reflex as rx

from app.figures.components.charts import share_chart, throughput_chart, wait_chart
from app.figures.state.figures import FiguresState
from app.figures.view.figures import RANGES
from app.frame.layout import FIGURES, Route, head, page, place_tabs
from app.ui.controls import icon, link_button, segments
from app.ui.elements import DOWNLOAD
from app.ui.panel import empty, or_problem

WORDS = {"1h": "1 h", "24h": "24 h", "7d": "7 d"}


def _spans() -> rx.Component:
    words = {span: WORDS[span] for span in RANGES}
    control = segments("Time span", words, value=FiguresState.span, on_change=FiguresState.choose)
    return rx.el.div(control, class_name="ry-bar")


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
        rx.cond(FiguresState.figures["jobs"] == 0, nothing),
    )
    return or_problem(FiguresState, "Figures", charts, is_page=True)


def _csv() -> rx.Component:
    hours = rx.match(FiguresState.span, *[(span, str(number)) for span, number in RANGES.items()], "24").to(str)
    address, attrs = "/api/figures.csv?hours=" + hours, {**DOWNLOAD, "data-testid": "figures-csv"}
    return link_button(icon("download"), "Export CSV", href=address, size="2", attrs=attrs)


def figures() -> rx.Component:
    return page(
        head("Figures", "How long jobs wait, how busy runners are, and how jobs end.", _csv()),
        place_tabs("Figures", FIGURES, "Figures"),
        _spans(),
        _body(),
        title="Figures",
        active="figures",
    )


ROUTES = (Route("/dashboard/figures", "Figures", figures, [FiguresState.load]),)
