"""The card of the pages outside the frame, the mark above it, and the tracks behind it: the product's only ornament."""

from typing import Any

import reflex as rx

from app.ui.controls import act_button

LINES = (724, 752, 780, 808, 836, 864)
SWITCHES = (
    "M180 724c40 0 50 28 90 28",
    "M360 752c40 0 50 28 90 28",
    "M620 780c40 0 50 -28 90 -28",
    "M240 808c40 0 50 28 90 28",
    "M520 836c40 0 50 28 90 28",
    "M860 864c40 0 50 -28 90 -28",
    "M940 780c40 0 50 28 90 28",
    "M1080 752c40 0 50 -28 90 -28",
    "M1120 864c40 0 50 -28 90 -28",
    "M1240 836c40 0 50 -28 90 -28",
)
SIGNALS = (
    (180, 724, "green"),
    (620, 780, "green"),
    (240, 808, "amber"),
    (940, 780, "green"),
    (1120, 864, "red"),
    (860, 864, "green"),
    (1240, 836, "green"),
)


def logo() -> rx.Component:
    lines = ("M6 17.5h12", "M6 12h4.2c3.4 0 3.6-5.5 7.8-5.5")
    return rx.el.span(
        rx.el.svg(
            rx.el.svg.rect(width="24", height="24", rx="6", fill="currentColor"),
            rx.el.svg.g(
                *[rx.el.svg.path(d=line) for line in lines],
                rx.el.svg.path(d="M12.8 12H18", opacity=".55"),
                fill="none",
                stroke="var(--ry-page)",
                stroke_width="2",
                stroke_linecap="round",
            ),
            view_box="0 0 24 24",
            aria_hidden="true",
        ),
        "Runyard",
        class_name="ry-logo",
        style={"font_size": "17px"},
    )


def yard() -> rx.Component:
    tracks = [rx.el.svg.path(d=f"M-20 {y}H1460") for y in LINES]
    switches = [rx.el.svg.path(d=switch) for switch in SWITCHES]
    signals = [
        rx.el.svg.circle(cx=str(x), cy=str(y), r="4", style={"fill": f"var(--{color}-9)"}) for x, y, color in SIGNALS
    ]
    return rx.el.svg(
        rx.el.svg.g(*tracks, *switches, fill="none", stroke="currentColor", stroke_width="1.5"),
        *signals,
        class_name="ry-yard",
        view_box="0 0 1440 900",
        preserve_aspect_ratio="xMidYMax slice",
        aria_hidden="true",
    )


def card(
    title: str, text: rx.Var[str] | str, *content: rx.Component, below: rx.Component | None = None
) -> rx.Component:
    """Put one form on the page, and at most one line below it."""
    return rx.el.main(
        yard(),
        rx.el.div(
            rx.el.div(logo(), class_name="ry-brand"),
            rx.el.section(
                rx.el.div(
                    rx.el.h1(title, class_name="ry-h1"),
                    *([rx.el.p(text, class_name="mut")] if isinstance(text, rx.Var) or text else []),
                ),
                *content,
                class_name="ry-panel ry-card",
            ),
            below or rx.fragment(),
            class_name="ry-lc",
        ),
        class_name="ry-login",
    )


def line_below(text: str, link: rx.Component) -> rx.Component:
    """One sentence with one link."""
    return rx.el.p(text, " ", link, class_name="mut ry-under")


def submit(label: str, **props: Any) -> rx.Component:
    return act_button(label, type="submit", width="100%", **props)
