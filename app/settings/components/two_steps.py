"""Two-step sign-in on the account's page: devices that make codes, added with a picture, removed with a question."""

from typing import Any

import reflex as rx

from app.settings.state.two_steps import DeviceView, TwoStepsState
from app.ui.controls import act_button, copy_button, icon, once_line, quiet_button, small_button
from app.ui.dialog import alert, cancel, dialog_acts, dialog_input, error_line, secret_dialog
from app.ui.elements import date

State = TwoStepsState
PROBLEM = "two-steps-error"


def line(label: str, value: Any, *acts: rx.Component) -> rx.Component:
    """One fact, with its acts on the right."""
    return rx.el.div(rx.el.b(label), rx.el.div(value), rx.el.span(*acts, class_name="ry-acts"), class_name="ry-kv")


def two_step_lines(is_loading: rx.Var[bool]) -> rx.Component:
    """Whether it is on, then each device."""
    on = rx.el.span(icon("shield-check", class_name="t-grn"), "On", class_name="ry-row c6")
    off = rx.el.span("Off. Protects the account if the password is stolen.", class_name="mut")
    add = small_button(
        rx.cond(State.is_on, "Add device", "Turn on"),
        on_click=State.begin,
        disabled=is_loading,
        custom_attrs={"data-testid": "two-steps-add"},
    )
    return rx.fragment(
        line("Two-step sign-in", rx.cond(State.is_on, on, off), add),
        rx.foreach(State.devices, _device),
        rx.cond(State.is_on, _recovery()),
    )


def _recovery() -> rx.Component:
    left = rx.cond(
        State.codes_left > 0,
        rx.el.span(State.codes_left, " unused", class_name="num"),
        rx.el.span("None. Without your device you could not sign in.", class_name="t-red"),
    )
    renew = small_button("Replace", on_click=State.renew_codes, custom_attrs={"data-testid": "recovery-renew"})
    return line("Recovery codes", left, renew)


def _device(device: rx.Var[DeviceView]) -> rx.Component:
    added = rx.el.span("added ", date(device["created_at"].to(str)), class_name="mut")
    shown = rx.el.span(device["name"], added, class_name="ry-row c6")
    remove = quiet_button(
        "Remove", on_click=State.ask_remove(device["id"].to(str)), aria_label="Remove " + device["name"].to(str)
    )
    return rx.el.div(
        rx.el.b("Device"), rx.el.div(shown), rx.el.span(remove, class_name="ry-acts"), class_name="ry-kv",
        key=device["id"], custom_attrs={"data-testid": "two-steps-device"},
    )  # fmt: skip


def _acts(label: str) -> rx.Component:
    return dialog_acts(cancel(State.close), act_button(label, type="submit"))


def _name_form() -> rx.Component:
    return rx.form(
        dialog_input("two-steps-name", "Device name", placeholder="Phone", max_length=60, auto_focus=True),
        error_line(State.error, PROBLEM),
        _acts("Continue"),
        on_submit=State.add,
    )


def _code_field(words: str) -> rx.Component:
    number: dict[str, Any] = {"class_name": "ry-mono", "custom_attrs": {"inputMode": "numeric"}, "max_length": 10}
    complete = {"required": True, "auto_complete": "one-time-code", "auto_focus": True}
    return dialog_input("two-steps-code", "Code", rx.el.small(words), **complete, **number)


def _code_form() -> rx.Component:
    picture = rx.el.img(src=State.picture, alt="QR code for your authenticator app", width="196", height="196")
    typed = rx.el.div(
        once_line(
            "Key",
            rx.el.span(State.secret, class_name="ry-whole ry-key", custom_attrs={"data-testid": "two-steps-secret"}),
            copy_button(State.secret, "Copy the key"),
        ),
        class_name="ry-code ry-dialog-field",
    )
    return rx.form(
        rx.el.div(picture, class_name="ry-qr"),
        typed,
        _code_field("The six digits the app shows for Runyard."),
        error_line(State.error, PROBLEM),
        _acts("Confirm"),
        on_submit=State.confirm,
    )


def two_step_dialogs() -> list[rx.Component]:
    words = rx.cond(
        State.new_id != "",
        "Scan the QR code with an authenticator app, or enter the key by hand, then enter the code it shows.",
        "An authenticator app, on a phone or in a password manager, generates a code for every sign-in.",
    )
    adding = alert(
        "Add a device",
        words,
        rx.cond(State.new_id != "", _code_form(), _name_form()),
        is_open=State.is_adding,
        on_escape=State.close,
    )
    return [adding, _removing(), _new_codes()]


def _removing() -> rx.Component:
    words = rx.cond(
        State.is_last,
        "It is the last one: two-step sign-in turns off, and your password alone signs you in.",
        "Its codes are no longer accepted. Your other devices stay.",
    )
    proof = rx.cond(State.is_last, _code_field("The six digits that this device shows now."))
    acts = dialog_acts(cancel(State.close), act_button("Remove device", is_danger=True, type="submit"))
    return alert(
        rx.fragment("Remove ", State.removing_name, "?"),
        words,
        rx.form(proof, error_line(State.error, PROBLEM), acts, on_submit=State.remove),
        is_open=State.removing_id != "",
        on_escape=State.close,
    )


def _new_codes() -> rx.Component:
    """The recovery codes, this once."""
    shown = rx.el.ul(
        rx.foreach(State.codes, rx.el.li), class_name="ry-mono ry-codes", custom_attrs={"data-testid": "recovery-codes"}
    )
    return secret_dialog(
        owner=State.codes.join("\n"),
        title="Your recovery codes",
        text="Each signs you in once without your device, and removes your devices. Keep them where the device "
        "is not: they are not shown again.",
        lines=(shown, copy_button(State.codes.join("\n"), "Copy all codes")),
        on_close=State.close,
    )
