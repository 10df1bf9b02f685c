"""The table of variables, the form that sets one, and the panel on the pages of modules and groups."""

from typing import Any

import reflex as rx

from app.frame.session import SessionState
from app.ui.badges import tag
from app.ui.controls import act_button, icon, page_link, plain_button
from app.ui.dialog import alert, dialog_acts
from app.ui.elements import ago
from app.ui.form.elements import Fields, check_field, field, form_dialog, labelled, problem_line, text_area
from app.ui.panel import empty, settings_panel
from app.ui.resource import Act, Column, removal, resource_panel, row_menu, rows_table
from app.variables.state.variables import VariablesState
from app.variables.view.rows import KINDS, VariableView

State = VariablesState
ABOUT = (
    "The next job gets the first value that is set: enforced by a group above, of the run, the module, its groups, the "
    "organisation. Inputs that follow another module's outputs are under Order."
)
# Hints on the value, by kind.
HINTS = {
    "input": "JSON, or a text. Every member can read it.",
    "hcl": "An expression, such as [for n in range(3) : n]. Every member can read it.",
    "env": "A text. Every member can read it.",
    "file": "The content; every member can read it. The name is its path in the module's folder.",
}
SEALED_HINT = "Sealed in this browser; nobody sees it again. Only runners with the organisation's key open it: label "
REFERENCE_HINT = (
    "vault://PATH#FIELD, aws-sm://REGION/NAME#FIELD or file:///PATH; the runner's operator has to allow it."
)
NO_KEY = "The organisation has no key yet. It is made in this browser, which downloads the private half as sealing.key."
KEEP_KEY = (
    "Keep that file: without it, every sealed value has to be entered again. Runners that open secrets get it, too."
)


class SealedValue(rx.Component):
    """A text area whose value leaves the browser only as a sealed box."""

    library = "$/public/sealed_value.js"
    tag = "SealedValue"
    lib_dependencies: list[str] = ["libsodium-wrappers@0.8.4"]
    field: rx.Var[str]
    public_key: rx.Var[str]
    path: rx.Var[str]
    kind: rx.Var[str]
    name: rx.Var[str]


class SealingKey(rx.Component):
    """The organisation's key, made on a click inside it: the private half leaves the browser only as a file."""

    library = "$/public/sealed_value.js"
    tag = "SealingKey"
    on_made: rx.EventHandler[rx.event.passthrough_event_spec(str)]  # type: ignore[type-arg]


def _name(row: rx.Var[VariableView]) -> rx.Component:
    mark = rx.el.span(icon("triangle-alert", class_name="t-amber"), title=row["warning"].to(str))
    return rx.el.span(
        rx.el.span(row["name"], class_name="ry-mono"), rx.cond(row["warning"] != "", mark), class_name="ry-row c6"
    )


def _value(row: rx.Var[VariableView]) -> rx.Component:
    sealed = rx.el.span(icon("lock", "xs"), rx.el.span("Sealed, version ", row["version"]), class_name="ry-row c6 mut")
    return rx.cond(row["is_sealed"], sealed, rx.el.span(row["value"], class_name="ry-mono ry-breaks"))


def _from(row: rx.Var[VariableView]) -> rx.Component:
    source = rx.cond(
        row["is_own"], rx.el.span("Set here"), page_link(row["source"], href=row["href"].to(str), class_name="ry-a")
    )
    return rx.el.span(
        source,
        rx.cond(row["is_own"] & row["is_enforced"], tag("enforced")),
        rx.cond(row["hides"] != "", rx.el.small(row["hides"], class_name="mut ry-breaks")),
        class_name="ry-row c6 wrap",
    )


def _used(row: rx.Var[VariableView]) -> rx.Component:
    job = page_link(row["used_by"], href="/dashboard/jobs/" + row["job"].to_string(), class_name="ry-a")
    return rx.cond(
        row["used_at"] != "",
        rx.el.span(rx.cond(row["used_by"] != "", job), ago(row["used_at"].to(str)), class_name="ry-row c6"),
        rx.el.span("Never"),
    )


def _shown(row: rx.Var[VariableView]) -> rx.Component:
    return rx.fragment(_value(row), rx.el.div(_from(row), class_name="only-s"))


def _can_change(_row: rx.Var[VariableView]) -> Any:
    return SessionState.can_operate


