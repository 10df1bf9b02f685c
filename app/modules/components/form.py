"""The sheet that makes and changes modules and groups."""

from typing import Any

import reflex as rx

from app.frame.pick import picks
from app.frame.session import may
from app.jobs.view.words import ENGINE_WORDS
from app.modules.state.form import ModuleFormState
from app.modules.view.repository import INHERIT
from app.modules.view.spec import HOOKS, FileRow
from app.triggers.view.triggers import APPLY_MODES
from app.ui.controls import choice, icon, icon_button, offered, segments, small_button
from app.ui.dialog import sheet, sheet_form
from app.ui.form.elements import check_field, exact_input, field, problem_line, text_area, text_field

State = ModuleFormState
DRIFT_HINT = (
    "One rule a line: address, attribute (all without), until=date (no end without), # reason. Applies are not changed."
)
DRIFT_EXAMPLE = "aws_instance.web* tags.LastSeen until=2030-01-31 # the scanner sets it"
DRIFT_ACTIONS = {
    INHERIT: "As the group above",
    "tell": "Tell",
    "plan": "Plan, and wait for a person",
    "apply": "Plan, and apply if only drifted resources are touched and nothing is destroyed",
    "accept": "Accept: take it into the state",
}


def _problem(key: Any) -> rx.Component:
    return rx.cond(State.errors.contains(key), problem_line(key, State.errors[key]))


def _text(key: str, label: str, hint: str = "", placeholder: str = "", **props: Any) -> rx.Component:
    return text_field(key, label, State.values[key], State.errors, hint, placeholder=placeholder, **props)


def _area(key: str, label: str, hint: str = "", placeholder: str = "", rows: str = "4") -> rx.Component:
    look = {"placeholder": placeholder, "rows": rows, "class_name": "ry-codearea"}
    return field(key, label, text_area(key, State.values[key], **look), State.errors, hint)


def _section(title: str, *children: rx.Component) -> rx.Component:
    return rx.el.fieldset(rx.el.legend(title, class_name="ry-h2"), *children, class_name="ry-fields")


def _path(row: rx.Var[FileRow], where: str, key: rx.Var[str]) -> rx.Component:
    return rx.el.div(
        exact_input(
            name=f"{where}_path:" + key,
            default_value=row["path"],
            placeholder="main.tf",
            aria_label="Path",
            class_name="grow ry-mono",
        ),
        icon_button("x", "Remove this file", State.remove_file(where, key), type="button"),
        class_name="ry-row",
    )


def _file(row: rx.Var[FileRow], where: str) -> rx.Component:
    key = row["key"].to(str)
    return rx.el.div(
        _path(row, where, key),
        _problem(f"{where}_path:" + key),
        rx.text_area(
            name=f"{where}_content:" + key,
            default_value=row["content"],
            aria_label="Content",
            rows="14",
            class_name="ry-codearea",
            custom_attrs={"spellCheck": "false"},
        ),
        _problem(f"{where}_content:" + key),
        class_name="ry-f ry-file",
        key=key,
    )


def _files(where: str, rows: rx.Var[list[FileRow]]) -> rx.Component:
    return rx.fragment(
        rx.foreach(rows, lambda row: _file(row, where)),
        _problem(where),
        small_button(icon("plus"), "Add a file", type="button", on_click=State.add_file(where), class_name="ry-start"),
    )


def _git() -> rx.Component:
    hint = "Without user and password: those belong on the runner."
    return rx.fragment(
        _text("git_url", "Repository", hint, "https://git.example.com/infra"),
        rx.el.div(
            _text("git_ref", "Revision", "Branch, tag or commit.", "main"),
            _text("git_subfolder", "Folder", "", "network/vpc"),
            class_name="ry-two",
        ),
    )


def _archive() -> rx.Component:
    return rx.fragment(
        _text("archive_url", "Address", "A .tar.gz or .zip over https.", "https://example.com/vpc.tar.gz"),
        _text("archive_sha256", "SHA-256", "The runner refuses anything else."),
        _text("archive_subfolder", "Folder"),
    )


def _source() -> rx.Component:
    kinds = {"git": "Git", "archive": "Archive", "inline": "Inline", "local": "On the runner"}
    local = _text("local_path", "Path", "A folder on the machine of the runner that takes the job.", "/srv/infra/vpc")
    return _section(
        "Source",
        segments("Source", kinds, value=State.source_kind, on_change=State.set_source_kind),
        rx.match(
            State.source_kind,
            ("archive", _archive()),
            ("inline", _files("inline", State.inline)),
            ("local", local),
            _git(),
        ),
    )


