"""The four tiles: figure, how it moved, and the day's curve."""

from typing import Any

import reflex as rx

from app.runners.state.runners import RunnersState
from app.runners.view.tiles import Curve
from app.ui.controls import icon


def _move(tile: Any, *, has_arrow: bool) -> rx.Component:
    arrow = rx.cond(tile["is_up"], icon("arrow-up", "xs"), icon("arrow-down", "xs")) if has_arrow else rx.fragment()
    tone: Any = rx.cond(tile["is_good"], "good", "bad") if has_arrow else ""
    return rx.cond(tile["move"], rx.el.em(arrow, tile["move"], class_name=tone))


def _tile(title: str, key: str, aside: Any, spark: rx.Component, *, has_arrow: bool = True) -> rx.Component:
    tile = RunnersState.tiles[key]
    return rx.el.div(
        rx.el.h3(title, rx.el.span(aside)),
        rx.el.div(tile["figure"], rx.el.small(tile["unit"]), _move(tile, has_arrow=has_arrow), class_name="ry-fig"),
        spark,
        class_name="ry-tile",
        custom_attrs={"data-tile": key},
    )


def tiles() -> rx.Component:
    """Queue wait, utilisation and throughput of the last 24 hours."""
    wait50, wait95 = RunnersState.tiles["p50"], RunnersState.tiles["p95"]
    used, done = RunnersState.tiles["utilisation"], RunnersState.tiles["throughput"]
    grid = rx.el.div(
        _tile("Queue wait p50", "p50", wait50["aside"], area_chart(wait50["curve"].to(Curve), "spark-p50")),
        _tile("Queue wait p95", "p95", wait95["aside"], area_chart(wait95["curve"].to(Curve), "spark-p95", chart=2)),
        _tile(
            "Utilisation",
            "utilisation",
            used["aside"],
            area_chart(used["curve"].to(Curve), "spark-used"),
            has_arrow=False,
        ),
        _tile("Throughput", "throughput", done["aside"], bar_spark(done["bars"].to(list[float]))),
        class_name="ry-panel ry-tiles",
    )
    return rx.fragment(rx.el.h2("Last 24 hours", class_name="sr"), grid)


def _stroke(path: rx.Var[str], color: str, width: str) -> rx.Component:
    return rx.el.svg.path(
        d=path,
        fill="none",
        stroke=color,
        stroke_width=width,
        stroke_linecap="round",
        vector_effect="non-scaling-stroke",
    )


def area_chart(
    curve: rx.Var[Curve], name: str, *, chart: int = 1, size: tuple[int, int] = (300, 48), class_name: str = "spark"
) -> rx.Component:
    """Draw a line with a soft fill under it, and a dot where there is hardly a line; `name` is unique on the page."""
    color = f"var(--ry-chart-{chart})"
    stops = [
        rx.el.svg.stop(offset="0", style={"stop_color": color, "stop_opacity": "var(--ry-chart-fill)"}),
        rx.el.svg.stop(offset="1", style={"stop_color": color, "stop_opacity": "0"}),
    ]
    return rx.el.svg(
        rx.el.svg.defs(rx.el.svg.linear_gradient(*stops, id=name, x1="0", y1="0", x2="0", y2="1")),
        rx.el.svg.path(d=curve["area"].to(str), fill=f"url(#{name})"),
        _stroke(curve["line"].to(str), color, "1.5"),
        _stroke(curve["dot"].to(str), color, "6"),
        class_name=class_name,
        view_box=f"0 0 {size[0]} {size[1]}",
        preserve_aspect_ratio="none",
        aria_hidden="true",
    )


def _bar(height: rx.Var[float]) -> rx.Component:
    return rx.el.i(style={"height": height.to_string() + "px"})


def bar_spark(heights: rx.Var[list[float]]) -> rx.Component:
    """Draw one bar per hour; the last one is the running hour."""
    return rx.el.div(rx.foreach(heights, _bar), class_name="ry-bars", aria_hidden="true")