ACTS = row_menu(
    Act("users", "Who can use it", State.show_users),
    Act("pencil", lambda row: rx.cond(row["is_sealed"], "Replace value", "Edit"), State.edit, _can_change),
    Act("trash-2", "Remove", State.ask_remove, _can_change, is_danger=True),
    may=lambda row: row["is_own"],
)
COLUMNS = (
    Column("Name", _name, "n-a"),
    Column("Kind", "words", "mut n-b"),
    Column("Value", _shown, "n-c"),
    Column("From", _from, "mut hide-s"),
    Column("Last used", _used, "mut hide-s"),
    Column("Actions", ACTS, "r n-d"),
)
UNUSED = (
    Column("Name", _name, "n-a"),
    Column("Kind", "words", "mut n-b"),
    Column("Set at", lambda row: page_link(row["source"], href=row["href"].to(str), class_name="ry-a"), "mut"),
    Column("Last used", _used, "mut n-c"),
)


def _add() -> rx.Component:
    button = act_button(icon("plus"), "Add variable", on_click=State.add)
    # Those of the organisation concern every module.
    return rx.cond(rx.cond(State.path == "", SessionState.can_admin, SessionState.can_operate), button)


def variables_panel() -> rx.Component:
    text = "Set one here, or on a group above: every module below inherits it."
    none = empty("variable", "No variables", text)
    mark = {"mark": lambda row: {"data-row": row["name"]}}
    return resource_panel(State, "Variables", ABOUT, COLUMNS, none, add=_add(), **mark)


def unused_panel() -> rx.Component:
    """The variables that no job needs any more, beside those of the organisation."""
    rows = rows_table("Unused variables", UNUSED, State.unused, mark=lambda _row: {})
    text = "No job has used them for 30 days. Remove those that nobody needs, secrets first."
    shown = settings_panel("Unused variables", text, rx.fragment(), rows)
    return rx.cond(State.unused.length() > 0, shown)


def _users() -> rx.Component:
    facts = (
        ("Modules whose next job gets it", State.users["modules"]),
        ("People and accounts that start such jobs", State.users["people"]),
        ("Runners that open secrets", State.users["runners"]),
    )
    lines = [rx.el.div(rx.el.dt(label), rx.el.dd(words, class_name="ry-breaks")) for label, words in facts]
    return alert(
        rx.fragment("Who can use ", State.users_of),
        "Anyone who changes the code of such a module can print the value, too.",
        rx.el.dl(*lines),
        dialog_acts(act_button("Done", on_click=State.close_users)),
        is_open=State.users_of != "",
        on_escape=State.close_users,
    )


def _value_field() -> rx.Component:
    plain = text_area("value", State.chosen["text"], rows="5")
    sealed = SealedValue.create(
        field="s-value", public_key=State.public_key, path=State.path, kind=State.kind, name=State.chosen["name"]
    )
    plain_hint = rx.cond(State.is_reference, REFERENCE_HINT, rx.match(State.kind, *HINTS.items(), ""))
    sealed_hint = rx.fragment(SEALED_HINT, rx.el.code(State.key_label))
    hint = rx.cond(State.is_sealed, sealed_hint, plain_hint)
    value = field("value", "Value", rx.cond(State.is_sealed, sealed, plain), State.errors, hint)
    return rx.cond(State.needs_key, _new_key(), value)


def _new_key() -> rx.Component:
    button = plain_button(icon("key-round"), "Create key", type="button")
    make = rx.fragment(rx.el.p(NO_KEY), rx.el.p(KEEP_KEY), SealingKey.create(button, on_made=State.create_key))
    asked = rx.el.p("The organisation has no key yet. An admin creates it here.")
    problem = rx.cond(State.errors.contains("value"), problem_line("value", State.errors["value"]))
    return labelled("Key of the organisation", rx.cond(SessionState.can_admin, make, asked), problem)


def _fields() -> list[rx.Component]:
    fields, is_old = Fields(State), ~State.is_new
    enforced = check_field(
        "Enforced: lower levels cannot override it", checked=State.is_enforced, on_change=State.set_enforced
    )
    sealed = check_field(
        "Sensitive: sealed in this browser",
        checked=State.is_sealed,
        on_change=State.set_sealed,
        disabled=State.chosen["is_sealed"],
    )
    reference = check_field(
        "Reference: the runner reads it from a vault",
        checked=State.is_reference,
        on_change=State.set_reference,
        disabled=State.chosen["is_sealed"],
    )
    return [
        fields.choice("kind", "Kind", KINDS, disabled=is_old),
        fields.text("name", "Name", disabled=is_old),
        _value_field(),
        sealed,
        reference,
        rx.cond(SessionState.can_admin, enforced),
    ]


def variable_dialogs() -> list[rx.Component]:
    where = rx.cond(State.path == "", "Of the whole organisation.", "Of " + State.path + ".")
    return [
        form_dialog(State, "Add variable", where, _fields()),
        _users(),
        removal(
            State,
            "Remove",
            "Later jobs get the value of a group above, if there is one. Queued jobs keep this one.",
            "Remove variable",
        ),
    ]
