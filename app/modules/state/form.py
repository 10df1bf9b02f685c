"""The sheet that makes and changes modules and groups."""

from typing import Any

import reflex as rx

from app.frame.session import SEGMENT, puts, takes
from app.jobs.state.run import RunnerChoices
from app.modules.state.modules import ModulesState, say_path
from app.modules.view.repository import INHERIT
from app.modules.view.spec import HOOKS, SOURCE_KINDS, FileRow, check, empty_form, hook_fields, to_form
from app.project.models import Row
from app.ui.form import fields
from app.ui.form.fields import Checked, texts
from wire.spans import write_time_limits

MAX_ROWS = 64
# The lists of files in the form.
FILES = ("inline", "extra")
# The sheet may be scrolled far away from what is wrong.
SHOW_PROBLEM = "setTimeout(() => document.querySelector('.ry-sheet .err')?.scrollIntoView({block: 'center'}), 80)"
NO_FIELDS: dict[str, str] = {**empty_form("")["fields"]}


class ModuleFormState(RunnerChoices, rx.State):
    """The form that is open; what is typed stays in the browser until it is saved."""

    kind: str = ""
    title: str = ""
    is_new: bool = True
    source_kind: str = "git"
    values: dict[str, str] = NO_FIELDS
    inline: list[FileRow] = []
    extra: list[FileRow] = []
    errors: dict[str, str] = {}
    revision: int = 0
    _module_id: str = ""

    set_source_kind = takes("source_kind", SEGMENT, of=SOURCE_KINDS)
    # Close the sheet when a page opens: states outlive a reload.
    leave = puts(kind="", errors={})

    async def _page(self) -> ModulesState:
        return await self.get_state(ModulesState)

    def _open(self, kind: str, title: str, form: dict[str, Any]) -> None:
        self.kind, self.title, self.errors = kind, title, {}
        self.values, self.source_kind = form["fields"], form["fields"].get("source_kind", "git")
        self.inline, self.extra = form["inline"], form["extra"]
        # the fields are uncontrolled: another number makes the browser forget what it held
        self.revision += 1

    @rx.event
    async def new_module(self) -> None:
        page = await self._page()
        await self._read_runners()
        self.is_new, self._module_id = True, ""
        self._open("module", "New module", dict(empty_form(_group_here(page))))

    @rx.event
    async def begin(self) -> None:
        if self.router.url.query_parameters.get("new") == "1":
            await self.new_module()

    @rx.event
    async def edit_module(self) -> None:
        page = await self._page()
        if not page._full:
            return
        await self._read_runners()
        self.is_new, self._module_id = False, str(page._full["id"])
        self._open("module", f"Edit {page._full['name']}", dict(to_form(page._full)))

    @rx.event
    async def edit_source(self) -> rx.event.EventSpec:
        """Edit the module from its source on."""
        await self.edit_module()
        return rx.call_script("window.runyard.focusIn('.ry-sheet [aria-label=Source] [data-state=on]')")

    @rx.event
    async def new_group(self) -> None:
        page = await self._page()
        self.is_new = True
        above = _group_here(page)
        self._open_group("New group", {"path": f"{above}/" if above else ""})

    @rx.event
    async def edit_group(self) -> None:
        page = await self._page()
        row = next((row for row in page._groups if row["path"] == page.group["path"]), None)
        if row is None:
            return
        self.is_new = False
        self._open_group(f"Edit {row['path']}", row)

    def _open_group(self, title: str, row: Row) -> None:
        values = {"path": str(row["path"]), "description": str(row.get("description") or "")}
        values |= {"git_apply": str(row.get("git_apply") or INHERIT), **hook_fields(row.get("hooks") or {})}
        values |= {"time_limits": write_time_limits(row.get("time_limits") or {})}
        values |= {"drift_action": str(row.get("drift_action") or INHERIT)}
        self._open("group", title, {"fields": values, "inline": [], "extra": []})

    @rx.event
    def set_open(self, is_open: bool) -> None:
        if not is_open:
            self.kind, self.errors = "", {}

    @rx.event
    def add_file(self, where: str) -> None:
        rows = self.get_value(where) if where in FILES else []
        if where in FILES and len(rows) < MAX_ROWS:
            key = str(max((int(row["key"]) for row in rows), default=-1) + 1)
            setattr(self, where, [*rows, {"key": key, "path": "", "content": ""}])

    @rx.event
    def remove_file(self, where: str, key: str) -> None:
        """Take a row away; the others keep what was typed into them."""
        if where in FILES:
            setattr(self, where, [row for row in self.get_value(where) if row["key"] != key])

    @rx.event
    async def save_module(self, form: dict[str, Any]) -> Any:
        if self.kind != "module":
            return None
        checked = check({**form, "source_kind": self.source_kind}, is_new=self.is_new)
        self.errors = checked.errors
        if checked.errors:
            return rx.call_script(SHOW_PROBLEM)
        taken = texts(form)
        row = await self._save(checked.spec, taken)
        self.kind = ""
        address = await (await self._page())._reload(str(row["id"]))
        words = (
            ("Module created", "Run a plan to see what it would create.")
            if self.is_new
            else ("Saved", "Applies to future jobs.")
        )
        return [address, rx.toast.success(words[0], description=words[1])]

    async def _save(self, spec: dict[str, Any], form: dict[str, str]) -> Any:
        if not self.is_new:
            return await self._rpc("update_module", {"p_module": self._module_id, "p_spec": spec})
        args = {
            "p_org": await self._org_id(),
            "p_group_path": fields.group_path(form["group_path"]),
            "p_name": fields.name(form["name"]),
            "p_spec": spec,
        }
        return await self._rpc("create_module", args)

    @rx.event
    async def save_group(self, form: dict[str, Any]) -> Any:
        if self.kind != "group":
            return None
        args = self._check_group(texts(form))
        if args is None:
            return rx.call_script(SHOW_PROBLEM)
        await self._rpc("upsert_group", {"p_org": await self._org_id(), **args})
        self.kind = ""
        page = await self._page()
        path = str(args["p_path"])
        await page._reload()
        await page._choose_group(path)
        return [say_path(path), rx.toast.success("Saved", description="Jobs below this group inherit it.")]

    def _check_group(self, form: dict[str, str]) -> dict[str, Any] | None:
        checked = Checked()
        hooks = {hook: form.get(f"hook:{hook}", "") for hook in HOOKS}
        taken = {
            "p_description": form.get("description", "").strip()[:500],
            "p_path": checked.take("path", form, fields.group_path, ""),
            "p_time_limits": checked.take("time_limits", form, fields.time_limits, {}),
            "p_hooks": {hook: script for hook, script in hooks.items() if script.strip()},
            "p_drift_action": form.get("drift_action") or None,
            "p_git_apply": form.get("git_apply") or None,
        }
        self.errors = checked.errors
        return None if checked.errors else taken


def _group_here(page: ModulesState) -> str:
    """The group of what is shown; that of a temporary module goes away with it."""
    return page.group["path"] or ("" if page._full.get("is_temporary") else page.module["group_path"])
