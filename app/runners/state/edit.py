"""Changing a runner: name, labels, capacity, types of job, instances, service account."""

from typing import Any

import reflex as rx

from app.live.item_form import OpenForm
from app.project.errors import Refused
from app.project.models import Filter
from app.runners.view.form import EMPTY, AccountChoice, RunnerForm, build_accounts, check_runner, read_runner


class RunnerEditState(OpenForm, rx.State):
    worker_id: str = ""
    # A runner is registered elsewhere; here it is only changed.
    is_new: bool = False
    chosen: RunnerForm = EMPTY
    accounts: list[AccountChoice] = []

    @rx.event
    async def edit(self, worker_id: str) -> rx.event.EventSpec | None:
        found = await self._org_rows("workers", Filter("id", "eq", worker_id), limit=1)
        if not found:
            return rx.toast.error("This runner no longer exists.")
        accounts = await self._org_rows("service_accounts", columns="id,name,is_disabled", order="name")
        self.accounts, self.worker_id, self.chosen = build_accounts(accounts), worker_id, read_runner(found[0])
        self._draw_form()
        return None

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
