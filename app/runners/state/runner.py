"""A runner's own page: facts, a day's strip, instances, jobs, events; assignments, tokens, switches."""

from typing import Any, ClassVar

import reflex as rx

from app.frame.session import puts, takes
from app.jobs.view.rows import JobRow
from app.jobs.view.rows import build_row as build_job_row
from app.jobs.view.words import RUNNING
from app.live.page import LivePage
from app.project.errors import NotThere
from app.project.live_queries import Held, LiveQuery, live_query
from app.project.models import BrowserSession, Row
from app.project.store import AGAIN, Changed, OrgStore
from app.runners.state.scaling import RunnerScalingState
from app.runners.view import detail
from app.runners.view.health import Advice, build_advice
from app.runners.view.rows import Pulse, RunnerRow, build_row, read_pulses
from app.ui.view import parse_time, read

JOBS_SHOWN = 8
SETTINGS = ("allow_multiple_instances", "is_assigned_to_all_modules")
NOBODY: RunnerRow = read(RunnerRow, {}, status="OFFLINE")


class RunnerJob(JobRow):
    instance: str


def build_job(job: Row) -> RunnerJob:
    """Read a job's row as the list of all jobs does, and name its process."""
    return {**build_job_row(job), "instance": str(job.get("instance_name") or "–")}


