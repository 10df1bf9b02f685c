"""Changing a runner: name, labels, capacity, types of job, instances, service account."""

from typing import Any

import reflex as rx

from app.frame.session import AppState
from app.project.errors import Refused
from app.project.models import Filter, Query
from app.runners.view.form import EMPTY, AccountChoice, RunnerForm, build_accounts, check_runner, read_runner


class RunnerEditState(AppState, rx.State):
    """The form, open or not."""

    is_open: bool = False
    worker_id: str = ""
    # A runner is registered elsewhere; here it is only changed.
    is_new: bool = False
    chosen: RunnerForm = EMPTY
    accounts: list[AccountChoice] = []
    errors: dict[str, str] = {}
    revision: int = 0

    @rx.event
    async def edit(self, worker_id: str) -> rx.event.EventSpec | None:
        """Open the form of a runner, as it is now."""
        mine = (Filter("id", "eq", worker_id), Filter("removed_at", "is", "null"))
        worker = next(iter((await self._select("workers", Query(filters=mine, limit=1))).rows), None)
        if worker is None or worker.get("is_shared"):
            return rx.toast.error("This runner no longer exists.")
        self.accounts = await self._read_accounts()
        self.worker_id, self.chosen, self.errors = worker_id, read_runner(worker), {}
        self.is_open = True
        # A new key, so that the inputs show what is stored and not what was typed before.
        self.revision += 1
        return None

    async def _read_accounts(self) -> list[AccountChoice]:
        filters = (Filter("org_id", "eq", await self._org_id()), Filter("removed_at", "is", "null"))
        columns = "id,name,is_disabled"
        page = await self._select("service_accounts", Query(columns=columns, filters=filters, order="name"))
        return build_accounts(page.rows)

    @rx.event
    def set_open(self, is_open: bool) -> None:
        """Close the form; nothing is saved."""
        self.is_open = is_open and self.is_open

    @rx.event
    async def save(self, form: dict[str, Any]) -> rx.event.EventSpec | None:
        """Check the form and let the database take what differs; the next claim follows it."""
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
