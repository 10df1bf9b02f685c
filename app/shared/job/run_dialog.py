"""The dialog that asks what to run; destroying asks for the module's name."""

import reflex as rx

from app.shared.icons import icon
from app.shared.job.run_state import TYPES, ModuleChoice, RunState
from app.shared.job.words import TYPE_WORDS


def _field(label: str, control: rx.Component, hint: rx.Component | rx.Var[str] | str = "") -> rx.Component:
    return rx.el.div(rx.el.span(label, class_name="ry-lab"), control, rx.el.small(hint), class_name="ry-f")


def _module_item(module: rx.Var[ModuleChoice]) -> rx.Component:
    return rx.select.item(module["path"], value=module["id"])


def _module() -> rx.Component:
    return _field(
        "Module",
        rx.select.root(
            rx.select.trigger(aria_label="Module", class_name="ry-mono"),
            rx.select.content(rx.foreach(RunState.modules, _module_item)),
            value=RunState.module_id,
            on_change=RunState.set_module,
        ),
    )


def _type() -> rx.Component:
    return _field(
        "Operation",
        rx.select.root(
            rx.select.trigger(aria_label="Operation"),
            rx.select.content(*[rx.select.item(TYPE_WORDS[name], value=name) for name in TYPES]),
            value=RunState.type,
            on_change=RunState.set_type,
        ),
        RunState.effect,
    )


def _typed() -> rx.Component:
    return rx.el.div(
        rx.el.label("Type ", rx.el.span(RunState.name, class_name="ry-mono"), " to confirm", html_for="run-name"),
        rx.input(
            id="run-name",
            value=RunState.typed,
            on_change=RunState.set_typed,
            auto_complete="off",
            custom_attrs={"spellCheck": "false"},
        ),
        class_name="ry-f",
    )


def _approvals() -> rx.Component:
    is_asked = (RunState.approvals > 0) & ((RunState.type == "APPLY") | (RunState.type == "DESTROY"))
    words = rx.cond(RunState.approvals == 1, "1 approval", RunState.approvals.to_string() + " approvals")
    return rx.cond(
        is_asked,
        rx.el.p(icon("hand"), rx.el.span("It waits for ", words, " first."), class_name="ry-row c6"),
        rx.fragment(),
    )


def _title() -> rx.Component:
    words = [(name, TYPE_WORDS[name]) for name in TYPES]
    return rx.cond(
        RunState.has_choice,
        rx.el.span("New job"),
        rx.el.span(rx.match(RunState.type, *words, "Run"), " ", RunState.path, "?"),
    )


def _acts() -> rx.Component:
    is_destroy = RunState.type == "DESTROY"
    go = rx.button(
        icon("play"),
        rx.match(RunState.type, *[(name, TYPE_WORDS[name]) for name in TYPES], "Run"),
        color_scheme="gray",
        high_contrast=True,
        on_click=RunState.confirm,
        disabled=RunState.module_id == "",
    )
    destroy = rx.button(
        "Destroy", color_scheme="red", on_click=RunState.confirm, disabled=RunState.typed != RunState.name
    )
    return rx.el.div(
        rx.button("Cancel", variant="surface", color_scheme="gray", on_click=RunState.close),
        rx.cond(is_destroy, destroy, go),
        class_name="ry-acts ry-dialog-acts",
    )


def _body() -> rx.Component:
    return rx.el.div(
        rx.cond(RunState.has_choice, rx.fragment(_module(), _type()), rx.el.p(RunState.effect)),
        _approvals(),
        rx.cond(RunState.type == "DESTROY", _typed(), rx.fragment()),
        class_name="ry-dialog-body",
    )


def _no_modules() -> rx.Component:
    return rx.el.div(
        rx.el.p("A job runs a module, and there is none yet."),
        rx.el.div(
            rx.button("Cancel", variant="surface", color_scheme="gray", on_click=RunState.close),
            rx.link(
                rx.button("New module", color_scheme="gray", high_contrast=True, on_click=RunState.close),
                href="/dashboard/modules?new=1",
            ),
            class_name="ry-acts ry-dialog-acts",
        ),
        class_name="mut",
    )


def run_dialog() -> rx.Component:
    """Ask what to run, with what it would do."""
    return rx.alert_dialog.root(
        rx.alert_dialog.content(
            rx.alert_dialog.title(_title(), size="4", margin_bottom="6px"),
            rx.alert_dialog.description("What a job would do, before it is queued.", class_name="sr"),
            rx.cond(RunState.modules.length() > 0, rx.fragment(_body(), _acts()), _no_modules()),
            max_width="440px",
            on_escape_key_down=RunState.close,
        ),
        open=RunState.is_open,
    )
