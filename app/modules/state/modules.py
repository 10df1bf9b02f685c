"""The modules page: the tree, and beside it the module or group that was chosen."""

import json
from typing import ClassVar, TypedDict

import reflex as rx

from app.live.page import LivePage
from app.modules.state.contents import ModuleContentsState
from app.modules.state.group import GroupState
from app.modules.view import tree
from app.modules.view.contents import BARS
from app.modules.view.module import ModuleView, build_view, drift_words
from app.modules.view.tree import Node
from app.project.errors import NotThere
from app.project.models import Filter, Query, Row, Session
from app.project.runtime import runtime
from app.project.snapshot import JOB_COLUMNS
from app.project.store import EVERYTHING, Changed, OrgStore
from app.shared import state_versions as module_states
from app.shared.job.rows import JobRow, build_row

MAX_MODULES = 5000
HISTORY = 10
_LIST_COLUMNS = "id,name,path,group_path,drift_since,drift_resources"
_LAST_JOB_COLUMNS = "module_id,id,status"
NO_MODULE: ModuleView = build_view({"id": "", "name": "", "path": ""}, (), ())


class HistoryRow(JobRow):
    """A job of the module, with the revision that it ran."""

    revision: str


class GroupView(TypedDict):
    """A group: what its modules inherit."""

    id: str
    path: str
    description: str
    hooks: list[str]
    env_names: list[str]
    modules: int


NO_GROUP: GroupView = {"id": "", "path": "", "description": "", "hooks": [], "env_names": [], "modules": 0}


