"""A module: what it is, where it comes from, what it did, and its state."""

from typing import Any

import reflex as rx

from app.access.panel import access_panel
from app.frame.layout import OF_MODULE, page_key, path_tabs
from app.frame.session import may
from app.jobs.components.table import job_link, plan_counts
from app.jobs.state.run import RunState
from app.jobs.view.state_versions import Version
from app.modules.components.contents import history_chart, locks, outputs, resources, source_files
from app.modules.components.dependencies import changed_note, dependencies, output_readers
from app.modules.components.group import beside_rail
from app.modules.components.repository import repository
from app.modules.components.state_change import change_button
from app.modules.state.actions import ModuleActionState
from app.modules.state.contents import ModuleContentsState
from app.modules.state.form import ModuleFormState
from app.modules.state.modules import HistoryRow, ModulesState
from app.modules.view.module import Pair
from app.triggers.components.work import path_schedules
from app.ui.badges import job_badge, pill, tag
from app.ui.controls import (
    act_button,
    download_icon,
    dropdown,
    icon,
    icon_button,
    link_button,
    page_link,
    plain_button,
    quiet_button,
    small_button,
)
from app.ui.elements import ago, clock_time, date, since
from app.ui.panel import fact, menu_item, notice, titled_panel
from app.ui.resource import Column, moment, rows_table

Module = ModulesState.module
# On the first page of a module; its tab Jobs has all that are known here.
NEWEST = 5


def _plans() -> rx.Component:
    module = Module["id"].to(str)
    return rx.fragment(
        menu_item("search-check", "Check for drift", RunState.run_now("DRIFT", module)),
        menu_item("list-tree", "Read outputs", RunState.run_now("OUTPUT", module)),
        rx.cond(
            ModulesState.state.versions.length() == 0,
            menu_item("download", "Bring in state", RunState.bring_state(module)),
        ),
        menu_item("square-terminal", "Use from your terminal", ModuleActionState.show_terminal(True)),
    )


def _menu() -> rx.Component:
    is_locked = ModuleContentsState.lock.by != ""
    lock = rx.cond(
        is_locked,
        menu_item("lock-open", "Unlock", ModuleActionState.unlock_it),
        menu_item("lock", "Lock", ModuleActionState.ask_lock(True)),
    )
    ask = RunState.ask("DESTROY", Module["id"].to(str))
    destroy = menu_item("flame", "Destroy", ask, color_scheme="red", disabled=is_locked)
    return dropdown(
        icon_button("ellipsis", "Module actions", title="More actions", variant="surface", size="2"),
        rx.cond(may("module.write"), menu_item("pencil", "Edit", ModuleFormState.edit_module)),
        rx.cond(may("job.plan"), _plans()),
        rx.cond(may("module.lock"), lock),
        rx.cond(may("job.apply"), rx.fragment(rx.dropdown_menu.separator(), destroy)),
        rx.cond(
            may("module.delete"),
            menu_item("trash-2", "Remove the module", ModuleActionState.ask("remove_module"), color_scheme="red"),
        ),
        width="210px",
        align="end",
    )


def _crumb(pair: rx.Var[Pair]) -> rx.Component:
    link = page_link(pair["label"], href="/dashboard/modules?path=" + pair["value"].to(str), class_name="ry-a mut")
    return rx.fragment(link, " / ")


