"""Two-step sign-in on the account's page: devices that make codes, added with a picture, removed with a question."""

from typing import Any

import reflex as rx

from app.settings.state.two_steps import DeviceView, TwoStepsState
from app.ui.copy import copy_button
from app.ui.dialog import act_button, alert, cancel, dialog_acts, question
from app.ui.elements import date
from app.ui.icons import icon

State = TwoStepsState


def line(label: str, value: Any, *acts: rx.Component) -> rx.Component:
    """One fact, with its acts on the right."""
    return rx.el.div(rx.el.b(label), rx.el.div(value), rx.el.span(*acts, class_name="ry-acts"), class_name="ry-kv")


def _button(label: Any, on_click: Any, **props: Any) -> rx.Component:
    return rx.button(label, on_click=on_click, size="1", variant="surface", color_scheme="gray", **props)


def two_step_lines(is_loading: rx.Var[bool]) -> rx.Component:
    """Whether it is on, then each device."""
    on = rx.el.span(icon("shield-check", class_name="t-grn"), "On", class_name="ry-row c6")
    off = rx.el.span("Off. When it is on, a stolen password alone opens nothing.", class_name="mut")
    add = _button(
        rx.cond(State.is_on, "Add device", "Turn on"),
        State.begin,
        disabled=is_loading,
        custom_attrs={"data-testid": "two-steps-add"},
    )
    return rx.fragment(line("Two-step sign-in", rx.cond(State.is_on, on, off), add), rx.foreach(State.devices, _device))


def _device(device: rx.Var[DeviceView]) -> rx.Component:
    added = rx.el.span("added ", date(device["created_at"].to(str)), class_name="mut")
    shown = rx.el.span(device["name"], added, class_name="ry-row c6")
    remove = rx.button(
        "Remove",
        on_click=State.ask_remove(device["id"].to(str)),
        size="1",
        variant="ghost",
        color_scheme="gray",
        aria_label="Remove " + device["name"].to(str),
    )
    return rx.el.div(
        rx.el.b("Device"), rx.el.div(shown), rx.el.span(remove, class_name="ry-acts"), class_name="ry-kv",
        key=device["id"], custom_attrs={"data-testid": "two-steps-device"},
    )  # fmt: skip


def _problem() -> rx.Component:
    said = rx.el.p(State.error, class_name="t-red sm", role="alert", custom_attrs={"data-testid": "two-steps-error"})
    return rx.cond(State.error != "", said, rx.fragment())


def _acts(label: str) -> rx.Component:
    return dialog_acts(cancel(State.close), act_button(label, type="submit"))


def _name_form() -> rx.Component:
    return rx.form(
        rx.el.div(
            rx.el.label("Device name", html_for="two-steps-name"),
            rx.input(id="two-steps-name", name="name", placeholder="Phone", max_length=60, auto_focus=True),
            class_name="ry-f ry-dialog-field",
        ),
        _problem(),
        _acts("Continue"),
        on_submit=State.add,
    )


def _code_form() -> rx.Component:
    picture = rx.el.img(src=State.picture, alt="QR code for your authenticator app", width="196", height="196")
    typed = rx.el.div(
        rx.el.div(
            rx.el.span("Key", class_name="k"),
            rx.el.span(State.secret, class_name="ry-el", custom_attrs={"data-testid": "two-steps-secret"}),
            copy_button(State.secret, "Copy the key"),
            class_name="ry-sec1",
        ),
        class_name="ry-code ry-dialog-field",
    )
    return rx.form(
        rx.el.div(picture, class_name="ry-qr"),
        typed,
        rx.el.div(
            rx.el.label("Code", html_for="two-steps-code"),
            rx.input(
                id="two-steps-code",
                name="code",
                required=True,
                auto_complete="one-time-code",
                auto_focus=True,
                max_length=10,
                class_name="ry-mono",
                custom_attrs={"inputMode": "numeric"},
            ),
            rx.el.small("The six digits the app shows for Runyard."),
            class_name="ry-f ry-dialog-field",
        ),
        _problem(),
        _acts("Confirm"),
        on_submit=State.confirm,
    )


def two_step_dialogs() -> list[rx.Component]:
    """Add a device, in two steps of its own; remove one."""
    words = rx.cond(
        State.new_id != "",
        "Scan the QR code with an authenticator app, or enter the key by hand, then enter the code it shows.",
        "An authenticator app, on a phone or in a password manager, makes a code for every sign-in.",
    )
    adding = alert(
        "Add a device",
        words,
        rx.cond(State.new_id != "", _code_form(), _name_form()),
        is_open=State.is_adding,
        on_escape=State.close,
    )
    removing = question(
        is_open=State.removing_id != "",
        title=rx.fragment("Remove ", State.removing_name, "?"),
        text=rx.cond(
            State.devices.length() > 1,
            "Its codes are no longer accepted. Your other devices stay.",
            "It is the last one: two-step sign-in turns off, and your password alone signs you in.",
        ),
        act="Remove device",
        on_act=State.remove,
        on_keep=State.close,
    )
    return [adding, removing]
