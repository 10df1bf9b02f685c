"""Buttons, links between pages, copy buttons, lists that open and menus, each look in one place."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import reflex as rx

from app.ui.elements import DOWNLOAD, secret

# The addresses of before lead on to those of the last organisation (app/live/lead_on.py).
INSIDE, ROUTE = "/dashboard", "/o/[organisation]"


def icon(name: str, size: str = "s", **props: object) -> rx.Component:
    """Draw an icon that decorates the word beside it: sizes are '', 's', 'xs' and 'l'."""
    classes = f"ry-i {size} {props.pop('class_name', '')}".strip()
    return rx.icon(name, class_name=classes, aria_hidden="true", **props)


def known_icon(name: Any, names: Iterable[str], otherwise: str) -> rx.Component:
    """One of these icons, whose name only the browser knows."""
    return rx.match(name, *[(each, icon(each)) for each in sorted(set(names))], icon(otherwise))


def organisation_in(path: str) -> str:
    """Return the organisation that an address names; none in one of before."""
    found = re.match(r"/o/([^/]+)", path)
    return found[1] if found else ""


def within(organisation: str, path: str) -> str:
    """Return a page's address in an organisation."""
    return path.replace(INSIDE, f"/o/{organisation}", 1) if organisation and path.startswith(INSIDE) else path


def at(path: rx.Var[str] | str) -> rx.Var[str] | str:
    """Return a page's address in the organisation of the tab; any other address as it is."""
    if isinstance(path, str) and not path.startswith(INSIDE):
        return path
    given = str(path) if isinstance(path, rx.Var) else json.dumps(path)
    # Some pages are drawn once when they are built, where there is no tab.
    return rx.Var(f"(globalThis.runyard?.at ?? ((path) => path))({given})", _var_type=str)._replace(
        merge_var_data=path._get_all_var_data() if isinstance(path, rx.Var) else None
    )


def page_link(*children: Any, href: Any, **props: Any) -> rx.Component:
    """A link to a page of the tab's organisation, or to anywhere else."""
    return rx.link(*children, href=at(href), **props)


def number_link(number: Any, **props: Any) -> rx.Component:
    """A job's number, which leads to its page."""
    return page_link("#" + number, href="/dashboard/jobs/" + number, class_name="ry-a num", **props)


def act_button(*label: Any, is_danger: bool = False, **props: Any) -> rx.Component:
    """The view's main act, in ink; in a question, what cannot be undone is red."""
    color: dict[str, Any] = {"color_scheme": "red"} if is_danger else {"color_scheme": "gray", "high_contrast": True}
    return rx.button(*label, **color, **props)


def plain_button(*label: Any, **props: Any) -> rx.Component:
    """Any other act, with an edge."""
    return rx.button(*label, **{"variant": "surface", "color_scheme": "gray", **props})


def small_button(*label: Any, **props: Any) -> rx.Component:
    return plain_button(*label, size="1", **props)


def quiet_button(*label: Any, **props: Any) -> rx.Component:
    """An act without an edge, in a row or beside text."""
    return rx.button(*label, variant="ghost", color_scheme="gray", size="1", **props)


def icon_button(icon_name: str, label: Any, on_click: Any = None, *, title: Any = None, **props: Any) -> rx.Component:
    """An act that is an icon alone; its label is its tooltip, unless that is shorter."""
    look = {"variant": "ghost", "color_scheme": "gray", "size": "1", **props}
    if on_click is not None:
        look["on_click"] = on_click
    return rx.icon_button(icon(icon_name), aria_label=label, title=label if title is None else title, **look)


def link_button(
    *children: Any,
    href: Any,
    size: str,
    attrs: Mapping[str, Any],
    look: str = "rt-Button rt-variant-surface",
    **props: Any,
) -> rx.Component:
    """A link that looks like a plain button."""
    classes, attrs = f"rt-reset rt-BaseButton rt-r-size-{size} {look}", {"data-accent-color": "gray", **attrs}
    return rx.el.a(*children, href=at(href), class_name=classes, custom_attrs=attrs, **props)


def download_icon(href: Any, label: Any, title: str, **attrs: str) -> rx.Component:
    """A link that looks like an icon button and saves a file."""
    look = {"look": "rt-IconButton rt-variant-ghost", "aria_label": label, "title": title}
    return link_button(icon("download"), href=href, size="1", attrs={**DOWNLOAD, **attrs}, **look)


