"""The table of variables, the form that sets one, and the panel on the pages of modules and groups."""

import reflex as rx

from app.frame.session import SessionState
from app.ui.badges import tag
from app.ui.dialog import question
from app.ui.feedback import empty
from app.ui.form.elements import check_field, field, form_dialog, text_field
from app.ui.icons import icon
from app.ui.panel import item_table, menu, menu_item, settings_panel
from app.ui.table import cell, heads, table
from app.variables.state.variables import PAGE, PathVariablesState, VariablesState
from app.variables.view.rows import KINDS, VariableView

State = VariablesState
HEADS = (("Name", ""), ("Kind", ""), ("Value", ""), ("From", ""), ("Actions", "r"))
ABOUT = "The next job gets the first value that is set: enforced (outer first), run, module, groups, organisation."
# Hints on the value, by kind.
HINTS = {
    "input": "JSON, or a text. Every member can read it. Secrets: runyard variables seal.",
    "hcl": "An expression, such as [for n in range(3) : n].",
    "env": "A text. Every member can read it. Secrets: runyard variables seal.",
    "file": "The content. The name is its path in the module's folder.",
}


def _name(row: rx.Var[VariableView]) -> rx.Component:
    mark = rx.el.span(icon("triangle-alert", class_name="t-amber"), title=row["warning"].to(str))
    return rx.el.span(
        rx.el.span(row["name"], class_name="ry-mono"),
        rx.cond(row["warning"] != "", mark, rx.fragment()),
        class_name="ry-row c6",
    )


def _value(row: rx.Var[VariableView]) -> rx.Component:
    sealed = rx.el.span(icon("lock", "xs"), " Sealed, version ", row["version"], class_name="mut")
    return rx.cond(row["is_sealed"], sealed, rx.el.span(row["value"], class_name="ry-mono ry-breaks"))


def _from(row: rx.Var[VariableView]) -> rx.Component:
    source = rx.cond(
        row["is_own"], rx.el.span("Set here"), rx.link(row["source"], href=row["href"].to(str), class_name="ry-a")
    )
    return rx.el.span(
        source,
        rx.cond(row["is_own"] & row["is_enforced"], tag("enforced"), rx.fragment()),
        rx.cond(row["hides"] != "", rx.el.small(row["hides"], class_name="mut ry-breaks"), rx.fragment()),
        class_name="ry-row c6 wrap",
    )


def _menu(row: rx.Var[VariableView]) -> rx.Component:
    key = row["id"].to(str)
    acts = menu(
        "More actions for " + row["name"].to(str),
        rx.cond(row["is_sealed"], rx.fragment(), menu_item("pencil", "Edit", State.edit(key))),
        menu_item("trash-2", "Remove", State.ask_remove(key), color_scheme="red"),
    )
    return rx.cond(SessionState.can_operate & row["is_own"].to(bool), acts, rx.fragment())


def _row(row: rx.Var[VariableView]) -> rx.Component:
    return rx.el.tr(
        cell(_name(row), class_name="n-a"),
        cell(row["words"], class_name="mut n-b"),
        cell(_value(row), class_name="n-c"),
        cell(_from(row), class_name="mut"),
        cell(_menu(row), class_name="r n-d"),
        role="row",
        key=row["id"],
        custom_attrs={"data-row": row["name"]},
    )


def _add() -> rx.Component:
    button = rx.button(icon("plus"), "Set variable", on_click=State.add, color_scheme="gray", high_contrast=True)
    # Those of the organisation concern every module.
    return rx.cond(rx.cond(State.path == "", SessionState.can_admin, SessionState.can_operate), button, rx.fragment())


def _path() -> rx.Component:
    return rx.form(
        rx.input(
            name="path",
            default_value=State.path,
            placeholder="Group or module",
            aria_label="Module or group",
            class_name="ry-mono",
            key=State.path,
        ),
        rx.button("Show", type="submit", variant="surface", color_scheme="gray"),
        on_submit=State.choose,
        class_name="ry-row c6 ry-pb",
    )


def variables_panel() -> rx.Component:
    """The variables of the path that is shown."""
    text = "Set one here, or on a group above: every module below inherits it."
    rows = item_table(State, "Variables", HEADS, _row, empty("variable", "No variables", text))
    return settings_panel("Variables", ABOUT, _add(), _path(), rows)


def _kinds() -> rx.Component:
    return rx.select.root(
        rx.select.trigger(id="s-kind", aria_label="Kind", width="100%"),
        rx.select.content(*[rx.select.item(words, value=key) for key, words in KINDS.items()]),
        value=State.kind,
        on_change=State.set_kind,
        disabled=~State.is_new,
    )


def _fields() -> list[rx.Component]:
    hint = rx.match(State.kind, *HINTS.items(), "")
    value = rx.text_area(
        id="s-value",
        name="value",
        default_value=State.chosen["text"],
        rows="5",
        class_name="ry-mono",
        custom_attrs={"spellCheck": "false"},
    )
    name = text_field("name", "Name", State.chosen["name"], State.errors, "", disabled=~State.is_new)
    enforced = check_field("Enforced: wins over paths below", checked=State.is_enforced, on_change=State.set_enforced)
    return [
        field("kind", "Kind", _kinds(), State.errors),
        name,
        field("value", "Value", value, State.errors, hint),
        rx.cond(SessionState.can_admin, enforced, rx.fragment()),
    ]


def variable_dialogs() -> list[rx.Component]:
    """The form, and the question before a variable is removed."""
    where = rx.cond(State.path == "", "Of the whole organisation.", "Of " + State.path + ".")
    return [
        form_dialog(State, "variable", where, _fields()),
        question(
            is_open=State.removing != "",
            title=rx.fragment("Remove ", State.removing_name, "?"),
            text="Later jobs get the value of a group above, if there is one. Queued jobs keep this one.",
            act="Remove variable",
            on_act=State.remove,
            on_keep=State.keep,
        ),
    ]


def _small(row: rx.Var[VariableView]) -> rx.Component:
    note = rx.cond(row["is_own"], rx.fragment(), rx.el.small("from ", row["source"], class_name="mut"))
    return rx.el.tr(
        cell(_name(row), class_name="n-a"),
        cell(_value(row), " ", note, class_name="n-c"),
        role="row",
        key=row["id"],
    )


def path_variables(path: rx.Var[str]) -> rx.Component:
    """The variables that jobs of a module or group are given, and the way to change them."""
    rows = PathVariablesState.rows
    shown = table("Variables", heads(("Name", ""), ("Value", "")), rx.foreach(rows, _small), class_name="ry-inputs")
    none = rx.el.div("None. The module runs with its own defaults.", class_name="ry-pb mut")
    return rx.el.section(
        rx.el.div(
            rx.el.h2("Variables"),
            rx.el.span(rows.length(), class_name="mut num"),
            rx.el.span(class_name="grow"),
            rx.link("Open", href=f"{PAGE}?path=" + path, class_name="ry-link", underline="none"),
            class_name="ry-ph",
        ),
        rx.cond(rows.length() > 0, shown, none),
        rx.el.span(on_mount=PathVariablesState.show(path), key=path, class_name="sr"),
        class_name="ry-panel",
        aria_label="Variables",
    )