class ModulesState(LivePage, rx.State):
    """What the modules page shows."""

    TOPICS: ClassVar[frozenset[str]] = frozenset(
        {"modules", "groups", "provision_jobs", "worker_assignments", "workers"}
    )

    nodes: list[Node] = []
    total: int = 0
    search: str = ""
    chosen: str = ""
    module: ModuleView = NO_MODULE
    group: GroupView = NO_GROUP
    history: list[HistoryRow] = []
    drift: str = ""
    drift_at: str = ""
    state: module_states.StateView = module_states.StateView()
    _modules: list[Row] = []
    _groups: list[Row] = []
    _opened: list[str] = []
    _full: Row = {}
    _assignments: list[Row] = []

    async def _prepare(self, session: Session) -> None:
        asked = {str(self.router.url.query_parameters.get(name, "")) for name in ("path", "module")} - {""}
        self.search, self._opened, self.chosen = "", [], ""
        await self._read_tree()
        found = next((row for row in self._modules if asked & {str(row["id"]), str(row["path"])}), None)
        group = next((row for row in self._groups if str(row["path"]) in asked), None)
        await self._choose_module(found or next(iter(self._modules), None))
        if group is not None and found is None:
            self._opened = sorted({*self._opened, *tree.parents(str(group["path"]))})
            self._choose_group(str(group["path"]))
            await self._read_group()

    async def _read_group(self) -> None:
        await (await self.get_state(GroupState))._read(self.group["path"], self._modules)

    async def _read_tree(self) -> None:
        mine, kept = Filter("org_id", "eq", await self._org_id()), Filter("deleted_at", "is", "null")
        query = Query(columns=_LIST_COLUMNS, filters=(mine, kept), order="path", limit=MAX_MODULES)
        last = Query(columns=_LAST_JOB_COLUMNS, filters=(mine,), order="path", limit=MAX_MODULES)
        modules = (await self._select("modules", query)).rows
        self._modules = tree.with_last_jobs(modules, (await self._select("last_jobs", last)).rows)
        self._groups = (await self._select("groups", Query(filters=(mine,), order="path", limit=MAX_MODULES))).rows
        self._assign("total", len(self._modules))

    async def _choose_module(self, row: Row | None) -> None:
        """Show a module and open the groups above it; without one, nothing is chosen."""
        self.group = NO_GROUP
        if row is None:
            self.chosen, self._full, self.module = "", {}, NO_MODULE
            return
        self.chosen = f"module:{row['id']}"
        self._opened = sorted({*self._opened, *tree.parents(str(row["path"]))})
        await self._read_module(str(row["id"]))

    async def _read_module(self, module_id: str) -> None:
        mine, it = Filter("org_id", "eq", await self._org_id()), Filter("id", "eq", module_id)
        page = await self._select("modules", Query(filters=(mine, it), limit=1))
        if not page.rows:
            raise NotThere("This module is not there any more.", "Choose another one.")
        self._full = page.rows[0]
        self._assignments = (await self._select("worker_assignments", Query(filters=(mine,), limit=MAX_MODULES))).rows
        self._assign("state", module_states.build(await self._rpc("state_info", {"p_module": module_id})))
        await (await self.get_state(ModuleContentsState))._read(self._full)
        await self._read_history(module_id)

    async def _read_history(self, module_id: str) -> None:
        query = Query(
            columns=f"{JOB_COLUMNS},result",
            filters=(Filter("module_id", "eq", module_id),),
            order="id",
            is_descending=True,
            limit=BARS,
        )
        rows = (await self._select("provision_jobs", query)).rows
        [self._full] = tree.with_last_jobs([self._full], rows)
        (await self.get_state(ModuleContentsState))._show_chart(rows)
        self._assign("history", [_history(row) for row in rows[:HISTORY]])
        drift, at = drift_words(rows)
        self._assign("drift", drift)
        self._assign("drift_at", at)

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        if {"modules", "groups"} & changed.tables.keys():
            await self._read_tree()
        jobs = self._changed_jobs(store, changed)
        if jobs:
            self._modules = tree.with_last_jobs(self._modules, jobs)
        if self._full and not changed.is_everything and self._concerns(jobs, changed):
            await self._read_module(str(self._full["id"]))
        self._show_tree()
        if self.group["path"]:
            (await self.get_state(GroupState))._show_modules(self.group["path"], self._modules)
        if self._full:
            workers = store.rows("workers")
            self._assign("module", build_view(self._full, workers, self._assignments))

    @staticmethod
    def _changed_jobs(store: OrgStore, changed: Changed) -> list[Row]:
        if changed.is_everything:
            return store.rows("provision_jobs")
        jobs = (store.row("provision_jobs", key) for key in changed.ids("provision_jobs"))
        return [job for job in jobs if job is not None]

    def _concerns(self, jobs: list[Row], changed: Changed) -> bool:
        mine = str(self._full["id"])
        touched = any(str(job.get("module_id")) == mine for job in jobs)
        return touched or mine in changed.ids("modules") or "worker_assignments" in changed.tables

    def _show_tree(self) -> None:
        self._assign("nodes", tree.build(self._groups, self._modules, self._opened, self.search))

    async def _look_again(self, module_id: str = "") -> None:
        """Read again after something was done, without waiting for the doorbell."""
        who = await self._who()
        store = await runtime().hub.open(who.org_id, await who._must_session())
        await self._read_tree()
        wanted = module_id or str(self._full.get("id", ""))
        found = next((row for row in self._modules if str(row["id"]) == wanted), None)
        await self._choose_module(found or next(iter(self._modules), None))
        await self._show(store, EVERYTHING)

    @rx.event
    async def choose(self, key: str) -> rx.event.EventSpec | None:
        """Open a module, or open and fold a group."""
        kind, _, rest = key.partition(":")
        if kind == "group":
            self._choose_group(rest)
            if self.group["path"] != rest:
                return None
            await self._read_group()
            return rx.call_script(f"history.replaceState(null, '', '?path=' + {json.dumps(rest)})")
        found = next((row for row in self._modules if str(row["id"]) == rest), None)
        if kind != "module" or found is None:
            return None
        await self._choose_module(found)
        await self._again()
        return rx.call_script(f"history.replaceState(null, '', '?path=' + {json.dumps(str(found['path']))})")

    def _choose_group(self, path: str) -> None:
        is_open = path in self._opened
        self._opened = [one for one in self._opened if one != path] if is_open else [*self._opened, path]
        row = next((row for row in self._groups if row["path"] == path), None)
        if row is not None and not is_open:
            self.chosen = f"group:{path}"
            self.group = _group(row, self._modules)
        self._show_tree()

    @rx.event
    def search_for(self, text: str) -> None:
        """Show modules whose path has this in it."""
        self.search = text[:100]
        self._show_tree()

    @rx.event
    def clear_search(self) -> rx.event.EventSpec:
        """Show the whole tree again."""
        self.search = ""
        self._show_tree()
        return rx.set_value("module-search", "")


def _history(row: Row) -> HistoryRow:
    commit = str((row.get("result") or {}).get("commit") or "")[:7]
    built = build_row({**row, "status": row["status"]}, {})
    return {**built, "revision": commit}


def _group(row: Row, modules: list[Row]) -> GroupView:
    path = str(row["path"])
    return {
        "id": str(row["id"]),
        "path": path,
        "description": str(row.get("description") or ""),
        "hooks": [str(name).replace("_", " ") for name in row.get("hooks") or {}],
        "env_names": sorted(row.get("env") or {}),
        "modules": sum(str(module["path"]).startswith(f"{path}/") for module in modules),
    }
