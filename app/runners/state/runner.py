"""A runner's own page: facts, a day's strip, instances, jobs, events; assignments, tokens, switches."""

from typing import Any, ClassVar

import reflex as rx

from app.live.page import LivePage
from app.project.errors import AppError, NotThere, Refused
from app.project.models import Filter, Query, Row, Session
from app.project.runtime import runtime
from app.project.snapshot import JOB_COLUMNS
from app.project.store import Changed, OrgStore
from app.runners.state.scaling import RunnerScalingState
from app.runners.view.board import board_of
from app.runners.view.detail import (
    NO_STRIP,
    Assignment,
    EventRow,
    InstanceDetail,
    Strip,
    TokenRow,
    build_assignments,
    build_events,
    build_instances,
    build_strip,
    build_tokens,
    say_revocation,
    sentence,
)
from app.runners.view.jobs import target_of
from app.runners.view.rows import Pulse, RunnerRow
from app.shared.job import words as job_words
from app.shared.session import say_error
from app.shared.words import parse_time

JOBS_SHOWN = 8
EVENTS_SHOWN = 12
RUNNING = ("CLAIMED", "PROCESSING")
SETTINGS = ("allow_multiple_instances", "is_assigned_to_all_modules")
NOBODY: RunnerRow = {
    "id": "",
    "name": "",
    "type": "",
    "region": "",
    "status": "OFFLINE",
    "is_asleep": False,
    "is_starting": False,
    "why": "",
    "version": "",
    "is_outdated": False,
    "created_at": "",
    "facts": "",
    "instance_count": 0,
    "is_shared": False,
    "is_disabled": False,
    "is_draining": False,
    "is_cloud": False,
    "action": "",
}


