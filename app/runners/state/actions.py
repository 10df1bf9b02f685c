"""The actions on a runner: a question names the effect in numbers, then the database carries the action out."""

import asyncio
from typing import Any

import reflex as rx

from app.frame.releases.files import newest_files
from app.frame.session import SEGMENT, ShownSecret, acts, say_error, takes
from app.frame.versions import breaking_ahead, latest, update_kind
from app.project.errors import AppError
from app.project.models import Filter, Query, Row
from app.project.runtime import runtime
from app.project.store import OrgStore
from app.runners.view import commands
from app.runners.view.reach import reach_of, say_reach
from app.ui.view import count
from wire.tokens import make_token

KINDS = ("drain", "disable", "remove", "rotate", "update", "update_all", "update_by_hand", "deploy")
UPDATES = ("update", "update_all", "update_by_hand")
FLEET_WIDE = ("update_all", "update_by_hand")
OVERLAPS = {"0": "now", "3600": "in 1 hour", "86400": "in 24 hours", "604800": "in 7 days"}


class RunnerActionState(ShownSecret, rx.State):
    kind: str = ""
    worker_id: str = ""
    worker_name: str = ""
    effect: str = ""
    reason: str = ""
    typed: str = ""
    overlap: str = "86400"
    is_busy: bool = False
    update_commands: dict[str, str] = {}
    update_way: str = "systemd"
    breaking: list[str] = []
    has_read: bool = False
    _asked_on: tuple[str, str] = ("", "")

    set_reason = takes("reason")
    set_typed = takes("typed")
    set_read = takes("has_read", bool)
    set_overlap = takes("overlap", of=OVERLAPS)
    set_update_way = takes("update_way", SEGMENT, of="update_commands")
    enable = acts("set_worker_disabled", "p_worker", "Enabled", p_disabled=False)
    resume = acts("resume_worker", "p_worker", "Takes new jobs again")

    async def _store(self) -> OrgStore:
        who = await self._who()
        return await runtime().hub.open(who.org_id, await who._must_session())

    async def _worker(self, worker_id: str) -> Row | None:
        """Read a runner as it is now: its row, its load, and whether it updates itself."""
        answer = await self._rpc("list_runners", {"p_org": await self._org_id(), "p_filters": {"id": [worker_id]}})
        rows: list[Row] = answer["rows"]
        return rows[0] if rows else None

    async def _effect(self, worker: Row) -> str:
        jobs = int(worker.get("used") or 0)
        finishes = f"It finishes its {count(jobs, 'job')}" if jobs else "It has no jobs now"
        if self.kind in ("drain", "disable"):
            return f"{finishes} and takes no new ones. {await self._reach()}"
        if self.kind == "remove":
            return await self._removal(worker, jobs)
        if self.kind == "update" and worker["type"] == "self-hosted":
            return f"It updates itself. {finishes}, then tries the new version, and keeps it if it can work there."
        if self.kind == "update":
            return f"{finishes}, then updates from {worker.get('version') or 'an unknown version'}. Nothing is interrupted."
        if self.kind == "update_by_hand":
            return "It runs on a machine of yours, so it is updated there. On the first signal it drains: nothing is interrupted."
        if self.kind == "rotate":
            return "A new token is created and shown once. The old one works until it expires."
        return "A job starts it in its region again. It appears online in about two minutes."

    async def _reach(self) -> str:
        org_id = await self._org_id()
        mine, is_kept = Filter("org_id", "eq", org_id), Filter("deleted_at", "is", "null")
        assigned = Query(columns="id,worker_id,path", filters=(mine,), order="id")
        is_there = Filter("removed_at", "is", "null")
        columns = "id,labels,is_shared,is_assigned_to_all_modules,is_disabled,is_draining,removed_at"
        serving = f"org_id.eq.{org_id},is_shared.eq.true"
        workers = Query(columns=columns, filters=(is_there,), or_filter=serving, order="id")
        modules = Query(columns="path,labels,pinned_worker_id", filters=(mine, is_kept), order="path")
        reach = reach_of(
            self.worker_id,
            await self._select_all("workers", workers),
            await self._select_all("worker_assignments", assigned),
            await self._select_all("modules", modules),
        )
        return say_reach(reach)

    async def _removal(self, worker: Row, job_count: int) -> str:
        if worker["type"] == "cloud-hosted":
            return "A job takes down what was created in the cloud. Jobs and logs stay. This cannot be undone."
        query = Query(columns="id", filters=(Filter("worker_id", "eq", self.worker_id),))
        assigned = len((await self._select("worker_assignments", query)).rows)
        gone = f", and {count(assigned, 'assignment')} {'ends' if assigned == 1 else 'end'}" if assigned else ""
        running = f" It still runs {count(job_count, 'job')}." if job_count else ""
        return f"Its token stops working at once{gone}.{running} Jobs and logs stay. This cannot be undone."

    @rx.event
    async def ask(self, kind: str, worker_id: str) -> rx.event.EventSpec | None:
        if kind not in KINDS:
            return None
        self._close()
        try:
            store = await self._store()
            worker = None if kind in FLEET_WIDE else await self._worker(worker_id)
            if kind not in FLEET_WIDE and worker is None:
                return rx.toast.error("This runner no longer exists.")
            if kind == "update" and worker is not None:
                kind = update_kind(worker)
            self.worker_id, self.kind, self._asked_on = worker_id, kind, self._here()
            self.worker_name = str(worker["name"]) if worker else ""
            self.effect = await self._effect(worker) if worker else ""
            self.breaking = breaking_ahead(store, worker) if kind in UPDATES else []
            self.update_commands = commands.update(
                latest(store.rows("worker_releases")),
                newest_files(store.rows("worker_releases")),
                runtime().settings.runner_image,
            )
        except AppError as error:
            self._close()
            return say_error(error)
        return None

    def _close(self) -> None:
        self.kind = self.worker_id = self.worker_name = self.effect = ""
        self.reason = self.typed = ""
        self.overlap, self.is_busy = "86400", False
        self.breaking, self.has_read = [], False

    def _here(self) -> tuple[str, str]:
        """Name the page, and its load: each has a socket of its own."""
        return self.router.url.path, self.router.session.session_id

    @rx.event
    def leave(self) -> rx.event.EventSpec | None:
        """Close a question from another page or from before a reload; one that was opened here, before the page was loaded, stays."""
        if self.kind and self._asked_on != self._here():
            self._close()
        if not self.shown_id:
            return None
        # A reload loses a new token, a new connection does not: the browser knows.
        asked = f"window.runyard.hasSecret('{self.shown_id}')"
        return rx.call_script(asked, callback=RunnerActionState.forget_unless)

    @rx.event
    def forget_unless(self, has_token: bool) -> None:
        """Close a dialog that could only show where its token was."""
        if not has_token:
            self.shown_id = ""

    @rx.event
    def close(self) -> None:
        self._close()

    @rx.event
    async def confirm(self) -> Any:
        doers = {
            "drain": self._drain,
            "disable": self._disable,
            "remove": self._remove,
            "rotate": self._rotate,
            "update": self._update,
            "update_all": self._update_all,
            "deploy": self._deploy,
        }
        doer = doers.get(self.kind)
        if doer is None or (self.breaking and not self.has_read):
            return None
        said = await doer()
        self._close()
        return said

    async def _drain(self) -> rx.event.EventSpec | None:
        args = {"p_worker": self.worker_id, "p_reason": self.reason or "Drained by hand"}
        return await self._act("drain_worker", args, f"Draining {self.worker_name}", "It stays in the list.")

    async def _disable(self) -> rx.event.EventSpec | None:
        args, said = {"p_worker": self.worker_id, "p_disabled": True}, f"{self.worker_name} is disabled"
        return await self._act("set_worker_disabled", args, said, "Running jobs finish.")

    async def _remove(self) -> rx.event.EventSpec:
        if self.typed != self.worker_name:
            return rx.toast.error("The name does not match.", description="Nothing was removed.")
        worker = await self._worker(self.worker_id) or {}
        name = "remove_cloud_worker" if worker.get("type") == "cloud-hosted" else "remove_worker"
        answer = await self._rpc(name, {"p_worker": self.worker_id})
        if name == "remove_cloud_worker":
            # Only a job was queued; it may fail, and the runner goes when it has succeeded.
            return rx.toast.success(
                f"{self.worker_name} is being removed", description=f"Job #{answer['id']} takes down what it runs on."
            )
        return rx.toast.success(f"{self.worker_name} is removed", description="Its jobs and logs stay.")

    async def _rotate(self) -> rx.event.EventSpec:
        token = await asyncio.to_thread(make_token)
        args = {"p_worker": self.worker_id, "p_token_hash": token.hash, "p_token_hint": token.hint}
        await self._rpc("rotate_worker_token", {**args, "p_overlap_seconds": int(self.overlap)})
        # Tokens and events are not live rows: every viewer of this runner is shown them again.
        (await self._store()).notify("workers", self.worker_id)
        return self._reveal(self.worker_id, token.text)

    async def _update(self) -> rx.event.EventSpec | None:
        args, said = {"p_worker": self.worker_id}, f"Updating {self.worker_name}"
        return await self._act("update_one_worker", args, said, "It first finishes its jobs.")

    async def _update_all(self) -> rx.event.EventSpec | None:
        args, said = {"p_org": await self._org_id()}, "Updating the outdated runners"
        return await self._act("update_outdated_workers", args, said, "Each one first finishes its jobs.")

    async def _deploy(self) -> rx.event.EventSpec | None:
        worker = await self._worker(self.worker_id) or {}
        where = {"p_cloud_identity": worker.get("cloud_identity_id"), "p_region": worker.get("region")}
        args: dict[str, Any] = {"p_org": await self._org_id(), "p_name": worker.get("name"), **where, "p_options": {}}
        return await self._act("deploy_worker", args, f"Deploying {self.worker_name}", "It takes about two minutes.")
