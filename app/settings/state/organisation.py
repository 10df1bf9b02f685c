"""The organisation itself: its name, and how long logs are kept."""

from typing import Any, ClassVar

import reflex as rx

from app.frame.session import takes
from app.live.page import LivePage
from app.project.models import Filter, Query
from app.project.runtime import runtime
from app.project.store import Changed, OrgStore
from app.ui.form.fields import Checked, Wrong, texts, time_limits, whole_number
from app.ui.view import count
from wire.spans import write_time_limits


def _name(text: str) -> str:
    if not 1 <= len(text.strip()) <= 100:
        raise Wrong("A name has 1 to 100 characters.")
    return text.strip()


class OrganisationState(LivePage, rx.State):
    TOPICS: ClassVar[frozenset[str]] = frozenset({"organizations", "modules"})

    ident: str = ""
    name: str = ""
    slug: str = ""
    retention: str = ""
    time_limits: str = ""
    can_approve_own: bool = False
    created_at: str = ""
    errors: dict[str, str] = {}
    is_changed: bool = False
    is_deleting: bool = False
    typed: str = ""
    contents: str = ""

    type_slug = takes("typed")

    async def _count(self, table: str, gone: str) -> int:
        filters = (Filter("org_id", "eq", await self._org_id()), Filter(gone, "is", "null"))
        return (await self._select(table, Query(columns="id", filters=filters, limit=1, is_counted=True))).total

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        modules, runners = await self._count("modules", "deleted_at"), await self._count("workers", "removed_at")
        left = f"It still has {count(modules, 'module')} and {count(runners, 'runner')}."
        self._assign("contents", left if modules or runners else "")
        if not changed.is_everything:
            return
        page = await self._select("organizations", Query(filters=(Filter("id", "eq", store.org_id),), limit=1))
        row = page.rows[0] if page.rows else {}
        self.ident, self.slug = str(row.get("id", "")), str(row.get("slug", ""))
        self.name, self.retention = str(row.get("name", "")), str(row.get("log_retention_days", ""))
        self.time_limits = write_time_limits(row.get("time_limits") or {})
        self.can_approve_own = bool(row.get("can_approve_own_jobs"))
        self.created_at, self.errors, self.is_changed = str(row.get("created_at", "")), {}, False

    @rx.event
    def touch(self, value: str | bool) -> None:
        self.is_changed = True

    @rx.event
    def ask_delete(self, is_asked: bool) -> None:
        self.is_deleting, self.typed = is_asked, ""

    @rx.event
    async def delete(self) -> rx.event.EventSpec:
        """Delete the organisation and show another one of this person's, or the page that creates one."""
        await self._rpc("delete_organization", {"p_org": await self._org_id(), "p_confirm_slug": self.typed})
        self.is_deleting = False
        session = await (await self._who())._must_session()
        session.org_id = ""
        await runtime().authorized.sessions.put(session)
        return rx.redirect("/dashboard/runners")

    @rx.event
    async def save(self, form: dict[str, Any]) -> rx.event.EventSpec | None:
        form, checked = texts(form), Checked()
        args: dict[str, Any] = {
            "p_org": await self._org_id(),
            "p_name": checked.take("name", form, _name, ""),
            "p_log_retention_days": checked.take("retention", form, lambda text: whole_number(text, 1, 400), 0),
            "p_time_limits": checked.take("time_limits", form, time_limits, {}),
            "p_can_approve_own_jobs": bool(form.get("can_approve_own")),
        }
        self.errors = checked.errors
        if self.errors:
            return None
        await self._rpc("update_organization", args)
        who = await self._who()
        await who._begin()
        await self._again()
        return rx.toast.success("Saved")
