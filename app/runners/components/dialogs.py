"""Confirmations of what can be done to a runner, and the new token after a rotation."""

from typing import Any

import reflex as rx

from app.frame.releases.state import ReleaseNotesState
from app.runners.state.actions import OVERLAPS, RunnerActionState
from app.ui.controls import act_button, choice, code_block, copy_button, icon, once_line, segments, small_button
from app.ui.dialog import alert, dialog_acts, question, secret_dialog
from app.ui.elements import doc_link, secret
from app.ui.form.elements import check_field, labelled
from app.ui.panel import notice

State = RunnerActionState
UPDATE_WAYS = {"systemd": "systemd", "Compose": "Compose", "Kubernetes": "Kubernetes"}


def token_warning() -> rx.Component:
    """Explain that it is shown once, and what to do when it is lost."""
    return rx.el.p(
        rx.el.span(icon("triangle-alert"), class_name="t-amb", style={"display": "flex"}),
        rx.el.span(
            "It is shown once and stored only as a hash. If you lose it, create a new one with Rotate token. ",
            doc_link("How tokens are checked", "authentication"),
        ),
        class_name="ry-hint",
        style={"display": "flex", "gap": "6px"},
        custom_attrs={"data-testid": "token-warning"},
    )


def _input(label: Any, on_change: Any, hint: str = "") -> rx.Component:
    return rx.el.div(
        rx.el.label(label, html_for="action-input", class_name="ry-lab"),
        rx.input(
            id="action-input",
            default_value="",
            on_change=on_change.debounce(150),
            # Anyone who clicks a button right after typing leaves the field first: the button must not overtake the text.
            on_blur=on_change,
            auto_complete="off",
        ),
        rx.el.small(hint) if hint else rx.fragment(),
        class_name="ry-f",
    )


def _overlap() -> rx.Component:
    ends = {value: label.capitalize() for value, label in OVERLAPS.items()}
    return labelled(
        "The old token ends",
        choice("The old token ends", ends, value=State.overlap, on_change=State.set_overlap, width=None),
        rx.el.small("Until then both work, so that you can change it without a pause."),
    )


def _question(
    kind: str, title: Any, text: Any, act: str, *fields: rx.Component, is_danger: bool = False, is_disabled: Any = False
) -> rx.Component:
    return question(
        *[rx.el.div(field, class_name="ry-dialog-field") for field in fields],
        is_open=State.kind == kind,
        title=title,
        text=text,
        act=act,
        on_act=State.confirm,
        on_keep=State.close,
        is_danger=is_danger,
        is_disabled=is_disabled,
    )


def _is_unread() -> rx.Var[bool]:
    return (State.breaking.length() > 0) & ~State.has_read


def _breaking(*, is_asked: bool) -> rx.Component:
    """Ask to read the notes of a breaking release before anything is updated past it."""
    first = State.breaking[0].to(str)
    read = small_button("Read the notes", on_click=ReleaseNotesState.show(first))
    versions = rx.foreach(State.breaking, lambda version: rx.el.b(version, " ", key=version))
    words = (versions, "changes something that you may rely on.")
    note = notice(icon("triangle-alert"), *words, tone="orange", beside=(read,))
    box = check_field("I have read the notes", checked=State.has_read, on_change=State.set_read)
    return rx.cond(State.breaking.length() > 0, rx.fragment(note, box if is_asked else rx.fragment()))


def confirmations(outdated: rx.Var[int] | int, latest: rx.Var[str] | str) -> list[rx.Component]:
    name, effect = State.worker_name, State.effect
    is_other = State.typed != name
    reason = _input("Reason", State.set_reason, "Shown beside the status.")
    typed = _input("Type " + name + " to confirm", State.set_typed)
    return [
        _question("drain", "Drain " + name + "?", effect, "Drain", reason),
        _question("disable", "Disable " + name + "?", effect, "Disable"),
        _question(
            "remove", "Remove " + name + "?", effect, "Remove runner", typed, is_danger=True, is_disabled=is_other
        ),
        _question("rotate", "Rotate the token of " + name + "?", effect, "Create a new token", _overlap()),
        _question(
            "update", "Update " + name + "?", effect, "Update", _breaking(is_asked=True), is_disabled=_is_unread()
        ),
        _question("deploy", "Deploy " + name + "?", effect, "Deploy"),
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
    notes = _breaking(is_asked=True)
    return _question("update_all", "Update all?", text, "Update all", notes, is_disabled=_is_unread())


def _update_by_hand() -> rx.Component:
    name = State.worker_name
    inside = (
        _breaking(is_asked=False),
        segments("How it was started", UPDATE_WAYS, value=State.update_way, on_change=State.set_update_way),
        code_block(State.update_commands[State.update_way], "Copy the commands"),
    )
    return alert(
        rx.cond(name != "", "Update " + name + " on its machine", "Update on your machines"),
        rx.cond(State.effect != "", State.effect, "Runners on machines of yours are updated there."),
        *[rx.el.div(each, class_name="ry-dialog-field") for each in inside],
        dialog_acts(act_button("Done", on_click=State.close)),
        is_open=State.kind == "update_by_hand",
        on_escape=State.close,
    )


def _rotated() -> rx.Component:
    owner = State.shown_id
    shown, copy = secret(owner, "%TOKEN%", class_name="ry-whole"), copy_button("%TOKEN%", "Copy the token", owner=owner)
    return secret_dialog(
        rx.el.div(token_warning(), class_name="ry-dialog-field"),
        owner=owner,
        title="Copy the new token now",
        text="Give it to the runner as WORKER_TOKEN and start it again.",
        lines=[once_line("Token", shown, copy)],
        on_close=State.forget,
    )
