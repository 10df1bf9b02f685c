"""The fields of forms, and forms in dialogs."""

from collections.abc import Mapping, Sequence
from typing import Any

import reflex as rx

from app.ui.controls import act_button, choice, icon
from app.ui.dialog import cancel, dialog, dialog_acts


def problem_line(key: Any, words: Any) -> rx.Component:
    """The line with a field's problem, read out as it appears; a node of its own, by which the browser finds it (dialogs.js)."""
    name = f"error-{key}"
    attrs = {"data-testid": name}
    return rx.el.small(icon("circle-alert"), words, class_name="err", role="alert", key=name, custom_attrs=attrs)


def labelled(label: Any, *inside: Any) -> rx.Component:
    """A part of a form whose label belongs to no single input."""
    return rx.el.div(rx.el.span(label, class_name="ry-lab"), *inside, class_name="ry-f")


def field(key: str, label: str, control: rx.Component, errors: Any, hint: Any = "") -> rx.Component:
    """A field with its hint, or with what is wrong."""
    problem = problem_line(key, errors[key])
    return rx.el.div(
        rx.el.label(label, html_for=f"s-{key}"),
        control,
        rx.cond(errors.contains(key), problem, rx.el.small(hint, custom_attrs={"data-testid": f"hint-{key}"})),
        class_name="ry-f",
    )


def exact_input(**props: Any) -> rx.Component:
    """A line of code or a name: nothing is suggested, and no spelling is checked."""
    return rx.input(**{"auto_complete": "off", "custom_attrs": {"spellCheck": "false"}, **props})


def text_field(key: str, label: str, value: Any, errors: Any, hint: Any = "", **props: Any) -> rx.Component:
    control = exact_input(
        # Joined: Reflex would make a ref of formatted text, named after a hash that differs from build to build.
        id="s-" + key,
        name=key,
        default_value=value,
        color_scheme=rx.cond(errors.contains(key), "red", "indigo"),
        **props,
    )
    return field(key, label, control, errors, hint)


class Fields:
    """The fields of an ItemForm: each has the chosen item's value, and shows what is wrong with it."""

    def __init__(self, state: Any) -> None:
        """Keep whose fields they are."""
        self.state = state

    def text(self, key: str, label: str, hint: Any = "", *, value: str = "", **props: Any) -> rx.Component:
        """A line of text; `value` names the item's field where it is called otherwise."""
        return text_field(key, label, self.state.chosen[value or key], self.state.errors, hint, **props)

    def area(self, key: str, label: str, hint: Any = "", *, value: str = "", **props: Any) -> rx.Component:
        """Lines of text."""
        area = text_area(key, self.state.chosen[value or key], **props)
        return field(key, label, area, self.state.errors, hint)

    def choice(self, key: str, label: str, options: Mapping[str, str], hint: Any = "", **props: Any) -> rx.Component:
        """One of a few; the state keeps which, and `set_<key>` takes another one."""
        state = self.state
        chosen = {"value": getattr(state, key), "on_change": getattr(state, f"set_{key}"), **props}
        return field(key, label, choice(label, options, key="s-" + key, **chosen), state.errors, hint)

    def secret(self, key: str, label: str, hint: Any, is_kept: Any, *, none: str) -> rx.Component:
        """A write-only line: an empty one keeps the present secret, if any."""
        control = rx.input(
            id="s-" + key,
            name=key,
            type="password",
            placeholder=rx.cond(is_kept, "Leave empty to keep it", f"Leave empty {none}"),
            auto_complete="new-password",
        )
        return field(key, label, control, self.state.errors, hint)


def text_area(key: str, value: Any, *, rows: str = "4", class_name: str = "ry-mono", **props: Any) -> rx.Component:
    """Lines of text, without label and hint."""
    attrs = {"spellCheck": "false"}
    return rx.text_area(
        id="s-" + key, name=key, default_value=value, rows=rows, class_name=class_name, custom_attrs=attrs, **props
    )


def form_dialog(state: Any, add: str, text: Any, fields: Sequence[rx.Component]) -> rx.Component:
    """The form of an ItemForm in a dialog, in the words of the button that opens it."""
    title = rx.cond(state.is_new, add, "Edit " + state.chosen["name"].to(str))
    return dialog_form(state, title, text, fields, act=rx.cond(state.is_new, add, "Save"))


def dialog_form(
    state: Any, title: Any, text: Any, fields: Sequence[rx.Component], *, act: Any = "Save"
) -> rx.Component:
    """A form in a dialog; Escape and Cancel close it without saving."""
    form = rx.form(
        *fields,
        dialog_acts(cancel(state.set_open(False)), act_button(act, type="submit")),
        on_submit=state.save,
        class_name="ry-dialog-form",
        key=state.revision.to_string(),
    )
    return dialog(title, text, form, is_open=state.is_open, on_open_change=state.set_open)


def check_field(label: str, **props: Any) -> rx.Component:
    """A checkbox and its words, which are its name for a screen reader, too: a label around a button is not."""
    return rx.el.label(rx.checkbox(aria_label=label, **props), label, class_name="ry-row c6 ry-check")
