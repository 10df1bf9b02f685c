"""The modules page: the tree, and beside it the module or group that was chosen."""

import asyncio
import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, TypedDict
from urllib.parse import quote

import reflex as rx

from app.access.state import AccessState
from app.frame.layout import OF_GROUP, OF_MODULE, say_in_address
from app.jobs.view import state_versions as module_states
from app.jobs.view.rows import JobRow, build_row
from app.live.page import RIGHTS, LivePage
from app.modules.state.contents import ModuleContentsState
from app.modules.state.group import GroupState
from app.modules.state.links import DependenciesState, ModuleGrantsState
from app.modules.state.repository import RepositoryState
from app.modules.view import tree
from app.modules.view.module import ModuleView, build_view, drift_words
from app.modules.view.repository import group_applies
from app.modules.view.tree import Node
from app.project.live_queries import LiveQuery, live_query
from app.project.models import BrowserSession, Filter, Row
from app.project.store import AGAIN, Changed, OrgStore
from app.triggers.state.work import WorkState
from app.ui.view import read

# A group with more than this is searched, not scrolled.
MOST_LISTED = 200
MOST_OPENED = 20
TREE_TOPICS = ("modules", "groups", "provision_jobs")
NO_MODULE: ModuleView = build_view({"id": "", "name": "", "path": ""}, (), ())


class HistoryRow(JobRow):
    """A job of the module, with the revision that it ran."""

    revision: str
    is_upload: bool


class GroupView(TypedDict):
    id: str
    path: str
    description: str
    hooks: list[str]
    applies: str
    modules: int


NO_GROUP: GroupView = {"id": "", "path": "", "description": "", "hooks": [], "applies": "", "modules": 0}


