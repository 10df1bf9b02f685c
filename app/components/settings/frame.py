"""What every settings page has: the list of pages beside it, its panel, and a form in a dialog."""

from collections.abc import Sequence
from typing import Any

import reflex as rx

from app.components.feedback import empty, failed, skeleton_rows
from app.components.icons import icon
from app.components.layout import page
from app.components.table import table
from app.states.session import SessionState

ENTRIES = (
    ("members", "Members"),
    ("cloud-identities", "Cloud identities"),
    ("service-accounts", "Service accounts"),
    ("releases", "Releases"),
    ("audit", "Audit log"),
    ("organisation", "Organisation"),
)


def _entry(key: str, label: str, active: str) -> rx.Component:
    current: dict[str, Any] = {"aria_current": "page"} if key == active else {}
    return rx.link(label, href=f"/dashboard/settings/{key}", class_name="ry-nav", underline="none", **current)


def settings_page(active: str, *children: rx.Component, dialogs: Sequence[rx.Component] = ()) -> rx.Component:
    """Put a settings page into the frame."""
    nav = rx.el.nav(*[_entry(*entry, active) for entry in ENTRIES], class_name="ry-subnav", aria_label="Settings")
    title = dict(ENTRIES)[active]
    return page(
        rx.el.div(rx.el.div(rx.el.h1("Settings")), class_name="ry-head"),
        rx.el.div(nav, rx.el.div(*children, class_name="ry-stack"), class_name="ry-set"),
        title=title,
        active="settings",
        crumbs=(("Settings", "/dashboard/settings"),),
        dialogs=dialogs,
    )


def settings_panel(title: str, text: str, aside: rx.Component, *children: rx.Component) -> rx.Component:
    """A panel with its title, one sentence and what can be done."""
    return rx.el.section(
        rx.el.div(
            rx.el.div(rx.el.h2(title), rx.el.p(text, class_name="sm"), class_name="grow"), aside, class_name="ry-ph"
        ),
        *children,
        class_name="ry-panel",
        aria_label=title,
    )


def records(state: Any, title: str, head: rx.Component, row: Any, none: rx.Component, columns: int) -> rx.Component:
    """The table of a page's records, or what stands for it while it loads, is empty or failed."""
    waiting = state.is_loading & (state.rows.length() == 0)
    rows = rx.cond(waiting, skeleton_rows(columns, 3), rx.foreach(state.rows, row))
    shown = rx.cond(waiting | (state.rows.length() > 0), table(title, head, rows, aria_busy=waiting), none)
    return or_problem(state, title, shown)


def or_problem(state: Any, what: str, body: rx.Component) -> rx.Component:
    """The body, or what went wrong while it was loaded."""
    return rx.cond(
        state.problem != "",
        failed(f"{what} could not be loaded", state.problem, state.problem_hint, state.load),
        body,
    )


def admins_only(what: str, body: rx.Component) -> rx.Component:
    """The body for those who may see it; for others, whom to ask."""
    nothing = empty(
        "lock", f"You cannot see {what}", "Operators and viewers do not have this. Ask an owner or an admin."
    )
    return rx.cond(SessionState.can_admin, body, rx.el.section(nothing, class_name="ry-panel"))


def admin_button(label: str, icon_name: str, event: Any) -> rx.Component:
    """A panel's action, for those who may."""
    button = rx.button(icon(icon_name), label, on_click=event, variant="surface", color_scheme="gray")
    return rx.cond(SessionState.can_admin, button, rx.fragment())


def menu(label: Any, *items: rx.Component) -> rx.Component:
    """A row's menu."""
    trigger = rx.icon_button(
        icon("ellipsis"),
        variant="ghost",
        color_scheme="gray",
        size="1",
        aria_label=label,
        title="More actions",
        custom_attrs={"data-menu": ""},
    )
    return rx.dropdown_menu.root(
        rx.dropdown_menu.trigger(trigger),
        rx.dropdown_menu.content(*items, align="end", variant="soft", color_scheme="gray"),
    )


