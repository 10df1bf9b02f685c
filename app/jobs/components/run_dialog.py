"""The dialog that asks what to run; destroying asks for the module's name."""

import reflex as rx

from app.jobs.state.run import PRIORITIES, TYPES, RunState
from app.ui.controls import act_button, choice, icon, offered, page_link, quiet_button
from app.ui.dialog import cancel, dialog_acts, typed_field
from app.ui.form.elements import exact_input, labelled
from app.ui.panel import notice
from app.ui.view import TYPE_WORDS

# So many modules are found without a filter.
FEW = 10


def _field(label: str, control: rx.Component, hint: rx.Component | rx.Var[str] | str = "") -> rx.Component:
    return labelled(label, control, rx.el.small(hint))


def _module() -> rx.Component:
    label = "Filter modules"
    search = exact_input(placeholder=label, aria_label=label, on_change=RunState.search_for.debounce(200))
    choice = rx.select.root(
        rx.select.trigger(aria_label="Module", class_name="ry-mono"),
        rx.select.content(offered(RunState.modules, "path")),
        value=RunState.module_id,
        on_change=RunState.set_module,
    )
    none = rx.el.span("No modules match.", class_name="mut")
    return _field(
        "Module",
        rx.fragment(rx.cond(RunState.total > FEW, search), rx.cond(RunState.modules.length() > 0, choice, none)),
    )


def _type() -> rx.Component:
    types = {name: TYPE_WORDS[name] for name in TYPES}
    return _field(
        "Operation",
        choice("Operation", types, width=None, value=RunState.type, on_change=RunState.set_type),
        RunState.effect,
    )


def _typed() -> rx.Component:
    label = ("Type ", rx.el.span(RunState.name, class_name="ry-mono"), " to confirm")
    return typed_field(
        "run-name", *label, value=RunState.typed, on_change=RunState.set_typed, name="confirmed", class_name="ry-f"
    )


def _approvals() -> rx.Component:
    is_asked = (RunState.approvals > 0) & ((RunState.type == "APPLY") | (RunState.type == "DESTROY"))
    words = rx.cond(RunState.approvals == 1, "1 approval", RunState.approvals.to_string() + " approvals")
    return rx.cond(
        is_asked, rx.el.p(icon("hand"), rx.el.span("Its plan waits for ", words, "."), class_name="ry-row c6")
    )


def _lock() -> rx.Component:
    note = notice(
        "lock",
        RunState.lock,
        " ",
        rx.el.span("Nothing can be applied until it is unlocked."),
        tone="amber",
        test_id="run-locked",
    )
    return rx.cond(RunState.lock != "", note)


def _goes() -> rx.Component:
    """The line with the number of resources that a destroy removes."""
    many = RunState.resources.to_string() + " resources are destroyed"
    number = rx.cond(RunState.resources == 1, "1 resource is destroyed", many)
    none = "The state has no resources: there is nothing to destroy."
    words = rx.cond(RunState.resources > 0, number + ", according to the state.", none)
    return rx.cond(
        RunState.type == "DESTROY",
        rx.el.p(icon("flame"), rx.el.span(words), class_name="ry-row c6", custom_attrs={"data-testid": "goes"}),
    )


def _text(name: str, label: str, hint: str, *, is_long: bool = True) -> rx.Component:
    make = rx.text_area if is_long else rx.input
    attributes = {"rows": "2", "class_name": "ry-mono"} if is_long else {"auto_complete": "off"}
    return rx.el.div(
        rx.el.label(label, html_for=f"run-{name}"),
        make(id=f"run-{name}", name=name, custom_attrs={"spellCheck": "false"}, **attributes),
        rx.el.small(hint),
        class_name="ry-f",
    )


def _choices() -> rx.Component:
    priority = choice("Priority", PRIORITIES, width=None, value=RunState.priority, on_change=RunState.set_priority)
    runners = offered(RunState.runners)
    pin = choice("Runner", {"any": "Not pinned"}, runners, width=None, value=RunState.pin, on_change=RunState.set_pin)
    refresh = rx.el.label(
        rx.checkbox(checked=RunState.is_refresh_only, on_change=RunState.set_refresh_only, aria_label="Refresh only"),
        "Refresh only: bring the state up to date, plan no change",
        class_name="ry-row c6",
    )
    return rx.fragment(
        rx.el.div(_field("Priority", priority), _field("Runner", pin), class_name="ry-grid2"),
        rx.cond(RunState.type == "PLAN", refresh),
    )


def _options() -> rx.Component:
    """A job's options besides its type; folded until somebody opens them."""
    is_planned = (RunState.type != "OUTPUT") & (RunState.type != "DRIFT")
    fold = quiet_button(
        rx.cond(RunState.has_options, icon("chevron-down"), icon("chevron-right")),
        "Options",
        on_click=RunState.show_options,
        type="button",
        aria_expanded=RunState.has_options,
        custom_attrs={"data-testid": "run-options"},
    )
    fields = rx.fragment(
        rx.cond(
            is_planned,
            rx.fragment(
                _text("targets", "Targets", "Only these resources, one address per line."),
                _text("replace", "Replace", "Recreated even if nothing changed, one address per line."),
            ),
        ),
        _choices(),
    )
    return rx.fragment(
        _text("reason", "Message", "Why you run it. Shown with the job.", is_long=False),
        rx.el.div(fold),
        rx.cond(RunState.has_options, fields),
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
    go = act_button(
        icon("play"),
        rx.match(
            RunState.type, ("APPLY", "Plan and review"), *[(name, TYPE_WORDS[name]) for name in TYPES[2:]], "Plan"
        ),
        type="submit",
        disabled=(RunState.module_id == "") | (RunState.lock != "") | (RunState.modules.length() == 0),
        custom_attrs={"data-testid": "run"},
    )
    destroy = rx.button(
        "Plan the destroy",
        color_scheme="red",
        type="submit",
        disabled=(RunState.typed != RunState.name) | (RunState.lock != ""),
        custom_attrs={"data-testid": "run"},
    )
    return dialog_acts(cancel(RunState.close), rx.cond(is_destroy, destroy, go))


def _body() -> rx.Component:
    return rx.el.div(
        rx.cond(RunState.has_choice, rx.fragment(_module(), _type()), rx.el.p(RunState.effect)),
        _lock(),
        _goes(),
        _approvals(),
        rx.cond(RunState.type == "DESTROY", _typed()),
        _options(),
        class_name="ry-dialog-body",
    )


def _no_modules() -> rx.Component:
    return rx.el.div(
        rx.el.p("A job runs a module, and there is none yet."),
        dialog_acts(
            cancel(RunState.close),
            page_link(act_button("New module", on_click=RunState.close), href="/dashboard/modules?new=1"),
        ),
        class_name="mut",
    )


def run_dialog() -> rx.Component:
    """Ask what to run, with what it would do."""
    return rx.alert_dialog.root(
        rx.alert_dialog.content(
            rx.alert_dialog.title(_title(), size="4", margin_bottom="6px"),
            rx.alert_dialog.description("What a job would do, before it is queued.", class_name="sr"),
            rx.cond(
                RunState.total > 0,
                rx.form(_body(), _acts(), on_submit=RunState.confirm, reset_on_submit=False),
                _no_modules(),
            ),
            max_width="480px",
            on_escape_key_down=RunState.close,
        ),
        open=RunState.is_open,
    )
