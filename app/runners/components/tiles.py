"""The four tiles: figure, how it moved, and the day's curve."""

from typing import Any

import reflex as rx

from app.runners.components.charts import area_chart, bar_spark
from app.runners.state.runners import RunnersState
from app.runners.view.curves import Curve
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
