"""Changing a runner: name, labels, capacity, types of job, instances, service account."""

from typing import Any

import reflex as rx

from app.live.item_form import OpenForm
from app.project.errors import Refused
from app.project.models import Filter, Query
from app.runners.view.form import EMPTY, AccountChoice, RunnerForm, build_accounts, check_runner, read_runner


class RunnerEditState(OpenForm, rx.State):
    worker_id: str = ""
    # A runner is registered elsewhere; here it is only changed.
    is_new: bool = False
    chosen: RunnerForm = EMPTY
    accounts: list[AccountChoice] = []

    @rx.event
    async def edit(self, worker_id: str) -> rx.event.EventSpec | None:
        mine = (Filter("id", "eq", worker_id), Filter("removed_at", "is", "null"))
        worker = next(iter((await self._select("workers", Query(filters=mine, limit=1))).rows), None)
        if worker is None or worker.get("is_shared"):
            return rx.toast.error("This runner no longer exists.")
        self.accounts = await self._read_accounts()
        self.worker_id, self.chosen = worker_id, read_runner(worker)
        self._draw_form()
        return None

    async def _read_accounts(self) -> list[AccountChoice]:
        filters = (Filter("org_id", "eq", await self._org_id()), Filter("removed_at", "is", "null"))
        columns = "id,name,is_disabled"
        page = await self._select("service_accounts", Query(columns=columns, filters=filters, order="name"))
        return build_accounts(page.rows)

    @rx.event
    async def save(self, form: dict[str, Any]) -> rx.event.EventSpec | None:
        checked = check_runner(form, self.chosen)
        self.errors = checked.errors
        if checked.errors or not self.is_open:
            return None
        if not checked.spec:
            self.is_open = False
            return None
        try:
            await self._rpc("update_worker", {"p_worker": self.worker_id, "p_options": checked.spec})
        except Refused as error:
            # The form stays open and shows the database's refusal in its words; nothing that was typed is lost.
            self.errors = {"form": f"{error.message} {error.hint}".strip()}
            return None
        self.is_open = False
        return rx.toast.success("Saved", description="It counts from the runner's next poll.")
