"""The move-in page: where from, which root modules, and the state of each with its first plan."""

from typing import Any

import reflex as rx

from app.frame.layout import Route, head, page
from app.frame.pick import picks
from app.frame.session import SessionState
from app.move_in.state import PATH, MoveInState
from app.move_in.view import BroughtRow, RootRow
from app.ui.badges import pill
from app.ui.controls import act_button, icon, link_button, number_link, page_link, plain_button, segments
from app.ui.form.elements import exact_input
from app.ui.panel import notice, or_problem
from app.ui.resource import Column, mono, rows_table, unmarked

State = MoveInState
# A socket's message would be too large for an archive.
SEND = """(async () => {
  const file = document.getElementById('move-in-archive').files[0];
  const group = document.getElementById('move-in-group').value;
  if (!file) return { message: 'Choose an archive.' };
  const address = '/api/move-in?' + new URLSearchParams({ group, name: file.name });
  const headers = { 'Content-Type': 'application/octet-stream' };
  return await (await fetch(address, { method: 'POST', body: file, headers })).json();
})()"""


def _panel(number: str, title: str, about: Any, is_done: Any, *children: Any) -> rx.Component:
    done = rx.el.span(icon("check", "xs"), class_name="ry-step ok num")
    mark = rx.cond(is_done, done, rx.el.span(number, class_name="ry-step now num"))
    return rx.el.section(
        rx.el.div(mark, rx.el.h2(title), rx.el.span(about, class_name="mut"), class_name="ry-ph wrap"),
        *children,
        class_name="ry-panel",
        aria_label=title,
    )


def _input(name: str, label: str, value: Any, **props: Any) -> rx.Component:
    return exact_input(name=name, id=f"move-in-{name}", placeholder=label, default_value=value, aria_label=label, **props)  # fmt: skip


def _from_git() -> rx.Component:
    return rx.form(
        _input("url", "Git URL", State.url, class_name="grow ry-mono", required=True),
        _input("ref", "Branch, tag or commit", State.ref, width="160px"),
        _input("group", "Group", State.group, width="160px", required=True, **picks("groups")),
        act_button(rx.cond(State.number > 0, "Read again", "Read"), type="submit", disabled=State.is_reading),
        on_submit=State.read,
        class_name="ry-bar grow",
        key=State.number.to_string(),
    )


def _from_archive() -> rx.Component:
    return rx.el.div(
        rx.el.input(type="file", id="move-in-archive", accept=".tar,.tgz,.gz,.zip", aria_label="Archive"),
        _input("group", "Group", State.group, width="160px", **picks("groups")),
        act_button("Read", on_click=rx.call_script(SEND, callback=State.sent), type="button"),
        rx.cond(State.archive != "", rx.el.span("Read: ", State.archive, class_name="mut")),
        class_name="ry-bar grow",
        key=State.number.to_string(),
    )


def _source() -> rx.Component:
    kinds = segments(
        "Where from",
        {"git": "Git URL", "upload": "Upload"},
        value=rx.cond(State.is_upload, "upload", "git"),
        on_change=State.choose_source,
    )
    about = rx.cond(
        State.is_reading,
        "A runner reads it.",
        rx.cond(State.read_by != "", "Read by " + State.read_by, "A runner reads it with its own credentials."),
    )
    problem = notice(
        "triangle-alert",
        State.failure,
        tone="red",
        beside=(link_button("Show job", href="/dashboard/jobs/" + State.number.to_string(), size="1", attrs={}),),
        test_id="not-read",
    )
    form = rx.el.div(kinds, rx.cond(State.is_upload, _from_archive(), _from_git()), class_name="ry-bar ry-pb")
    return _panel(
        "1",
        "Source",
        about,
        (State.roots.length() + State.brought.length()) > 0,
        rx.cond(SessionState.can_operate, form, rx.el.p("An operator can read a source.", class_name="ry-pb mut")),
        rx.cond(State.failure != "", problem),
    )


def _tick(root: rx.Var[RootRow]) -> rx.Component:
    folder = root["folder"].to(str)
    return rx.checkbox(
        checked=State.chosen.contains(folder),
        disabled=~root["can_come"].to(bool),
        on_change=lambda is_on: State.choose(folder, is_on),
        aria_label="Bring " + _shown(root),
    )