def choice(
    label: Any, options: Mapping[str, str] | Any, *more: Any, width: Any = "100%", key: Any = None, **props: Any
) -> rx.Component:
    """A list that opens; the options are words by value, or items."""
    items = [options]
    if isinstance(options, Mapping):
        items = [rx.select.item(words, value=value) for value, words in options.items()]
    look = {name: value for name, value in {"width": width, "id": key}.items() if value is not None}
    return rx.select.root(rx.select.trigger(aria_label=label, **look), rx.select.content(*items, *more), **props)


def offered(rows: Any, words: str = "name", value: str = "id") -> rx.Component:
    """The options of a list that opens, from rows."""
    return rx.foreach(rows, lambda row: rx.select.item(row[words], value=row[value]))


def segments(label: str, options: Mapping[str, Any], **props: Any) -> rx.Component:
    """Segments side by side, as words by value."""
    items = [rx.segmented_control.item(words, value=value) for value, words in options.items()]
    return rx.segmented_control.root(*items, aria_label=label, **props)


def dropdown(trigger: rx.Component, *items: Any, **props: Any) -> rx.Component:
    content = rx.dropdown_menu.content(*items, variant="soft", color_scheme="gray", **props)
    return rx.dropdown_menu.root(rx.dropdown_menu.trigger(trigger), content)


def export_menu(path: str, query: Any) -> rx.Component:
    """A button whose menu saves a list as a file."""
    kinds = {"csv": "CSV, for a spreadsheet", "jsonl": "JSON lines, for programs"}
    links = [
        rx.el.a(words, href=f"{path}.{kind}" + query, custom_attrs=DOWNLOAD, class_name="ry-menu-link")
        for kind, words in kinds.items()
    ]
    items = [rx.dropdown_menu.item(link, as_child=True) for link in links]
    return dropdown(plain_button(icon("download"), "Export"), *items, align="end")


def _what(text: rx.Var[str] | str, owner: rx.Var[str] | str) -> dict[str, Any]:
    return {"data-copy": text, "data-owner": owner}


def copy_button(
    text: rx.Var[str] | str, label: str, on_copy: rx.event.EventType[()] | None = None, owner: rx.Var[str] | str = ""
) -> rx.Component:
    """Copy a text to the clipboard; runyard.js does it and shows 'Copied' for a moment.

    `owner` names the runner whose token replaces %TOKEN% in the text.
    """
    handlers: dict[str, Any] = {"on_click": on_copy} if on_copy is not None else {}
    what = _what(text, owner)
    # In a form, Enter presses the first button that submits.
    return quiet_button(
        icon("copy"), rx.el.span("Copy"), type="button", aria_label=label, custom_attrs=what, **handlers
    )


def copy_icon(
    text: rx.Var[str] | str,
    label: rx.Var[str] | str,
    on_copy: rx.event.EventType[()] | None = None,
    owner: rx.Var[str] | str = "",
) -> rx.Component:
    """Copy a text with a button that is only an icon."""
    return icon_button("copy", label, on_copy, custom_attrs=_what(text, owner))


def code_block(
    text: rx.Var[str] | str, label: str, on_copy: rx.event.EventType[()] | None = None, owner: rx.Var[str] | str = ""
) -> rx.Component:
    """Show a command as plain text with a copy button; `owner` as for copy_button."""
    shown = secret(owner, text) if isinstance(owner, rx.Var) else text
    return rx.el.div(
        rx.el.pre(shown, tab_index=0),
        rx.el.span(copy_icon(text, label, on_copy, owner), class_name="cp"),
        class_name="ry-code",
    )


def once_line(label: str, shown: rx.Component, button: rx.Component) -> rx.Component:
    """A line of what is shown once: its label, itself, and its copy button."""
    return rx.el.div(rx.el.span(label, class_name="k"), shown, button, class_name="ry-sec1")


def shown_line(label: str, value: rx.Var[str], copy_label: str) -> rx.Component:
    """The line of a value that everybody may see."""
    return once_line(label, rx.el.span(value, class_name="ry-el"), copy_button(value, copy_label))


def secret_line(label: Any, owner: rx.Var[str], copy_label: str, **attrs: str) -> rx.Component:
    """The line of a secret, which the browser puts there and copies; no state has it."""
    shown = secret(owner, "%TOKEN%", class_name="ry-el", custom_attrs=attrs)
    return once_line(label, shown, copy_button("%TOKEN%", copy_label, owner=owner))