def _select(key: str, label: str, options: dict[str, str], hint: str = "", *more: rx.Component) -> rx.Component:
    control = choice(label, options, *more, name=key, default_value=State.values[key], width=None)
    return field(key, label, control, State.errors, hint)


def _engine() -> rx.Component:
    return _section(
        "Engine",
        rx.el.div(
            _select("engine", "Engine", ENGINE_WORDS),
            _text("engine_version", "Version", "Leave empty to use the runner's version.", "1.10.5"),
            class_name="ry-two",
        ),
    )


def _hooks() -> rx.Component:
    areas = [_area(f"hook:{name}", name.replace("_", " ").capitalize(), rows="3") for name in HOOKS]
    return rx.el.details(
        rx.el.summary("Scripts before and after each step", class_name="ry-lab"), *areas, class_name="ry-more"
    )


def _running() -> rx.Component:
    pins, nearest = {"any": "Any eligible runner"}, "The nearest one, unless you pin it."
    auto = check_field(
        "Auto-apply when a plan has changes", name="auto_apply", default_checked=State.values["auto_apply"] == "on"
    )
    uploads = check_field(
        "Allow applying plans of uploaded folders (runyard run plan .)",
        name="can_apply_uploads",
        default_checked=State.values["can_apply_uploads"] == "on",
    )
    # Only admins allow it; anyone who edits the module may take it back.
    may_choose = may("module.guard") | (State.values["can_apply_uploads"] == "on")
    return _section(
        "Running",
        _text("labels", "Labels", "Only runners that have all of them take its jobs.", "gpu=true, zone=eu"),
        rx.el.div(
            _select("pinned_worker_id", "Runner", pins, nearest, offered(State.runners)),
            _text("runner_instance_name", "Instance", "One process of that runner, by name."),
            class_name="ry-two",
        ),
        rx.el.div(
            _text("approvals_required", "Approvals required", "To apply and destroy.", type="number"),
            _text("approval_hours", "Approval expires after", "Hours. After that the job is cancelled.", type="number"),
            class_name="ry-two",
        ),
        _time_limits("The rest is as its groups have it."),
        auto,
        rx.cond(may_choose, uploads),
    )


def _time_limits(inherited: str) -> rx.Component:
    return _text(
        "time_limits", "Time limits", f"What takes longer is stopped. {inherited}", "plan=1h, apply=4h, hook=60s"
    )


def _where() -> rx.Component:
    new = rx.el.div(
        _text("group_path", "Group", "Created if it does not exist yet.", "platform/network", **picks("groups")),
        _text("name", "Name", "Lower-case letters, digits and dashes.", "vpc"),
        class_name="ry-two",
    )
    about = _text("description", "Description", "What it is for, in a few words.")
    return rx.el.div(rx.cond(State.is_new, new), about, class_name="ry-fields")


def _module_fields() -> rx.Component:
    return rx.fragment(
        _where(),
        _source(),
        _engine(),
        _section("Extra files", _files("extra", State.extra)),
        _section("Hooks", _hooks()),
        _running(),
        _section("Drift", _area("drift_ignores", "Ignore", DRIFT_HINT, DRIFT_EXAMPLE)),
    )


def _group_fields() -> rx.Component:
    new = _text("path", "Path", "Created with every group above it.", "platform/network")
    fixed = rx.el.input(type="hidden", name="path", default_value=State.values["path"])
    modes = {INHERIT: "As the group above", **APPLY_MODES}
    return rx.fragment(
        rx.cond(State.is_new, new, fixed),
        _text("description", "Description", "What belongs here."),
        _select(
            "git_apply", "Apply plans of repositories", modes, "Modules below inherit it, unless they have their own."
        ),
        _time_limits("For modules below."),
        _select(
            "drift_action",
            "When a check finds drift",
            DRIFT_ACTIONS,
            "The same finding once. Modules below inherit it.",
        ),
        _hooks(),
    )


def module_sheet() -> rx.Component:
    """The sheet; what is typed stays until it is saved or left."""
    save, is_group = rx.cond(State.is_new, "Create module", "Save"), State.kind == "group"
    about = rx.cond(
        is_group,
        "A group holds modules and what they inherit.",
        "A module is what jobs act on: source, engine, variables, state.",
    )
    form = rx.cond(
        is_group,
        sheet_form(State, save, _group_fields(), on_submit=State.save_group),
        sheet_form(State, save, _module_fields(), on_submit=State.save_module),
    )
    return sheet(State, State.kind != "", State.title, about, form)