def _head() -> rx.Component:
    is_locked, path = ModuleContentsState.lock.by != "", Module["path"].to(str)
    plan = rx.fragment(
        plain_button(
            icon("file-search"),
            "Plan",
            on_click=RunState.run_now("PLAN", Module["id"].to(str)),
            custom_attrs={"data-key": "plan:" + path},
        ),
        page_key("drift:" + path, RunState.run_now("DRIFT", Module["id"].to(str))),
    )
    apply = rx.fragment(
        act_button(
            icon("play"),
            "Apply",
            on_click=RunState.ask("APPLY", Module["id"].to(str)),
            disabled=is_locked,
            custom_attrs={"data-key": "apply:" + path},
            title=rx.cond(is_locked, "Locked by " + ModuleContentsState.lock.by + ": unlock the module first", ""),
        ),
        page_key("destroy:" + path, RunState.ask("DESTROY", Module["id"].to(str))),
    )
    acts = (
        rx.cond(may("job.plan"), plan),
        rx.cond(may("job.apply"), apply),
        rx.cond(may("module.lock"), page_key("lock:" + path, ModuleActionState.ask_lock(True))),
        rx.cond(may("job.plan", "module.lock", "module.write", "module.delete"), _menu()),
    )
    badge = rx.cond(
        Module["status"] != "",
        rx.el.span(job_badge(Module["status"].to(str)), title="Last apply, destroy or drift check"),
    )
    about = rx.cond(Module["description"] != "", rx.el.p(Module["description"]))
    return rx.el.div(
        rx.el.div(
            rx.el.div(rx.el.h1(Module["name"]), badge, class_name="ry-row ry-wraps"),
            rx.el.p(rx.foreach(Module["crumbs"].to(list[Pair]), _crumb), Module["name"], class_name="ry-mono"),
            about,
        ),
        rx.el.div(*acts, class_name="ry-acts"),
        class_name="ry-head",
    )


def _facts() -> rx.Component:
    drift = rx.fragment(
        ModulesState.drift,
        rx.cond(ModulesState.drift_since != "", rx.el.span(", since ", date(ModulesState.drift_since))),
        rx.cond(ModulesState.drift_at != "", rx.el.span(", checked ", ago(ModulesState.drift_at), class_name="mut")),
    )
    approvals = rx.fragment(
        Module["approvals"],
        rx.cond(Module["is_auto_apply"], rx.el.span(", auto-apply", class_name="mut"), ""),
        rx.cond(
            Module["can_apply_uploads"],
            rx.el.span(", uploaded folders too", class_name="mut", custom_attrs={"data-testid": "applies-uploads"}),
            "",
        ),
    )
    return rx.el.dl(
        fact("Engine", Module["engine"]),
        fact("Source", rx.el.span(Module["source"], class_name="ry-mono")),
        fact("Runner", Module["runner"], " ", rx.el.span(Module["runner_note"], class_name="mut")),
        fact("Approvals", approvals),
        fact("Resources", rx.el.span(ModuleContentsState.contents.total, class_name="num")),
        fact("Drift", drift),
        class_name="ry-panel ry-facts",
    )


def _drift_note() -> rx.Component:
    """The note on drift: what a check found, and that nothing was changed."""
    address = "/dashboard/jobs/" + ModuleContentsState.drift_job
    show = link_button("Show drift", href=address, size="1", attrs={"data-testid": "show-drift"})
    note = notice(
        "triangle-alert",
        "Drift found ",
        ago(Module["drift_since"].to(str)),
        ": ",
        Module["drift"],
        " differ from the state. ",
        rx.el.span("Nothing was changed. A plan shows what an apply would correct."),
        tone="amber",
        beside=(rx.cond(ModuleContentsState.drift_job != "", show),),
        test_id="drift",
    )
    return rx.cond(Module["drift_since"] != "", note)


def _pair(pair: rx.Var[Pair]) -> rx.Component:
    quiet = (pair["value"] == "None") | (pair["value"] == "Not pinned")
    return rx.fragment(
        rx.el.dt(pair["label"]), rx.el.dd(pair["value"], class_name=rx.cond(quiet, "mut", "ry-mono ry-breaks"))
    )


def _source() -> rx.Component:
    edit = small_button(icon("pencil"), "Edit", on_click=ModuleFormState.edit_source)
    return titled_panel(
        "Source",
        (rx.el.span(class_name="grow"), rx.cond(may("module.write"), edit)),
        rx.el.div(
            rx.el.dl(rx.foreach(Module["source_rows"].to(list[Pair]), _pair), class_name="ry-dl"), class_name="ry-pb"
        ),
    )


def _number(job: rx.Var[HistoryRow]) -> rx.Component:
    return rx.el.div(job_link(job), rx.cond(job["is_upload"], tag("upload")), class_name="ry-row c6")


def _result(job: rx.Var[HistoryRow]) -> rx.Component:
    why = rx.el.span(rx.cond(job["reason"] != "", job["reason"], "–"), class_name="mut ry-el ry-history-why")
    return rx.cond(job["has_plan"], plan_counts(job), why)


