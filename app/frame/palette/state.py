"""The palette, open or not, and what it found."""

import asyncio
from typing import Any

import reflex as rx

from app.frame.palette import view
from app.frame.palette.view import Group
from app.frame.pick import containing
from app.frame.session import AppState
from app.project.errors import AppError
from app.project.models import Filter, Page, Query


class PaletteState(AppState, rx.State):
    is_open: bool = False
    text: str = ""
    groups: list[Group] = []
    problem: str = ""
    _opened_by: str = ""

    @rx.event
    async def show(self) -> None:
        self.is_open, self._opened_by = True, self.router.session.session_id
        await self._find("")

    @rx.event
    def leave(self) -> None:
        """Close it when the page that opened it was left: states outlive a reload, and each load has a socket of its own."""
        if self._opened_by != self.router.session.session_id:
            self.is_open = False

    @rx.event
    def set_open(self, is_open: bool) -> None:
        self.is_open = is_open and self.is_open

    @rx.event
    async def search_for(self, text: str) -> None:
        if self.is_open:
            await self._find(text[:100].strip())

    async def _find(self, text: str) -> None:
        self.text, self.problem = text, ""
        who = await self._who()
        wanted = text.removeprefix(view.ACTIONS_ONLY).strip()
        acts = view.actions(wanted, can_operate=who.can_run, can_admin=who.can_admin, sees_all=who.sees_all)
        commands = await self._commands(text) if who.can_run else []
        found = [*commands, *await self._found(text), *view.group("Actions", acts, len(acts))]
        self._assign("groups", found or await self._nearest(wanted))

    async def _nearest(self, text: str) -> list[Group]:
        """Offer the modules whose path is like a text that nothing has."""
        args = {"p_org": await self._org_id(), "p_search": "", "p_limit": view.MOST_NEAR}
        items = [] if self.problem else view.nearest(text, (await self._rpc("list_modules", args))["rows"])
        return view.group("Nothing has this name. Did you mean", items, len(items))

    async def _commands(self, text: str) -> list[Group]:
        """Name what a command may act on: the modules, runners or jobs whose name follows it."""
        verb, name = view.command(text)
        if not verb:
            return []
        listed, build = view.COMMANDS[verb]
        args: dict[str, Any] = {"p_org": await self._org_id(), "p_search": name, "p_limit": view.FEW}
        if verb in view.JOB_COMMANDS:
            args["p_filters"] = {"status": view.UNFINISHED}
        try:
            answer = await self._rpc(listed, args)
        except AppError as error:
            self.problem = error.message
            return []
        return view.group("Commands", [build(verb, row) for row in answer["rows"]], answer["total"])

    async def _found(self, text: str) -> list[Group]:
        return [] if not text or text.startswith(view.ACTIONS_ONLY) else await self._search(text)

    async def _search(self, text: str) -> list[Group]:
        """Query the lists at once; name those without an answer, and keep the actions."""
        some = {"p_org": await self._org_id(), "p_search": text, "p_limit": view.FEW}
        try:
            *answers, groups = await asyncio.gather(
                *(self._rpc(name, some) for _, name, _ in view.LISTS), self._search_groups(text)
            )
        except AppError as error:
            self.problem = error.message
            return []
        named = view.group("Groups", [view.group_item(row) for row in groups.rows], groups.total)
        return named + [
            shown
            for (title, _, item), answer in zip(view.LISTS, answers, strict=True)
            for shown in view.group(title, [item(row) for row in answer["rows"]], answer["total"])
        ]

    async def _search_groups(self, text: str) -> Page:
        filters = (Filter("org_id", "eq", await self._org_id()), containing("path", text))
        query = Query(columns="path", filters=filters, order="path", limit=view.FEW, is_counted=True)
        return await self._select("groups", query)
