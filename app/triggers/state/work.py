"""The sets and schedules that run for a module or group as a whole; for panels on other features' pages."""

import asyncio
import contextlib
import json
from typing import Any

import reflex as rx
import structlog

from app.frame.session import AppState, takes
from app.project.errors import AppError, SignedOut
from app.triggers.view.schedules import ScheduleView
from app.triggers.view.schedules import build_view as build_schedule
from app.triggers.view.sets import SetView, build_view

POLL_EVERY_MS = 3000

log = structlog.get_logger(__name__)


class WorkState(AppState, rx.State):
    path: str = ""
    sets: list[SetView] = []
    schedules: list[ScheduleView] = []
    is_running: bool = False
    asking: str = ""
    typed: str = ""

    set_typed = takes("typed", most=500)

    async def _open(self, path: str) -> None:
        """Read the panels of the path that the page shows now; no question about another one stays open."""
        self.path, self.asking, self.typed = path, "", ""
        self.sets, self.schedules, self.is_running = [], [], False
        with contextlib.suppress(AppError):
            await self._read()

    async def _read(self) -> None:
        org = await self._org_id()
        if not org:
            return
        here = {"p_org": org, "p_path": self.path}
        sets, schedules = await asyncio.gather(
            self._rpc("list_sets", {**here, "p_limit": 3}), self._rpc("list_schedules", here)
        )
        shown = [row for number, row in enumerate(sets) if number == 0 or row["status"] == "RUNNING"]
        self._assign("sets", [build_view(row, await self._why(row)) for row in shown])
        self._assign("schedules", [build_schedule(row) for row in schedules])
        self._assign("is_running", any(row["status"] == "RUNNING" for row in sets))

    async def _why(self, row: dict[str, Any]) -> dict[str, Any]:
        """Read why modules of a set have no job, where some have none."""
        if not row["waiting"] + row["left_out"]:
            return {}
        found: dict[str, Any] = await self._rpc("explain_set", {"p_set": row["id"]})
        return found

    @rx.event
    def follow(self) -> rx.event.EventSpec | None:
        """While a set runs, the browser asks again in a while."""
        if not self.is_running:
            return None
        wait = f"new Promise((done) => setTimeout(() => done({json.dumps(self.path)}), {POLL_EVERY_MS}))"
        return rx.call_script(wait, callback=type(self).poll)

    @rx.event
    async def poll(self, path: str) -> rx.event.EventSpec | None:
        """Read again; what runs at a path that the page has left is followed no more."""
        if path != self.path:
            return None
        try:
            await self._read()
        except SignedOut:
            return None
        except AppError as error:
            # Asked again while a set ran when it last answered: its buttons are disabled until it is seen to end.
            log.info("sets_not_read", reason=error.message)
        return self.follow()

    @rx.event
    async def start(self, kind: str) -> list[Any] | rx.event.EventSpec | None:
        """Plan all modules below, apply or destroy them in order, or check all for drift."""
        is_confirmed = kind in ("PLAN", "DRIFT") or self.asking == kind
        is_typed = kind != "DESTROY" or self.typed == self.path != ""
        self.asking, self.typed = "", ""
        args = {"p_org": await self._org_id(), "p_type": kind, "p_path": self.path}
        return await self._change("start_set", args) if is_confirmed and is_typed else None

    @rx.event
    def ask(self, kind: str) -> None:
        self.asking, self.typed = kind if kind in ("APPLY", "DESTROY") else "", ""

    @rx.event
    async def cancel(self, key: str) -> list[Any] | rx.event.EventSpec | None:
        return await self._change("cancel_set", {"p_set": key})

    @rx.event
    async def retry(self, key: str) -> list[Any] | rx.event.EventSpec | None:
        return await self._change("retry_set", {"p_set": key})

    async def _change(self, name: str, args: dict[str, Any]) -> list[Any] | rx.event.EventSpec | None:
        was_running = self.is_running
        await self._rpc(name, args)
        follow = await self.poll(self.path)
        # One that is followed already is not followed twice.
        return None if was_running else follow
