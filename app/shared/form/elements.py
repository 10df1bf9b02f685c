"""Forms and questions in dialogs."""

from collections.abc import Sequence
from typing import Any

import reflex as rx

from app.shared.icons import icon


def problem_line(key: Any, words: Any) -> rx.Component:
    """What is wrong with a field, read out as it appears."""
    return rx.el.small(
        icon("circle-alert"), words, class_name="err", role="alert", custom_attrs={"data-testid": f"error-{key}"}
    )


def field(key: str, label: str, control: rx.Component, errors: Any, hint: Any = "") -> rx.Component:
    """A field with its hint, or with what is wrong."""
    problem = problem_line(key, errors[key])
    return rx.el.div(
        rx.el.label(label, html_for=f"s-{key}"),
        control,
        rx.cond(errors.contains(key), problem, rx.el.small(hint, custom_attrs={"data-testid": f"hint-{key}"})),
        class_name="ry-f",
    )


def text_field(key: str, label: str, value: Any, errors: Any, hint: Any = "", **props: Any) -> rx.Component:
    """A line of text."""
    control = rx.input(
        id=f"s-{key}",
        name=key,
        default_value=value,
        auto_complete="off",
        color_scheme=rx.cond(errors.contains(key), "red", "indigo"),
        custom_attrs={"spellCheck": "false"},
        **props,
    )
    return field(key, label, control, errors, hint)


def _leave(state: Any) -> rx.Component:
    leave = state.set_open(False)
    return rx.button("Cancel", type="button", on_click=leave, variant="surface", color_scheme="gray")


def form_dialog(state: Any, what: str, text: Any, fields: Sequence[rx.Component]) -> rx.Component:
    """The form of an ItemForm in a dialog; Escape and Cancel close it without saving."""
    title = rx.cond(state.is_new, f"Add a {what}", "Edit " + state.chosen["name"].to(str))
    save = rx.button(rx.cond(state.is_new, "Add", "Save"), type="submit", color_scheme="gray", high_contrast=True)
    form = rx.form(
        *fields,
        rx.el.div(_leave(state), save, class_name="ry-acts ry-dialog-acts"),
        on_submit=state.save,
        class_name="ry-dialog-form",
        key=state.revision.to_string(),
    )
    return rx.dialog.root(
        rx.dialog.content(
            rx.dialog.title(title, size="4", margin_bottom="6px"),
            rx.dialog.description(text, size="2", class_name="mut"),
            form,
            max_width="520px",
        ),
        open=state.is_open,
        on_open_change=state.set_open,
    )


def question(
    *, is_open: Any, title: Any, text: Any, act: str, on_act: Any, on_keep: Any, is_danger: bool = True
) -> rx.Component:
    """Ask before something is done."""
    color: dict[str, Any] = {"color_scheme": "red"} if is_danger else {"color_scheme": "gray", "high_contrast": True}
    return rx.alert_dialog.root(
        rx.alert_dialog.content(
            rx.alert_dialog.title(title, size="4", margin_bottom="6px"),
            rx.alert_dialog.description(text, size="2", class_name="mut"),
            rx.el.div(
                rx.button("Cancel", on_click=on_keep, variant="surface", color_scheme="gray"),
                rx.button(act, on_click=on_act, **color),
                class_name="ry-acts ry-dialog-acts",
            ),
            max_width="440px",
            on_escape_key_down=on_keep,
        ),
        open=is_open,
    )


def secret_dialog(*, owner: Any, title: str, text: Any, lines: Sequence[rx.Component], on_close: Any) -> rx.Component:
    """Show something once; it closes by its own button only."""
    return rx.alert_dialog.root(
        rx.alert_dialog.content(
            rx.alert_dialog.title(title, size="4", margin_bottom="6px"),
            rx.alert_dialog.description(text, size="2", class_name="mut"),
            rx.el.div(*lines, class_name="ry-code ry-dialog-field"),
            rx.el.div(
                rx.button(icon("check"), "Done", on_click=on_close, color_scheme="gray", high_contrast=True),
                class_name="ry-acts ry-dialog-acts",
            ),
            max_width="560px",
        ),
        open=owner != "",
    )


def check_field(label: str, **props: Any) -> rx.Component:
    """A checkbox and its words, which are its name for a screen reader, too: a label around a button is not."""
    return rx.el.label(rx.checkbox(aria_label=label, **props), label, class_name="ry-row c6 ry-check")
