"""Panels for the page of a module or group: the set that runs, "Plan all", and its schedules."""

from typing import Any

import reflex as rx

from app.frame.session import SessionState, may
from app.triggers.state.work import WorkState
from app.triggers.view.schedules import ScheduleView
from app.triggers.view.sets import FailureView, KeyView, SetView
from app.ui.controls import act_button, dropdown, icon, icon_button, link_button, page_link, plain_button, small_button
from app.ui.dialog import question, typed_field
from app.ui.panel import menu_item, titled_panel

State = WorkState
CHANGED = {"data-testid": "set-changes"}
BUSY = "A set is running here. Wait for it or cancel the rest."


def _ask_apply() -> rx.Component:
    return question(
        is_open=State.asking == "APPLY",
        title=rx.fragment("Apply all modules below ", State.path, "?"),
        text="Each one is applied after those that it depends on. A failure leaves out what depends on it. Modules that "
        "require approvals wait for them.",
        act="Apply all",
        on_act=State.start("APPLY"),
        on_keep=State.ask(""),
        is_danger=False,
    )


def _ask_destroy() -> rx.Component:
    label = ("Type ", rx.el.span(State.path, class_name="ry-mono"), " to confirm")
    typed = typed_field("destroy-path", *label, value=State.typed, on_change=State.set_typed)
    return question(
        typed,
        is_open=State.asking == "DESTROY",
        title=rx.fragment("Destroy everything below ", State.path, "?"),
        text="Each module is destroyed before those that it depends on, without another confirmation. Modules that "
        "require approvals wait for them.",
        act="Destroy all",
        on_act=State.start("DESTROY"),
        on_keep=State.ask(""),
        is_disabled=State.typed != State.path,
    )


def work_buttons(*more: rx.Component) -> rx.Component:
    """Plan or apply all modules below, and a menu with the rest and with `more`; disabled while a set runs, with the reason."""

    def props(event: Any) -> dict[str, Any]:
        return {"on_click": event, "disabled": State.is_running, "title": rx.cond(State.is_running, BUSY, "")}

    plan = act_button(icon("file-search"), "Plan all", **props(State.start("PLAN")))
    apply = plain_button(icon("play"), "Apply all in order", **props(State.ask("APPLY")))
    check = menu_item("search-check", "Check all for drift", State.start("DRIFT"), disabled=State.is_running)
    destroy = menu_item("flame", "Destroy all", State.ask("DESTROY"), disabled=State.is_running, color_scheme="red")
    rest = (rx.cond(may("job.plan"), check), *more, rx.cond(may("job.destroy"), destroy))
    return rx.fragment(
        rx.cond(may("job.plan"), plan),
        rx.cond(may("job.apply"), apply),
        dropdown(
            icon_button("ellipsis", "Group actions", title="More actions", variant="surface", size="2"),
            *rest,
            align="end",
        ),
        _ask_apply(),
        _ask_destroy(),
    )


def _failure(one: rx.Var[FailureView]) -> rx.Component:
    number = rx.cond(
        one["href"] != "",
        page_link(one["job"], href=one["href"].to(str), class_name="ry-a num"),
        rx.el.span(one["job"]),
    )
    text = rx.el.div(
        number, " ", rx.el.span(one["path"], class_name="ry-mono"), rx.el.small(one["message"]), class_name="grow"
    )
    return rx.el.li(icon("circle-x", class_name="t-red"), text)


def _key(one: rx.Var[KeyView]) -> rx.Component:
    return rx.el.span(rx.el.i(style={"background": one["color"]}), one["words"])


def _waits(row: rx.Var[SetView]) -> rx.Component:
    lines = row["waits"].to(list[str])
    why = rx.el.details(
        rx.el.summary("Why modules wait or were left out"),
        rx.el.ul(rx.foreach(lines, lambda line: rx.el.li(line, class_name="ry-breaks"))),
        class_name="ry-pb ry-waits",
        custom_attrs={"data-testid": "set-waits"},
    )
    return rx.cond(lines.length() > 0, why)


