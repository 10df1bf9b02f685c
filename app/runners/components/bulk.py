"""The bar over the table: what is selected in numbers, and what can be done to all of it; and the question before it is."""

import reflex as rx

from app.frame.session import SessionState
from app.runners.state.bulk import BulkState, Refusal
from app.runners.state.runners import RunnersState
from app.ui.controls import act_button, icon_button, plain_button, quiet_button, small_button
from app.ui.dialog import dialog, dialog_acts

TITLES = {
    "drain": "Drain these runners?",
    "disable": "Disable these runners?",
    "update": "Update these runners?",
    "label": "Add a label to these runners?",
}
EFFECTS = {
    "drain": "Each finishes its jobs and takes no new ones until it is resumed.",
    "disable": "Each finishes its jobs and takes no new ones until it is enabled.",
    "update": "Each that a job can update finishes its jobs first. Those that are updated by hand are named afterwards.",
    "label": "From their next poll they also take the jobs that ask for it.",
}


def _count() -> rx.Var[str]:
    return rx.cond(BulkState.is_all, RunnersState.match_count, BulkState.selected.length()).to_string()


def _act(label: str, kind: str) -> rx.Component:
    return small_button(label, on_click=BulkState.ask(kind), custom_attrs={"data-testid": f"bulk-{kind}"})


def bulk_bar() -> rx.Component:
    more = quiet_button(
        f"Select all {RunnersState.match_count}",
        on_click=BulkState.select_all,
        class_name="hide-s",
        custom_attrs={"data-testid": "select-all"},
    )
    admin = rx.fragment(_act("Disable", "disable"), _act("Update", "update"), _act("Add label", "label"))
    bar = rx.el.div(
        rx.el.b(_count() + " selected", class_name="num", style={"font_weight": "500"}),
        rx.el.span(BulkState.words, class_name="mut num hide-s"),
        rx.cond(BulkState.is_page & ~BulkState.is_all, more),
        rx.el.span(class_name="grow"),
        _act("Drain", "drain"),
        rx.cond(SessionState.can_admin, admin),
        icon_button("x", "Clear selection", BulkState.clear),
        class_name="ry-bulk",
        role="toolbar",
        aria_label="Selected runners",
        custom_attrs={"data-testid": "bulk-bar"},
    )
    return rx.cond(BulkState.is_all | (BulkState.selected.length() > 0), bar)


def _refusal(item: rx.Var[Refusal]) -> rx.Component:
    return rx.el.li(rx.el.b(item["name"], style={"font_weight": "500"}), ": ", item["why"])


def _field() -> rx.Component:
    reason = rx.input(
        placeholder="Reason, such as host maintenance",
        value=BulkState.reason,
        on_change=BulkState.set_reason,
        aria_label="Reason",
    )
    label = rx.input(placeholder="tier=edge", value=BulkState.label, on_change=BulkState.set_label, aria_label="Label")
    return rx.match(BulkState.kind, ("drain", reason), ("label", label), rx.fragment())


def _text(words: dict[str, str]) -> rx.Component:
    return rx.match(BulkState.kind, *words.items(), "")


def bulk_question() -> rx.Component:
    """Ask once for all of them; afterwards list those that refused, and why."""
    confirm = act_button(
        _text({"drain": "Drain", "disable": "Disable", "update": "Update", "label": "Add label"}),
        on_click=BulkState.confirm,
        loading=BulkState.is_busy,
        custom_attrs={"data-testid": "bulk-confirm"},
    )
    refused = rx.el.div(
        rx.el.p("These were left as they are:"),
        rx.el.ul(rx.foreach(BulkState.refused, _refusal), class_name="ry-list"),
        custom_attrs={"data-testid": "bulk-refused"},
    )
    has_refused = BulkState.refused.length() > 0
    close = plain_button(rx.cond(has_refused, "Close", "Cancel"), on_click=BulkState.close)
    more = rx.cond(BulkState.words != "", ": " + BulkState.words, "")
    return dialog(
        _text(TITLES),
        rx.fragment(_count(), " selected", more, ". ", _text(EFFECTS)),
        rx.el.div(rx.cond(has_refused, refused, _field()), class_name="ry-dialog-field"),
        dialog_acts(close, rx.cond(has_refused, rx.fragment(), confirm)),
        is_open=BulkState.kind != "",
        on_open_change=lambda _is_open: BulkState.close(),
        width="480px",
        custom_attrs={"data-testid": "bulk-question"},
    )