class ModulesState(LivePage, rx.State):
    TOPICS: ClassVar[frozenset[str]] = RIGHTS | {*TREE_TOPICS, "worker_assignments", "module_git", "git_connections"}

    nodes: list[Node] = []
    total: int = 0
    search: str = ""
    chosen: str = ""
    tab: str = "Overview"
    missing: str = ""
    nearest: list[str] = []
    module: ModuleView = NO_MODULE
    group: GroupView = NO_GROUP
    history: list[HistoryRow] = []
    drift: str = ""
    drift_at: str = ""
    drift_since: str = ""
    drifted: int = 0
    only_drift: bool = False
    state: module_states.StateView = module_states.StateView()
    _groups: list[Row] = []
    _counts: dict[str, int] = {}
    _workers: list[Row] = []
    _opened: list[str] = []
    _full: Row = {}
    _assignments: list[Row] = []

    async def _prepare(self, session: BrowserSession) -> None:
        query = self.router.url.query_parameters
        asked = {str(query.get(name, "")) for name in ("path", "module")} - {""}
        tab = str(query.get("tab", "")).capitalize()
        self.tab = tab if tab in (*OF_GROUP, *OF_MODULE) else "Overview"
        self.search, self._opened, self.chosen, self.only_drift = "", [], "", False
        (await self.get_state(RepositoryState)).is_open = False
        await self._read_groups()
        found = await self._find(asked)
        group = next((row for row in self._groups if str(row["path"]) in asked), None)
        is_missing = bool(asked) and found is None and group is None
        await self._choose_module(found if asked else await self._first())
        self.missing = next(iter(asked)) if is_missing else ""
        self._assign("nearest", await self._nearest(self.missing) if is_missing else [])
        await self._ask(*self._queries())
        if group is not None and found is None:
            # Choosing a group that is open would fold it.
            self._opened = sorted({*self._opened, *tree.parents(str(group["path"]))} - {str(group["path"])})
            await self._choose_group(str(group["path"]))

    async def _open(self) -> rx.event.EventSpec | None:
        way = await super()._open()
        if self.tab != "Variables":
            return way
        path = quote(self.module["path"] or self.group["path"])
        return rx.redirect(f"{self.router.url.path.rstrip('/')}/variables?path={path}", replace=True)

    async def _read_groups(self) -> None:
        self._groups = await self._org_rows("groups", order="path")

    async def _find(self, asked: Iterable[str]) -> Row | None:
        for one in asked:
            name = "id" if re.fullmatch(r"[0-9a-f-]{36}", one) else "path"
            if rows := await self._org_rows("modules", Filter(name, "eq", one), columns="id,path", limit=1):
                return rows[0]
        return None

    async def _nearest(self, path: str) -> list[str]:
        """Name modules whose path is like one that does not exist: those of the same name, else of the first page."""
        org_id, name = await self._org_id(), path.rsplit("/", 1)[-1]
        for search in (name, ""):
            answer = await self._rpc("list_modules", {"p_org": org_id, "p_search": search, "p_limit": MOST_LISTED})
            if near := tree.nearest(path, [str(row["path"]) for row in answer["rows"]]):
                return near
        return []

    async def _first(self) -> Row | None:
        answer = await self._rpc("list_modules", {"p_org": await self._org_id(), "p_limit": 1})
        return next(iter(answer["rows"]), None)

    def _queries(self) -> tuple[LiveQuery, ...]:
        """Return the queries for the number of modules of each group, and for the modules of open groups or those that a search finds."""
        searched: dict[str, Any] = {"search": self.search}
        if self.only_drift:
            searched["filters"] = {"drift": True}
        summary = live_query("list_modules", ("modules", "groups"), limit=1, **searched)
        group = self.group["path"]
        below = [_below_query(group), _runners_query(group)] if group else []
        if self.search or self.only_drift:
            found = live_query("list_modules", TREE_TOPICS, limit=MOST_LISTED, pause_seconds=0.5, **searched)
            return summary, found, *below
        return summary, *(_group_query(path) for path in self._opened), *below

    async def _choose_module(self, row: Row | None) -> None:
        """Show a module and open the groups above it; without one, nothing is chosen."""
        self.group, self.missing = NO_GROUP, ""
        if row is None:
            self.chosen, self._full, self.module = "", {}, NO_MODULE
            return
        self.chosen = f"module:{row['id']}"
        self._opened = sorted({*self._opened[-MOST_OPENED:], *tree.parents(str(row["path"]))})
        await self._read_module(str(row["id"]))
        await self._open_panels(str(row["path"]))

    async def _open_panels(self, path: str) -> None:
        """Read a path's panels of other features together with the page: otherwise their buttons would act on another path."""
        work, access, who = await self.get_state(WorkState), await self.get_state(AccessState), await self._who()
        await asyncio.gather(work._open(path), access._open(path), who._ask_verbs(path))

    async def _read_module(self, module_id: str) -> None:
        answer = await self._rpc("module_page", {"p_org": await self._org_id(), "p_module": module_id})
        self._full = {**answer["module"], "last_job_status": answer["last_change"] or ""}
        self._workers, self._assignments = answer["workers"], answer["assignments"]
        self._assign("state", module_states.build(answer["state"]))
        parts: tuple[Any, ...] = (ModuleContentsState, ModuleGrantsState, DependenciesState, RepositoryState)
        for part in parts:
            (await self.get_state(part))._take(answer)
        self._assign("history", [_history(row) for row in answer["history"]])
        drift, at = drift_words(self._full)
        self._assign("drift", drift)
        self._assign("drift_at", at)
        self._assign("drift_since", str(self._full.get("drift_since") or ""))

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        if {"groups", AGAIN} & changed.tables.keys():
            await self._read_groups()
        rows = (store.row("provision_jobs", key) for key in changed.ids("provision_jobs"))
        jobs = [job for job in rows if job is not None]
        if self._full and not changed.is_everything and self._concerns(jobs, changed):
            await self._read_module(str(self._full["id"]))
        if self.chosen and not changed.is_everything and changed.touches(RIGHTS):
            access, who = await self.get_state(AccessState), await self._who()
            await asyncio.gather(access._read(), who._ask_verbs(access.path))
        await self._show_tree(store)
        await self._show_group(store, self.group["path"])
        if self._full:
            self._assign("module", build_view(self._full, self._workers, self._assignments))

    async def _show_group(self, store: OrgStore, path: str) -> None:
        modules, runners = (store.live_queries.held(query(path)) for query in (_below_query, _runners_query))
        if path and modules is not None:
            (await self.get_state(GroupState))._show_modules(path, modules.rows(), modules.answer["total"])
        if path and runners is not None:
            (await self.get_state(GroupState))._show_runners(path, runners.rows(), runners.answer["total"])

    def _concerns(self, jobs: list[Row], changed: Changed) -> bool:
        mine = str(self._full["id"])
        is_touched = any(str(job.get("module_id")) == mine for job in jobs)
        is_changed = any(mine in changed.ids(topic) for topic in ("modules", "module_git"))
        return is_touched or is_changed or changed.touches(("worker_assignments", "git_connections", "groups", AGAIN))

    async def _show_tree(self, store: OrgStore) -> None:
        summary, *listed = (store.live_queries.held(one) for one in self._queries())
        if summary is None:
            return
        is_search = bool(self.search) or self.only_drift
        paths = [""] if is_search else self._opened
        lists = {
            path: (held.rows(), int(held.answer["total"])) for path, held in zip(paths, listed, strict=False) if held
        }
        groups = [str(row["path"]) for row in self._groups]
        nodes = tree.build(groups, summary.answer["counts"], lists, self._opened, is_search=is_search)
        self._assign("nodes", nodes)
        self._assign("drifted", int(summary.answer.get("drifted") or 0))
        self._counts = summary.answer["counts"]
        if not is_search:
            self._assign("total", int(summary.answer["total"]))

    async def _reload(self, module_id: str = "") -> rx.event.EventSpec:
        """Read again after something was done, without waiting for the doorbell; the address names what is shown."""
        await self._read_groups()
        found = await self._find([module_id or str(self._full.get("id", ""))]) or await self._first()
        await self._choose_module(found)
        await self._turn()
        return say_path(str(found["path"]) if found else "")

    async def _turn(self) -> None:
        await self._ask(*self._queries())
        await self._again()

    @rx.event
    async def choose(self, key: str) -> list[Any] | None:
        self.tab = "Overview"
        kind, _, rest = key.partition(":")
        if kind == "group":
            await self._choose_group(rest)
            return [say_path(rest, is_step=True), WorkState.follow] if self.group["path"] == rest else None
        found = await self._find([rest]) if kind == "module" else None
        if found is None:
            return None
        await self._choose_module(found)
        await self._turn()
        return [say_path(str(found["path"]), is_step=True), WorkState.follow]

    async def _choose_group(self, path: str) -> None:
        is_open = path in self._opened
        others = [one for one in self._opened if one != path]
        self._opened = others if is_open else [*others[-MOST_OPENED:], path]
        row = next((row for row in self._groups if row["path"] == path), None)
        if row is not None and not is_open:
            self.chosen, self.missing = f"group:{path}", ""
            self.group = _group(row, self._groups, self._counts)
            await self._open_panels(path)
            if self.tab == "Policies":
                await (await self.get_state(GroupState))._read_policies(path)
        await self._turn()
        if self.chosen == f"group:{path}" and row is not None:
            self._assign("group", _group(row, self._groups, self._counts))

    @rx.event
    async def search_for(self, text: str) -> None:
        self.search = text[:100].strip()
        await self._turn()

    @rx.event
    async def toggle_drift(self) -> None:
        self.only_drift = not self.only_drift
        await self._turn()

    @rx.event
    async def clear_search(self) -> None:
        self.search = ""
        await self._turn()