def _revision(job: rx.Var[HistoryRow]) -> rx.Component:
    return rx.el.span(rx.cond(job["revision"] != "", job["revision"], "–"), class_name="ry-mono")


HISTORY = (
    Column("Job", _number, "n-a"),
    Column("Status", lambda job: job_badge(job["status"].to(str)), "n-b"),
    Column("Result", _result, "n-c ry-rest"),
    Column("Revision", _revision, "mut hide-s hide-m"),
    Column("Time", lambda job: since(job["since"].to(str), job["until"].to(str)), "r num n-d"),
    Column("When", moment("created_at", clock_time), "r mut num hide-s"),
)


def _status(job: rx.Var[HistoryRow]) -> dict[str, Any]:
    return {"data-status": job["status"]}


def _history(jobs: rx.Var[list[HistoryRow]], every: str) -> rx.Component:
    """The newest jobs of the module, and the address of what lists more of them."""
    rows = rows_table("History", HISTORY, jobs, _status, class_name="ry-history")
    none = rx.el.div(
        "It has not run yet. A plan shows what it would create, and changes nothing.", class_name="ry-pb mut"
    )
    more = page_link("All", href=every + Module["path"].to(str), class_name="ry-link", underline="none")
    return titled_panel(
        "History",
        (rx.el.span(class_name="grow"), more),
        history_chart(),
        rx.cond(jobs.length() > 0, rows, none),
    )


def _version(version: rx.Var[Version]) -> rx.Component:
    number = version.serial.to_string()
    compare = rx.cond(
        version.is_oldest,
        rx.fragment(),
        quiet_button(
            "Compare",
            on_click=ModuleActionState.compare_with(version.serial),
            aria_label="Compare serial " + number + " with the one before",
        ),
    )
    back = rx.cond(
        version.serial == ModulesState.state.serial,
        rx.fragment(),
        quiet_button(
            "Roll back",
            on_click=ModuleActionState.ask_roll_back(version.serial),
            aria_label="Roll back to serial " + number,
        ),
    )
    href = "/api/modules/" + Module["id"].to(str) + "/state/" + number
    acts = rx.fragment(compare, back, download_icon(href, "Download serial " + number, "Download"))
    return rx.el.li(
        icon("layers", class_name="mut"),
        rx.el.div(
            rx.el.span("Serial ", version.serial, class_name="num"),
            rx.el.small(ago(version.at), ", ", version.writer, ", ", version.size),
            class_name="grow",
        ),
        rx.cond(may("state.text"), acts),
        key=number,
    )


def _state() -> rx.Component:
    state = ModulesState.state
    locked = pill(
        icon("lock", "xs"),
        rx.cond(state.lock_job > 0, "Locked by #" + state.lock_job.to_string(), "Locked"),
        color="amber",
    )
    none = rx.el.div(
        rx.cond(
            Module["backend"] == "own",
            "The module keeps its own backend. Runyard stores no state of it.",
            "No state yet. The first apply writes it, or bring in one that exists.",
        ),
        class_name="ry-pb mut",
    )
    return titled_panel(
        "State versions",
        (rx.el.span(class_name="grow"), rx.cond(state.is_locked, locked, change_button())),
        rx.cond(
            state.versions.length() > 0, rx.el.ul(rx.foreach(state.versions, _version), class_name="ry-list"), none
        ),
    )


def module_detail() -> rx.Component:
    overview = rx.fragment(
        _facts(),
        _drift_note(),
        changed_note(),
        locks(),
        beside_rail(
            [_history(ModulesState.history[:NEWEST], "/dashboard/modules?tab=jobs&path=")],
            [outputs(), repository(), path_schedules()],
            [resources(), _source(), source_files()],
        ),
    )
    return rx.el.div(
        _head(),
        path_tabs(Module["path"].to(str), OF_MODULE, ModulesState.tab),
        rx.match(
            ModulesState.tab,
            ("Jobs", _history(ModulesState.history, "/dashboard/jobs?search=")),
            ("Order", rx.fragment(changed_note(), dependencies(), output_readers())),
            ("State", rx.fragment(locks(), _state())),
            ("Access", access_panel()),
            overview,
        ),
        class_name="ry-stack ry-detail",
    )
