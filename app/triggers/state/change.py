"""The page of one commit or pull request."""

import re
from typing import Any, ClassVar

import reflex as rx

from app.live.page import LivePage
from app.project.errors import NotThere
from app.project.models import BrowserSession
from app.project.store import Changed, OrgStore
from app.triggers.view.change import ChangeView, build, reviewable

_ADDRESS = re.compile(r"/changes/([0-9a-f-]{36})/(?:([0-9a-f]{40,64})|(\d{1,9}))/?$")


class ChangeState(LivePage, rx.State):
    TOPICS: ClassVar[frozenset[str]] = frozenset(
        {"git_connections", "git_deliveries", "pull_requests", "provision_jobs", "approvals", "modules"}
    )

    change: ChangeView = build(None)
    _which: dict[str, Any] = {}

    async def _prepare(self, session: BrowserSession) -> None:
        found = _ADDRESS.search(self.router.url.path)
        if found is None:
            raise NotThere("There is no such change.", "The link may be wrong.")
        connection, commit, number = found.groups()
        named = {"p_commit": commit} if commit else {"p_number": int(number)}
        self._which = {"p_connection": connection, **named}
        self.change = build(None)

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        self._assign("change", build(await self._rpc("git_change", self._which)))

    @rx.event
    async def plan_again(self) -> rx.event.EventSpec | None:
        if "p_number" not in self._which:
            return None
        return await self._act("plan_pull_request", self._which, "Plan requested")

    @rx.event
    async def apply(self) -> rx.event.EventSpec | None:
        if "p_number" not in self._which:
            return None
        return await self._act("apply_pull_request", self._which, "Applying before the merge")

    @rx.event
    async def review(self, decision: str) -> rx.event.EventSpec | None:
        """Approve or reject every plan of the pull request that has changes."""
        if decision not in ("approve", "reject") or "p_number" not in self._which:
            return None
        jobs = reviewable(await self._rpc("git_change", self._which))
        for job in jobs:
            await self._rpc("approve_job", {"p_job": job, "p_decision": decision})
        self._assign("change", build(await self._rpc("git_change", self._which)))
        return rx.toast.success("Reviewed. It counts after the merge, where content and changes are the same.")
