"""Confirmations of what can be done to a runner, and the new token after a rotation."""

from typing import Any

import reflex as rx

from app.shared.copy import code_block, copy_button
from app.shared.elements import secret
from app.shared.form.elements import check_field
from app.shared.icons import icon
from app.shared.runner.actions import OVERLAPS, RunnerActionState
from app.shared.runner.release_notes_state import ReleaseNotesState
from app.shared.runner.token import token_warning

State = RunnerActionState
UPDATE_WAYS = ("systemd", "Compose", "Kubernetes")


def _input(label: Any, value: Any, on_change: Any, hint: str = "") -> rx.Component:
    return rx.el.div(
        rx.el.label(label, html_for="action-input", class_name="ry-lab"),
        rx.input(
            id="action-input",
            default_value=value,
            on_change=on_change.debounce(150),
            # Anyone who clicks a button right after typing leaves the field first: the button must not overtake the text.
            on_blur=on_change,
            auto_complete="off",
        ),
        rx.el.small(hint) if hint else rx.fragment(),
        class_name="ry-f",
    )


def _reason() -> rx.Component:
    return _input("Reason", "", State.set_reason, "Shown beside the status.")


def _typed() -> rx.Component:
    return _input("Type " + State.worker_name + " to confirm", "", State.set_typed)


def _overlap() -> rx.Component:
    items = [rx.select.item(label.capitalize(), value=value) for value, label in OVERLAPS.items()]
    return rx.el.div(
        rx.el.span("The old token ends", class_name="ry-lab"),
        rx.select.root(
            rx.select.trigger(aria_label="The old token ends"),
            rx.select.content(*items),
            value=State.overlap,
            on_change=State.set_overlap,
        ),
        rx.el.small("Until then both work, so that you can change it without a pause."),
        class_name="ry-f",
    )


def _buttons(act: str, *, is_danger: bool = False, is_disabled: Any = False, keep: str = "Cancel") -> rx.Component:
    color: dict[str, Any] = {"color_scheme": "red"} if is_danger else {"color_scheme": "gray", "high_contrast": True}
    return rx.el.div(
        rx.button(keep, on_click=State.close, variant="surface", color_scheme="gray"),
        rx.button(act, on_click=State.confirm, disabled=is_disabled, **color),
        class_name="ry-acts ry-dialog-acts",
    )


def _question(kind: str, title: Any, text: Any, buttons: rx.Component, *fields: rx.Component) -> rx.Component:
    return rx.alert_dialog.root(
        rx.alert_dialog.content(
            rx.alert_dialog.title(title, size="4", margin_bottom="6px"),
            rx.alert_dialog.description(text, size="2", class_name="mut"),
            *[rx.el.div(field, class_name="ry-dialog-field") for field in fields],
            buttons,
            max_width="440px",
            on_escape_key_down=State.close,
        ),
        open=State.kind == kind,
    )


def _is_unread() -> rx.Var[bool]:
    return (State.breaking.length() > 0) & ~State.has_read


def _breaking(*, is_asked: bool) -> rx.Component:
    """Ask to read the notes of a breaking release before anything is updated past it."""
    first = State.breaking[0].to(str)
    read = rx.button(
        "Read the notes", on_click=ReleaseNotesState.show(first), variant="surface", color_scheme="gray", size="1"
    )
    words = rx.el.p(
        rx.foreach(State.breaking, lambda version: rx.el.b(version, " ", key=version)),
        "changes something that you may rely on.",
    )
    note = rx.el.div(
        icon("triangle-alert"), words, read, class_name="ry-note", custom_attrs={"data-accent-color": "orange"}
    )
    box = check_field("I have read the notes", checked=State.has_read, on_change=State.set_read)
    return rx.cond(State.breaking.length() > 0, rx.fragment(note, box if is_asked else rx.fragment()), rx.fragment())


def confirmations(outdated: rx.Var[int] | int, latest: rx.Var[str] | str) -> list[rx.Component]:
    """Every confirmation about runners; at most one is open."""
    name = State.worker_name
    remove = _buttons("Remove runner", is_danger=True, is_disabled=State.typed != name)
    update = _buttons("Update", keep="Cancel", is_disabled=_is_unread())
    rotate = _buttons("Create a new token", keep="Cancel")
    return [
        _question("drain", "Drain " + name + "?", State.effect, _buttons("Drain"), _reason()),
        _question("disable", "Disable " + name + "?", State.effect, _buttons("Disable", keep="Cancel")),
        _question("remove", "Remove " + name + "?", State.effect, remove, _typed()),
        _question("rotate", "Rotate the token of " + name + "?", State.effect, rotate, _overlap()),
        _question("update", "Update " + name + "?", State.effect, update, _breaking(is_asked=True)),
        _question("deploy", "Deploy " + name + "?", State.effect, _buttons("Deploy", keep="Cancel")),
        _update_all(outdated, latest),
        _update_by_hand(),
        _rotated(),
    ]


def _update_all(outdated: rx.Var[int] | int, latest: rx.Var[str] | str) -> rx.Component:
    many = f"{outdated} runners that were deployed from here, or update themselves, are"
    text = rx.el.span(
        rx.cond(outdated == 1, "1 runner that was deployed from here, or updates itself, is", many),
        " older than ",
        latest,
        ". One goes first; when it is back, the others follow in waves. Each finishes its jobs first.",
    )
    buttons = _buttons("Update all", keep="Cancel", is_disabled=_is_unread())
    return _question("update_all", "Update all?", text, buttons, _breaking(is_asked=True))


def _update_by_hand() -> rx.Component:
    name = State.worker_name
    done = rx.el.div(
        rx.button("Done", on_click=State.close, color_scheme="gray", high_contrast=True),
        class_name="ry-acts ry-dialog-acts",
    )
    return _question(
        "update_by_hand",
        rx.cond(name != "", "Update " + name + " on its machine", "Update on your machines"),
        rx.cond(State.effect != "", State.effect, "Runners on machines of yours are updated there."),
        done,
        _breaking(is_asked=False),
        rx.segmented_control.root(
            *[rx.segmented_control.item(way, value=way) for way in UPDATE_WAYS],
            value=State.update_way,
            on_change=State.set_update_way,
            aria_label="How it was started",
        ),
        code_block(State.update_commands[State.update_way], "Copy the commands"),
    )


def _rotated() -> rx.Component:
    owner = State.rotated_id
    return rx.alert_dialog.root(
        rx.alert_dialog.content(
            rx.alert_dialog.title("Copy the new token now", size="4", margin_bottom="6px"),
            rx.alert_dialog.description(
                "Give it to the runner as WORKER_TOKEN and start it again.", size="2", class_name="mut"
            ),
            rx.el.div(
                rx.el.div(
                    rx.el.span("Token", class_name="k"),
                    secret(owner, "%TOKEN%", class_name="ry-whole"),
                    copy_button("%TOKEN%", "Copy the token", owner=owner),
                    class_name="ry-sec1",
                ),
                class_name="ry-code ry-dialog-field",
            ),
            rx.el.div(token_warning(), class_name="ry-dialog-field"),
            rx.el.div(
                rx.button(icon("check"), "Done", on_click=State.forget_token, color_scheme="gray", high_contrast=True),
                class_name="ry-acts ry-dialog-acts",
            ),
            max_width="560px",
        ),
        open=owner != "",
    )
