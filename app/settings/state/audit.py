"""The audit log: who did what, filtered, page by page."""

from typing import ClassVar
from urllib.parse import urlencode

import reflex as rx

from app.live.page import LivePage
from app.project.models import BrowserSession, Filter, Query
from app.project.store import Changed, OrgStore
from app.settings.view import audit as views
from app.settings.view.audit import AuditFilter

PAGE_SIZE = 30
KINDS = {
    "job": "Jobs",
    "module": "Modules",
    "group": "Groups",
    "state": "States",
    "worker": "Runners",
    "rollout": "Rollouts",
    "member": "Members",
    "invitation": "Invitations",
    "organization": "Organisation",
    "cloud_identity": "Cloud identities",
    "service_account": "Service accounts",
    "release": "Releases",
}


class AuditState(LivePage, rx.State):
    TOPICS: ClassVar[frozenset[str]] = frozenset({"provision_jobs", "workers", "modules", "memberships"})

    rows: list[views.AuditRow] = []
    action: str = "any"
    actor: str = ""
    total: int = 0
    page_number: int = 0
    export: str = ""

    def _filter(self) -> AuditFilter:
        return AuditFilter.of({"action": "" if self.action == "any" else self.action, "actor": self.actor})

    async def _prepare(self, session: BrowserSession) -> None:
        """Begin with everything: states outlive a reload."""
        self.action, self.actor, self.page_number = "any", "", 0

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        if self.page_number and not changed.is_everything:
            return
        conditions = [Filter(*condition) for condition in self._filter().conditions()]
        query = Query(
            filters=(Filter("org_id", "eq", store.org_id), *conditions),
            order="id",
            is_descending=True,
            limit=PAGE_SIZE,
            offset=self.page_number * PAGE_SIZE,
            is_counted=True,
        )
        page = await self._select("audit_events", query)
        rows = [views.build(row) for row in page.rows]
        if rows != self.rows:
            self.rows = rows
        self.total = page.total
        chosen = self._filter()
        self.export = urlencode({key: value for key, value in vars(chosen).items() if value})

    @rx.event
    async def choose_action(self, value: str) -> None:
        if value == "any" or value in KINDS:
            self.action, self.page_number = value, 0
            await self._again()

    @rx.event
    async def search_for(self, text: str) -> None:
        self.actor, self.page_number = AuditFilter.of({"actor": text}).actor, 0
        await self._again()

    @rx.event
    async def clear(self) -> None:
        self.action, self.actor, self.page_number = "any", "", 0
        await self._again()

    @rx.event
    async def turn_page(self, step: int) -> None:
        last = max(0, self.total - 1) // PAGE_SIZE
        self.page_number = min(last, max(0, self.page_number + (1 if step > 0 else -1)))
        await self._again()
