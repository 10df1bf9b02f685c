"""The confirmation dialog: the effect in numbers, then the act in its own words."""

import reflex as rx


def confirm(
    *,
    is_open: rx.Var[bool],
    title: rx.Var[str] | str,
    body: rx.Component,
    act: rx.Var[str] | str,
    on_act: rx.event.EventType[()],
    on_close: rx.event.EventType[()],
    is_danger: bool = False,
    is_disabled: rx.Var[bool] | bool = False,
    is_busy: rx.Var[bool] | bool = False,
    keep: str = "Cancel",
) -> rx.Component:
    """Ask before something happens; the button says the act, the other one keeps things as they are."""
    color = {"color_scheme": "red"} if is_danger else {"color_scheme": "gray", "high_contrast": True}
    return rx.alert_dialog.root(
        rx.alert_dialog.content(
            rx.alert_dialog.title(title, size="4"),
            rx.alert_dialog.description(body, size="2", as_="div"),
            rx.el.div(
                rx.alert_dialog.cancel(rx.button(keep, variant="surface", color_scheme="gray", on_click=on_close)),
                rx.button(act, on_click=on_act, disabled=is_disabled, loading=is_busy, **color),
                class_name="ry-acts",
                style={"justify_content": "flex-end", "margin_top": "20px"},
            ),
            max_width="440px",
            on_escape_key_down=on_close,
        ),
        open=is_open,
    )