class RunnerState(LivePage, rx.State):
    TOPICS: ClassVar[frozenset[str]] = frozenset({"workers", "worker_instances"})

    row: RunnerRow = NOBODY
    advice: list[Advice] = []
    pulse: Pulse = {"at": "", "used": 0, "capacity": 0}
    pulses: dict[str, Pulse] = {}
    about: str = ""
    labels: list[str] = []
    service_account: str = ""
    cloud_role: str = ""
    cloud_rights: str = ""
    created_by: str = ""
    allows_many: bool = False
    serves_all: bool = False
    instances: list[detail.InstanceDetail] = []
    connected_count: int = 0
    jobs: list[RunnerJob] = []
    jobs_said: str = ""
    strip: detail.Strip = detail.NO_STRIP
    events: list[detail.EventRow] = []
    log: list[detail.LogLine] = []
    assignments: list[detail.Assignment] = []
    tokens: list[detail.TokenRow] = []
    is_assigning: bool = False
    revoking_id: str = ""
    revoking_hint: str = ""
    revoking_effect: str = ""

    set_assigning = takes("is_assigning", bool)
    keep_token = puts(revoking_id="")

    def _id(self) -> str:
        return str(getattr(self, "runner_id", ""))

    async def _prepare(self, session: BrowserSession) -> None:
        self.is_assigning, self.revoking_id = False, ""
        if self.row["id"] != self._id():
            self.row = NOBODY
        await self._ask(*self._queries())

    def _queries(self) -> tuple[LiveQuery, LiveQuery, LiveQuery]:
        topics = ("workers", "worker_instances", "worker_releases", "overview")
        jobs: dict[str, Any] = {"filters": {"worker_id": self._id()}, "sort": "newest", "limit": JOBS_SHOWN}
        # Not all runners make the rest of the page old, because a fleet has thousands of others.
        rest = (f"runner:{self._id()}", "worker_assignments", "scaling_decisions", AGAIN)
        return (
            live_query("list_runners", topics, "workers", filters={"id": [self._id()]}),
            live_query("list_jobs", ("provision_jobs",), "provision_jobs", **jobs),
            live_query("runner_page", rest, worker=self._id()),
        )

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        runner, jobs, around = (store.live_queries.held(one) for one in self._queries())
        worker = next(iter(runner.rows()), None) if runner is not None else None
        if worker is None:
            if changed.is_everything:
                raise NotThere(
                    "There is no such runner.", "It may have been removed, or belong to another organisation."
                )
            self.is_missing, self.problem = True, "This runner was removed."
            return
        await self._show_facts(worker)
        if jobs is not None:
            self._show_jobs(jobs)
        if around is not None:
            self._show_around(worker, around.answer)
        if self._is_about_me(store, changed):
            await self._show_tokens(worker)
        if worker["type"] == "cloud-hosted" and around is not None:
            (await self.get_state(RunnerScalingState))._show(worker, around.answer["decisions"])

    def _is_about_me(self, store: OrgStore, changed: Changed) -> bool:
        """Return whether a change is this runner's or one of its processes', or may be: a fleet has thousands of others."""
        rows = (store.row("worker_instances", key) for key in changed.ids("worker_instances"))
        is_process = any(row is not None and str(row["worker_id"]) == self._id() for row in rows)
        return changed.touches({AGAIN}) or is_process or self._id() in changed.ids("workers")

    async def _show_facts(self, worker: Row) -> None:
        self._assign("row", build_row(worker))
        self._assign("advice", build_advice(worker, (await self._who()).latest_version))
        connected = len(worker.get("processes") or [])
        self._assign("connected_count", connected)
        self._assign("about", detail.sentence(worker, connected))
        role, rights = detail.cloud_rights(worker)
        self._assign("cloud_role", role)
        self._assign("cloud_rights", rights)
        self._assign("labels", list(worker.get("labels") or []))
        self._assign("allows_many", bool(worker.get("allow_multiple_instances")))
        self._assign("serves_all", bool(worker.get("is_assigned_to_all_modules")))
        pulses = read_pulses(worker)
        self._assign("pulse", pulses.pop(self._id()))
        self._assign("pulses", pulses)

    def _show_jobs(self, held: Held) -> None:
        self._assign("jobs", held.each("of_runner", build_job))
        running = sum(int(held.answer["counts"].get(status) or 0) for status in RUNNING)
        self._assign("jobs_said", f"{running:,} running, {held.answer['total']:,} in all")

    def _show_around(self, worker: Row, answer: Row) -> None:
        self._assign("instances", detail.build_instances(answer["instances"]))
        self._assign("log", detail.build_log(answer["instances"]))
        self._assign("events", detail.build_events(answer["events"]))
        self._assign("created_by", detail.build_events([answer["registered"]])[0]["by"] if answer["registered"] else "")
        self._assign("service_account", str(answer["service_account"] or ""))
        self._assign("assignments", detail.build_assignments(answer["assignments"]))
        self._assign("strip", detail.build_strip(answer["history"], parse_time(worker.get("first_seen_at"))))

    async def _show_tokens(self, worker: Row) -> None:
        who = await self._who()
        if not who.can_admin or worker.get("is_shared") or worker["type"] == "cloud-hosted":
            self._assign("tokens", [])
            return
        self._assign(
            "tokens", detail.build_tokens(await self._rpc("list_worker_tokens", {"p_worker": self._id()}) or [])
        )

    @rx.event
    async def assign(self, form: dict[str, Any]) -> rx.event.EventSpec | None:
        path = str(form.get("path") or "").strip("/ ")
        if not path:
            return None
        said = await self._change("assign_worker", {"p_worker": self._id(), "p_path": path}, f"Serves {path} now")
        self.is_assigning = False
        return said

    @rx.event
    async def unassign(self, path: str) -> rx.event.EventSpec | None:
        return await self._change(
            "unassign_worker", {"p_worker": self._id(), "p_path": path}, f"No longer serves {path}"
        )

    @rx.event
    def ask_revoke(self, token_id: str) -> None:
        token = next((token for token in self.tokens if token["id"] == token_id), None)
        if token is None:
            return
        self.revoking_id, self.revoking_hint = token_id, token["hint"]
        self.revoking_effect = detail.say_revocation(token, self.connected_count, self.pulse["used"])

    @rx.event
    async def revoke_token(self) -> rx.event.EventSpec | None:
        token_id, self.revoking_id = self.revoking_id, ""
        if not token_id:
            return None
        text = "Sessions that it opened have ended."
        return await self._change("revoke_worker_token", {"p_token": token_id}, "The token is revoked", text)

    @rx.event
    async def set_serves_all(self, is_on: bool) -> rx.event.EventSpec | None:
        options = {"is_assigned_to_all_modules": is_on}
        said = "Serves all modules now" if is_on else "Serves only its assignments now"
        return await self._change("update_worker", {"p_worker": self._id(), "p_options": options}, said)

    @rx.event
    async def set_allows_many(self, is_on: bool) -> rx.event.EventSpec | None:
        options = {"allow_multiple_instances": is_on}
        said = "Several instances may connect" if is_on else "One instance may connect"
        return await self._change("update_worker", {"p_worker": self._id(), "p_options": options}, said)

    async def _change(self, name: str, args: dict[str, Any], said: str, text: str = "") -> rx.event.EventSpec:
        await self._rpc(name, args)
        await self._renew()
        return rx.toast.success(said, description=text)