def menu_item(icon_name: str, label: Any, event: Any, **props: Any) -> rx.Component:
    """An entry of a row's menu."""
    return rx.dropdown_menu.item(icon(icon_name), rx.el.span(label, class_name="grow"), on_select=event, **props)


def field(key: str, label: str, control: rx.Component, errors: Any, hint: Any = "") -> rx.Component:
    """A field with its hint, or with what is wrong."""
    problem = rx.el.small(icon("circle-alert"), errors[key], class_name="err", role="alert")
    return rx.el.div(
        rx.el.label(label, html_for=f"s-{key}"),
        control,
        rx.cond(errors.contains(key), problem, rx.el.small(hint)),
        class_name="ry-f",
    )


def text_field(key: str, label: str, value: Any, errors: Any, hint: Any = "", **props: Any) -> rx.Component:
    """A line of text."""
    control = rx.input(
        id=f"s-{key}",
        name=key,
        default_value=value,
        auto_complete="off",
        color_scheme=rx.cond(errors.contains(key), "red", "indigo"),
        custom_attrs={"spellCheck": "false"},
        **props,
    )
    return field(key, label, control, errors, hint)


def _leave(state: Any) -> rx.Component:
    leave = state.set_open(False)
    return rx.button("Leave it", type="button", on_click=leave, variant="surface", color_scheme="gray")


def form_dialog(state: Any, what: str, text: Any, fields: Sequence[rx.Component]) -> rx.Component:
    """The form of a RecordForm in a dialog; Escape and Leave it close it without saving."""
    title = rx.cond(state.is_new, f"Add a {what}", "Edit " + state.chosen["name"].to(str))
    save = rx.button(rx.cond(state.is_new, "Add", "Save"), type="submit", color_scheme="gray", high_contrast=True)
    form = rx.form(
        *fields,
        rx.el.div(_leave(state), save, class_name="ry-acts ry-dialog-acts"),
        on_submit=state.save,
        class_name="ry-dialog-form",
        key=state.revision.to_string(),
    )
    return rx.dialog.root(
        rx.dialog.content(
            rx.dialog.title(title, size="4", margin_bottom="6px"),
            rx.dialog.description(text, size="2", class_name="mut"),
            form,
            max_width="520px",
        ),
        open=state.is_open,
        on_open_change=state.set_open,
    )


def question(
    *, is_open: Any, title: Any, text: Any, act: str, on_act: Any, on_keep: Any, is_danger: bool = True
) -> rx.Component:
    """Ask before something is done."""
    color: dict[str, Any] = {"color_scheme": "red"} if is_danger else {"color_scheme": "gray", "high_contrast": True}
    return rx.alert_dialog.root(
        rx.alert_dialog.content(
            rx.alert_dialog.title(title, size="4", margin_bottom="6px"),
            rx.alert_dialog.description(text, size="2", class_name="mut"),
            rx.el.div(
                rx.button("Keep it", on_click=on_keep, variant="surface", color_scheme="gray"),
                rx.button(act, on_click=on_act, **color),
                class_name="ry-acts ry-dialog-acts",
            ),
            max_width="440px",
            on_escape_key_down=on_keep,
        ),
        open=is_open,
    )


def secret_dialog(*, owner: Any, title: str, text: Any, lines: Sequence[rx.Component], on_close: Any) -> rx.Component:
    """Show something once; it closes by its own button only."""
    return rx.alert_dialog.root(
        rx.alert_dialog.content(
            rx.alert_dialog.title(title, size="4", margin_bottom="6px"),
            rx.alert_dialog.description(text, size="2", class_name="mut"),
            rx.el.div(*lines, class_name="ry-code ry-dialog-field"),
            rx.el.div(
                rx.button(icon("check"), "I have it", on_click=on_close, color_scheme="gray", high_contrast=True),
                class_name="ry-acts ry-dialog-acts",
            ),
            max_width="560px",
        ),
        open=owner != "",
    )