def _shown(root: rx.Var[RootRow]) -> rx.Var[str]:
    return rx.cond(root["folder"] != "", root["folder"], ".").to(str)


def _folder(root: rx.Var[RootRow]) -> rx.Component:
    note = rx.cond(root["note"] != "", rx.el.small(root["note"], class_name="mut"))
    return rx.el.div(rx.el.span(_shown(root), class_name="ry-mono ry-breaks"), note, class_name="ry-row c6 ry-wraps")


ROOTS = (
    Column("Bring", _tick),
    Column("Folder", _folder, "n-a"),
    Column("Path here", mono("path", "ry-breaks"), "n-c"),
    Column("Backend", "backend", "n-b"),
    Column("Engine", "engine", "n-d"),
)


def _roots() -> rx.Component:
    is_done = State.roots.length() == 0
    left = rx.fragment(State.roots.length(), " to bring, ", State.chosen.length(), " chosen")
    about = rx.cond(is_done, "All are here.", left)
    bring = act_button(
        "Bring in ",
        State.chosen.length(),
        on_click=State.bring,
        disabled=State.chosen.length() == 0,
        custom_attrs={"data-testid": "bring"},
    )
    foot = rx.el.div(
        rx.el.span(
            "Folders that only other folders call are left out. Nothing is applied, old backends are only read. "
            "A module's path and engine can be changed once it is here."
        ),
        rx.el.span(class_name="grow"),
        rx.cond(SessionState.can_operate, bring),
        class_name="ry-foot",
    )
    rows = rows_table("Root modules", ROOTS, State.roots, unmarked, key="folder")
    shown = _panel("2", "Root modules", about, is_done, rx.cond(is_done, rx.fragment(), rx.fragment(rows, foot)))
    return rx.cond((State.roots.length() + State.brought.length()) > 0, shown)


def _module(row: rx.Var[BroughtRow]) -> rx.Component:
    return page_link(row["path"], href="/dashboard/modules?module=" + row["id"].to(str), class_name="ry-a ry-mono")


def _plan(row: rx.Var[BroughtRow]) -> rx.Component:
    why = rx.cond(row["why"] != "", rx.el.small(row["why"], class_name="mut"))
    return rx.el.div(pill(row["verdict"], color=row["color"].to(str)), why, class_name="ry-row c6 ry-wraps")


BROUGHT = (
    Column("Module", _module, "n-a"),
    Column("State copied", "state", "n-c"),
    Column("First plan", _plan, "n-b"),
    Column("Job", lambda row: rx.cond(row["number"].to(int) > 0, number_link(row["number"].to_string()), "–"), "n-d"),
)


def _states() -> rx.Component:
    about = rx.fragment(State.proven, " of ", State.brought.length(), " done")
    note = notice(
        "triangle-alert",
        "The old state is out of date as soon as you apply here: deny writes to it, or archive it. ",
        rx.el.span("Until then both copies are the same."),
        tone="amber",
        beside=(link_button("How", href="/docs/bring-in-state/", size="1", attrs={"target": "_blank"}),),
    )
    rows = rows_table("State and first plan", BROUGHT, State.brought, lambda row: {"data-verdict": row["verdict"]})
    is_done = State.proven == State.brought.length()
    group = page_link(plain_button("Open ", State.group), href="/dashboard/modules?path=" + State.group)
    foot = rx.el.div(
        rx.el.span("Open a module to change or apply it."), rx.el.span(class_name="grow"), group, class_name="ry-foot"
    )
    return rx.cond(
        State.brought.length() > 0, rx.fragment(_panel("3", "State and first plan", about, is_done, rows, foot), note)
    )


def move_in() -> rx.Component:
    body = rx.fragment(_source(), _roots(), _states())
    return page(
        head("Bring in existing infrastructure", "From a repository and its state. Nothing is applied."),
        rx.el.div(or_problem(State, "The reading", body, is_page=True), class_name="ry-stack"),
        title="Bring in",
        active="modules",
        crumbs=(("Modules", "/dashboard/modules"),),
    )


ROUTES = (Route(PATH, "Bring in", move_in, [MoveInState.load]),)
