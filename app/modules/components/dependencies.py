"""The dependencies of a module: what it takes of others, and which others take something of it."""

from typing import Any

import reflex as rx

from app.frame.pick import picks
from app.frame.session import may
from app.modules.state.links import DependenciesState, ModuleGrantsState, Reader
from app.modules.view.dependencies import DependencyView
from app.ui.controls import choice, icon_button, page_link, plain_button, small_button
from app.ui.elements import ago
from app.ui.form.elements import check_field, exact_input
from app.ui.panel import notice, titled_panel

State = DependenciesState
GRAPH = "/dashboard/modules/graph"
CHOICES = {
    "off": "Re-plan: manually",
    "on_change": "Re-plan: when a bound output changes",
    "always": "Re-plan: after each apply",
}


def _other(one: rx.Var[DependencyView], action: rx.Component) -> rx.Component:
    return linked_module(
        one,
        rx.foreach(one["inputs"].to(list[str]), lambda text: rx.el.small(text, class_name="ry-mono")),
        rx.cond(one["cascades"] != "", rx.el.small(one["cascades"], class_name="mut")),
        action=action,
    )


def _producer(one: rx.Var[DependencyView]) -> rx.Component:
    label = "Stop depending on " + one["path"].to(str)
    remove = unlink_button(label, "Remove", State.remove(one["id"].to(str)))
    return _other(one, rx.cond(may("module.write"), remove))


def _proposal(one: rx.Var[DependencyView]) -> rx.Component:
    path = one["path"].to(str)
    accept = small_button("Accept", on_click=State.accept(path), aria_label="Depend on " + path)
    return _other(one, rx.cond(may("module.write"), accept))


def _list(label: str, rows: rx.Var[list[DependencyView]], row: object) -> rx.Component:
    shown = rx.fragment(
        rx.el.h3(label, class_name="ry-pb mut sm"), rx.el.ul(rx.foreach(rows, row), class_name="ry-list")
    )
    return rx.cond(rows.length() > 0, shown)


def _field(name: str, label: str, placeholder: str, **props: Any) -> rx.Component:
    entry = exact_input(id=f"dependency-{name}", name=name, placeholder=placeholder, class_name="ry-mono", **props)
    return rx.el.div(rx.el.label(label, html_for=f"dependency-{name}", class_name="ry-lab"), entry, class_name="ry-f")


def _add() -> rx.Component:
    bound = _field("bindings", "Bindings, as input=output", "vpc_id=id, zones")
    return rx.form(
        _field("producer", "Module to depend on", "net/vpc", required=True, **picks("modules")),
        rx.cond(may("state.write"), bound),
        choice("When to plan it again", CHOICES, name="cascades", default_value="off", width=None),
        check_field("Same commit as upstream", name="is_promotion"),
        plain_button("Add dependency", type="submit"),
        on_submit=State.add,
        class_name="ry-pb ry-stack ry-dependency",
        key=State.revision.to_string(),
    )


def changed_note() -> rx.Component:
    """Outputs that this module takes are others now than when it was applied."""
    note = notice(
        "git-compare-arrows",
        "Inputs changed: ",
        rx.el.span(State.dependencies["changed"], class_name="ry-mono"),
        ". ",
        rx.el.span("Nothing was run. A plan shows what the new values change."),
        tone="amber",
        test_id="inputs-changed",
    )
    return rx.cond(State.dependencies["changed"] != "", note)


def dependencies() -> rx.Component:
    """Both directions, for everybody; operators change them, admins bind outputs."""
    producers = State.dependencies["producers"].to(list[DependencyView])
    consumers = State.dependencies["consumers"].to(list[DependencyView])
    none = rx.el.div("It depends on no other module, and none depends on it.", class_name="ry-pb mut")
    return titled_panel(
        "Dependencies",
        (rx.el.span(class_name="grow"), page_link("Graph", href=GRAPH, class_name="ry-link", underline="none")),
        rx.cond(producers.length() + consumers.length() == 0, none),
        _list("Depends on", producers, _producer),
        _list("Used by", consumers, lambda one: _other(one, rx.fragment())),
        _list("Proposed", State.dependencies["proposals"].to(list[DependencyView]), _proposal),
        rx.cond(may("module.write"), _add()),
        custom_attrs={"data-testid": "dependencies"},
    )


def linked_module(one: Any, *lines: rx.Component, action: rx.Component) -> rx.Component:
    """A row: the other module's path, lines about it, and what can be done."""
    path = one["path"].to(str)
    link = page_link(path, href="/dashboard/modules?path=" + path, class_name="ry-a ry-mono ry-breaks")
    return rx.el.li(rx.el.div(link, *lines, class_name="grow"), action, key=one["id"].to(str))


def unlink_button(label: Any, title: str, event: Any) -> rx.Component:
    return icon_button("x", label, event, title=title)


Grants = ModuleGrantsState


def _reader(reader: rx.Var[Reader]) -> rx.Component:
    label = "Stop " + reader["path"].to(str) + " from reading"
    revoke = unlink_button(label, "Revoke", Grants.revoke(reader["id"].to(str)))
    since = rx.el.small(ago(reader["since"].to(str)))
    return linked_module(reader, since, action=rx.cond(may("state.write"), revoke))


def _add_reader() -> rx.Component:
    return rx.form(
        exact_input(
            name="reader",
            placeholder="apps/site",
            aria_label="Path of the module that reads",
            required=True,
            class_name="grow ry-mono",
            **picks("modules"),
        ),
        plain_button("Grant", type="submit"),
        on_submit=Grants.grant,
        class_name="ry-row ry-pb",
        key=Grants.revision.to_string(),
    )


def output_readers() -> rx.Component:
    """The panel of readers, for everybody; only admins grant and revoke access, as in the database."""
    about = "These modules can read the outputs (terraform_remote_state), not the state."
    panel = titled_panel(
        "Output access",
        rx.el.span(Grants.readers.length(), class_name="mut num"),
        rx.el.div(about, class_name="ry-pb mut"),
        rx.el.ul(rx.foreach(Grants.readers, _reader), class_name="ry-list"),
        rx.cond(may("state.write"), _add_reader()),
        custom_attrs={"data-testid": "output-readers"},
    )
    return rx.cond(may("state.write") | (Grants.readers.length() > 0), panel)