def say_path(path: str, *, is_step: bool = False) -> rx.event.EventSpec:
    return say_in_address("/dashboard/modules", f"?path={quote(path)}" if path else "", is_step=is_step)


def _below_query(path: str) -> LiveQuery:
    return live_query("list_modules", TREE_TOPICS, filters={"group_path": path}, limit=MOST_LISTED, pause_seconds=0.5)


def _runners_query(path: str) -> LiveQuery:
    return live_query("path_runners", ("workers", "worker_assignments"), path=path, pause_seconds=0.5)


def _group_query(path: str) -> LiveQuery:
    """Read the modules of one group; subgroups are read when they are opened."""
    return live_query("list_modules", TREE_TOPICS, filters={"in_group": path}, limit=MOST_LISTED, pause_seconds=0.5)


def _history(row: Row) -> HistoryRow:
    commit = str((row.get("result") or {}).get("commit") or "")[:7]
    built = build_row(row)
    return {**built, "revision": commit, "is_upload": row.get("source_kind") == "upload"}


def _group(row: Row, groups: list[Row], counts: Mapping[str, int]) -> GroupView:
    path = str(row["path"])
    return read(
        GroupView,
        row,
        path=path,
        hooks=[str(name).replace("_", " ") for name in row.get("hooks") or {}],
        applies=group_applies(groups, path),
        modules=sum(n for group, n in counts.items() if group == path or group.startswith(f"{path}/")),
    )