def _set(row: rx.Var[SetView]) -> rx.Component:
    key = row["id"].to(str)
    bar = rx.el.div(
        rx.el.i(class_name="s", style={"width": row["succeeded"]}),
        rx.el.i(class_name="x", style={"width": row["failed"]}),
        rx.el.i(class_name="n", style={"width": row["running"]}),
        class_name="ry-setb",
        role="img",
        aria_label=row["line"].to(str),
    )
    key_line = rx.el.div(
        rx.foreach(row["key"].to(list[KeyView]), _key), class_name="ry-key num", style={"margin_top": "10px"}
    )
    retry = small_button(icon("rotate-cw"), "Retry failed", on_click=State.retry(key))
    cancel = small_button("Cancel the rest", on_click=State.cancel(key))
    changed = rx.cond(
        row["changes_href"] != "",
        page_link("Show changes", href=row["changes_href"].to(str), class_name="ry-link", custom_attrs=CHANGED),
    )
    review = link_button("Review", href=row["review_href"].to(str), size="1", attrs={"data-testid": "set-review"})
    acts = rx.el.div(
        rx.cond(row["can_retry"] & may("job.plan"), retry),
        rx.cond(row["is_running"] & may("job.cancel"), cancel),
        class_name="ry-acts",
        style={"flex_wrap": "nowrap"},
    )
    return rx.el.section(
        rx.el.div(
            rx.el.h2(
                row["title"],
                ": ",
                rx.el.span(row["line"], class_name="num", custom_attrs={"data-testid": "set-progress"}),
            ),
            rx.el.span(row["by"], rx.cond(row["left"] != "", ", " + row["left"].to(str), ""), class_name="mut hide-s"),
            rx.el.span(class_name="grow"),
            rx.cond(row["review_href"] != "", review),
            # An empty row of buttons would leave its gap.
            rx.cond(may("job.plan", "job.cancel") & (row["can_retry"] | row["is_running"]), acts),
            class_name="ry-ph wrap",
        ),
        rx.el.div(bar, key_line, class_name="ry-pb", style={"padding_bottom": "12px"}),
        rx.el.ul(rx.foreach(row["failures"].to(list[FailureView]), _failure), class_name="ry-list"),
        _waits(row),
        rx.cond(row["foot"] != "", rx.el.div(rx.el.span(row["foot"]), changed, class_name="ry-foot")),
        class_name="ry-panel",
        aria_label=row["title"].to(str),
        key=row["id"],
    )


def set_panels() -> rx.Component:
    return rx.fragment(rx.foreach(State.sets, _set))


def _schedule(row: rx.Var[ScheduleView]) -> rx.Component:
    inherited = rx.cond(row["path"] == State.path, "", ", from " + row["where"].to(str))
    modules = rx.cond(row["modules"] == 1, "1 module", row["modules"].to_string() + " modules")
    below = rx.cond(
        row["is_on"],
        rx.fragment("Next ", row["next"], " ", row["zone"], ", ", modules, inherited),
        rx.fragment("Off. ", row["reason"]),
    )
    mark = rx.cond(row["is_on"], icon("calendar-clock", class_name="mut"), icon("circle-pause", class_name="mut"))
    kind = rx.match(row["type"], ("DRIFT", "Drift check"), ("PLAN", "Plan"), ("APPLY", "Apply"), "Destroy")
    text = rx.el.div(
        kind, " · ", rx.el.span(row["words"], title=row["cron"].to(str)), rx.el.small(below), class_name="grow"
    )
    return rx.el.li(mark, text, key=row["id"])


def path_schedules() -> rx.Component:
    """The schedules of the path and of the groups above it."""
    link = page_link("Create", href="/dashboard/jobs/schedules", size="1")
    create = rx.cond(SessionState.can_operate, link)
    none = rx.el.div(rx.el.span("No schedules.", class_name="mut"), class_name="ry-pb")
    rows = rx.el.ul(rx.foreach(State.schedules, _schedule), class_name="ry-list")
    return titled_panel(
        "Schedules", (rx.el.span(class_name="grow"), create), rx.cond(State.schedules.length() > 0, rows, none)
    )
