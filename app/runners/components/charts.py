"""Charts: plain SVG drawn from paths that the server makes; no axis, no animation."""

import reflex as rx

from app.runners.view.curves import Curve


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