class RunnerState(LivePage, rx.State):
    """What a runner's page shows."""

    TOPICS: ClassVar[frozenset[str]] = frozenset(
        {
            "workers",
            "worker_instances",
            "provision_jobs",
            "worker_assignments",
            "worker_releases",
            "scaling_decisions",
            "overview",
        }
    )

    row: RunnerRow = NOBODY
    pulse: Pulse = {"at": "", "used": 0, "capacity": 0}
    pulses: dict[str, Pulse] = {}
    about: str = ""
    labels: list[str] = []
    service_account: str = ""
    created_by: str = ""
    allows_many: bool = False
    serves_all: bool = False
    instances: list[InstanceDetail] = []
    connected_count: int = 0
    jobs: list[dict[str, Any]] = []
    jobs_said: str = ""
    strip: Strip = NO_STRIP
    events: list[EventRow] = []
    assignments: list[Assignment] = []
    tokens: list[TokenRow] = []
    paths: list[str] = []
    chosen_path: str = ""
    is_assigning: bool = False
    revoking_id: str = ""
    revoking_hint: str = ""
    revoking_effect: str = ""

    def _id(self) -> str:
        return str(getattr(self, "runner_id", ""))

    async def _prepare(self, session: Session) -> None:
        self.is_assigning, self.chosen_path, self.revoking_id = False, "", ""
        if self.row["id"] != self._id():
            self.row = NOBODY

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        worker = store.row("workers", self._id())
        if worker is None:
            if changed.is_everything:
                raise NotThere("This runner is not here.", "It may belong to another organisation, or it was removed.")
            self.problem = "This runner was removed."
            return
        self._show_facts(store, worker)
        self._show_pulse(store)
        if changed.is_everything or changed.touches({"provision_jobs"}):
            await self._show_jobs(store)
        if changed.is_everything or self._id() in changed.ids("workers") or changed.touches({"worker_instances"}):
            await self._show_events(worker)
            await self._show_tokens(worker)
        if worker["type"] == "cloud-hosted" and changed.touches({"workers", "scaling_decisions"}):
            await (await self.get_state(RunnerScalingState))._show(worker)
        if changed.is_everything or changed.touches({"worker_assignments", "workers"}):
            await self._show_assignments()
        if changed.is_everything:
            await self._show_strip(worker)

    def _show_facts(self, store: OrgStore, worker: Row) -> None:
        row = board_of(store).made[self._id()].row
        mine = [item for item in store.rows("worker_instances") if str(item["worker_id"]) == self._id()]
        instances = build_instances(mine)
        connected = sum(item["status"] != "OFFLINE" for item in instances)
        self._assign("connected_count", connected)
        self._assign("row", row)
        self._assign("instances", instances)
        self._assign("about", sentence(worker, connected))
        self._assign("labels", list(worker.get("labels") or []))
        self._assign("allows_many", bool(worker.get("allow_multiple_instances")))
        self._assign("serves_all", bool(worker.get("is_assigned_to_all_modules")))

    def _show_pulse(self, store: OrgStore) -> None:
        known = board_of(store).pulses
        self._assign("pulse", known.get(self._id(), {"at": "", "used": 0, "capacity": 0}))
        shown = [item["id"] for item in self.get_value("instances")]
        self._assign("pulses", {key: known[key] for key in shown if key in known})

    async def _show_jobs(self, store: OrgStore) -> None:
        query = Query(
            columns=JOB_COLUMNS,
            filters=(Filter("worker_id", "eq", self._id()),),
            order="id",
            is_descending=True,
            limit=JOBS_SHOWN,
            is_counted=True,
        )
        page = await self._select("provision_jobs", query)
        names = {row["id"]: row["name"] for row in board_of(store).rows}
        jobs = [_job(job, names) for job in page.rows]
        self._assign("jobs", jobs)
        running = sum(
            str(job.get("worker_id")) == self._id() and job["status"] in RUNNING for job in store.rows("provision_jobs")
        )
        self._assign("jobs_said", f"{running} running, {page.total} in all")

    async def _show_events(self, worker: Row) -> None:
        query = Query(
            filters=(Filter("worker_id", "eq", self._id()),), order="id", is_descending=True, limit=EVENTS_SHOWN
        )
        self._assign("events", build_events((await self._select("worker_events", query)).rows))
        await self._show_creator()
        if worker.get("service_account_id"):
            wanted = Query(columns="name", filters=(Filter("id", "eq", str(worker["service_account_id"])),))
            accounts = (await self._select("service_accounts", wanted)).rows
            self.service_account = str(accounts[0]["name"]) if accounts else ""

    async def _show_creator(self) -> None:
        """Name who registered it; that is its first event, which the newest few no longer have."""
        is_first = (Filter("worker_id", "eq", self._id()), Filter("event", "eq", "registered"))
        rows = (await self._select("worker_events", Query(filters=is_first, order="id", limit=1))).rows
        self._assign("created_by", build_events(rows)[0]["by"] if rows else "")

    async def _show_tokens(self, worker: Row) -> None:
        who = await self._who()
        if not who.can_admin or worker.get("is_shared") or worker["type"] == "cloud-hosted":
            self._assign("tokens", [])
            return
        self._assign("tokens", build_tokens(await self._rpc("list_worker_tokens", {"p_worker": self._id()}) or []))

    async def _show_assignments(self) -> None:
        mine = Filter("org_id", "eq", await self._org_id())
        is_kept = Filter("deleted_at", "is", "null")
        groups = await self._select("groups", Query(columns="path", filters=(mine,)))
        modules = await self._select("modules", Query(columns="path", filters=(mine, is_kept)))
        rows = await self._select("worker_assignments", Query(filters=(Filter("worker_id", "eq", self._id()),)))
        group_paths = {str(row["path"]) for row in groups.rows}
        module_paths = [str(row["path"]) for row in modules.rows]
        assignments = build_assignments(rows.rows, group_paths, module_paths)
        self._assign("assignments", assignments)
        self._assign("paths", sorted((group_paths | set(module_paths)) - {item["path"] for item in assignments}))

    async def _show_strip(self, worker: Row) -> None:
        try:
            history = await self._rpc("worker_history", {"p_worker": self._id(), "p_hours": 24})
        except Refused as error:
            self.strip = {**NO_STRIP, "words": error.message}
            return
        since = parse_time(worker.get("first_seen_at"))
        ticks = history.get("ticks", []) if isinstance(history, dict) else history or []
        self.strip = build_strip(ticks, since)

    @rx.event
    def set_assigning(self, is_open: bool) -> None:
        """Open or close the choice of a path."""
        self.is_assigning, self.chosen_path = is_open, ""

    @rx.event
    def choose_path(self, path: str) -> None:
        """Choose the path to assign."""
        if path in self.paths:
            self.chosen_path = path

    @rx.event
    async def assign(self) -> rx.event.EventSpec | None:
        """Let the runner serve the chosen path."""
        if not self.chosen_path:
            return None
        said = await self._change("assign_worker", {"p_path": self.chosen_path}, f"Serves {self.chosen_path} now")
        self.is_assigning = False
        return said

    @rx.event
    async def unassign(self, path: str) -> rx.event.EventSpec | None:
        """Stop serving a path."""
        return await self._change("unassign_worker", {"p_path": path}, f"Serves {path} no more")

    @rx.event
    async def ask_revoke(self, token_id: str) -> rx.event.EventSpec | None:
        """Ask before a token is ended, with who is connected by it."""
        token = next((token for token in self.tokens if token["id"] == token_id), None)
        if token is None:
            return None
        who = await self._who()
        try:
            store = await runtime().hub.open(who.org_id, await who._must_session())
        except AppError as error:
            return say_error(error)
        jobs = sum(
            str(job.get("worker_id")) == self._id() and job["status"] in RUNNING for job in store.rows("provision_jobs")
        )
        self.revoking_id, self.revoking_hint = token_id, token["hint"]
        self.revoking_effect = say_revocation(token, self.connected_count, jobs)
        return None

    @rx.event
    def keep_token(self) -> None:
        """Keep the token."""
        self.revoking_id = ""

    @rx.event
    async def revoke_token(self) -> rx.event.EventSpec | None:
        """End the token that was asked about, and the sessions that it opened, at once."""
        token_id, self.revoking_id = self.revoking_id, ""
        if not token_id:
            return None
        try:
            await self._rpc("revoke_worker_token", {"p_token": token_id})
            await self._again()
        except AppError as error:
            return say_error(error)
        return rx.toast.success("The token is revoked", description="Sessions that it opened have ended.")

    @rx.event
    async def set_serves_all(self, is_on: bool) -> rx.event.EventSpec | None:
        """Serve every module where nothing nearer does, or stop."""
        options = {"is_assigned_to_all_modules": is_on}
        said = "Serves all modules now" if is_on else "Serves only its assignments now"
        return await self._change("update_worker", {"p_options": options}, said)

    @rx.event
    async def set_allows_many(self, is_on: bool) -> rx.event.EventSpec | None:
        """Allow several instances of this runner, or only one."""
        options = {"allow_multiple_instances": is_on}
        said = "Several instances may connect" if is_on else "One instance may connect"
        return await self._change("update_worker", {"p_options": options}, said)

    async def _change(self, name: str, args: dict[str, Any], said: str) -> rx.event.EventSpec:
        try:
            await self._rpc(name, {"p_worker": self._id(), **args})
            await self._again()
        except AppError as error:
            return say_error(error)
        return rx.toast.success(said)


def _job(job: Row, names: dict[str, str]) -> dict[str, Any]:
    return {
        "id": int(job["id"]),
        "type": str(job["type"]),
        "path": target_of(job, names),
        "status": str(job["status"]),
        "reason": job_words.reason(job),
        "instance": str(job.get("instance_name") or "–"),
        "started_at": str(job.get("started_at") or job.get("claimed_at") or ""),
        "finished_at": str(job.get("finished_at") or ""),
    }
