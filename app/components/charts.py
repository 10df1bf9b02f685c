"""Sparklines: plain SVG drawn from paths that the server makes; no axis, no animation."""

import reflex as rx


def area_spark(path: rx.Var[str], chart: int, name: str) -> rx.Component:
    """Draw a line with a soft fill under it; `path` is the line's SVG path in 300 by 48."""
    color = f"var(--ry-chart-{chart})"
    gradient = rx.el.svg.linear_gradient(
        rx.el.svg.stop(offset="0", style={"stop_color": color, "stop_opacity": "var(--ry-chart-fill)"}),
        rx.el.svg.stop(offset="1", style={"stop_color": color, "stop_opacity": "0"}),
        id=name,
        x1="0",
        y1="0",
        x2="0",
        y2="1",
    )
    return rx.el.svg(
        rx.el.svg.defs(gradient),
        rx.el.svg.path(d=rx.cond(path, path + "L300 48L0 48Z", "M0 48"), fill=f"url(#{name})"),
        rx.el.svg.path(
            d=rx.cond(path, path, "M0 48"),
            fill="none",
            stroke=color,
            stroke_width="1.5",
            vector_effect="non-scaling-stroke",
        ),
        class_name="spark",
        view_box="0 0 300 48",
        preserve_aspect_ratio="none",
        aria_hidden="true",
    )


def _bar(height: rx.Var[float]) -> rx.Component:
    return rx.el.i(style={"height": height.to_string() + "px"})


def bar_spark(heights: rx.Var[list[float]]) -> rx.Component:
    """Draw one bar per hour; the last one is the running hour."""
    return rx.el.div(rx.foreach(heights, _bar), class_name="ry-bars", aria_hidden="true")
