"""The add-runner sheet: register a self-hosted runner, or deploy a cloud-hosted one, and wait for it."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import reflex as rx

from app.frame.releases.files import NO_FILE, RunnerFile, newest_files
from app.frame.session import SEGMENT, puts, say_error, takes
from app.frame.versions import latest
from app.project.errors import AppError, Refused
from app.project.models import Filter, Query, Row
from app.project.runtime import runtime
from app.project.snapshot import JOB_COLUMNS
from app.runners.state.deploy_form import DeployForm
from app.runners.view import form
from app.runners.view.commands import WAYS, Launch, commands, paste
from app.runners.view.deployment import arrival, build_identity
from app.ui.view import parse_time
from wire.tokens import make_token

TOKEN = "%TOKEN%"  # noqa: S105 - the browser puts the token here; no state ever holds it
LATE_SECONDS = 120
NAME_TAKEN = "RY409"
TEST_SPEC = {
    "description": "Created by “Run a test plan”. Removed automatically a few minutes after its last plan.",
    "is_temporary": True,
    "source_kind": "inline",
    "source": {"files": {"main.tf": 'output "runner_works" {\n  value = true\n}\n'}},
}


class AddRunnerState(DeployForm, rx.State):
    is_open: bool = False
    is_asking: bool = False
    tab: str = "self"
    labels: str = ""
    capacity: str = "1"
    account_id: str = form.NO_ACCOUNT
    accounts: list[form.AccountChoice] = []
    errors: dict[str, str] = {}
    is_busy: bool = False

    client_id: str = ""
    trusts: str = ""
    files: list[RunnerFile] = []
    file: RunnerFile = NO_FILE
    way: str = "Shell"
    commands: dict[str, str] = {}
    is_copied: bool = False
    registered_at: str = ""
    progress: str = "waiting"
    arrived: str = ""
    _opened_by: str = ""

    set_labels = takes("labels", most=500)
    set_capacity = takes("capacity", most=9)
    set_way = takes("way", SEGMENT, of=WAYS)
    # Remember that the token was copied, so that closing asks nothing.
    copied = puts(is_copied=True)
    keep_open = puts(is_asking=False)

    @rx.event
    async def open_sheet(self) -> None:
        self._clear()
        await self._read_choices()
        self.is_open, self._opened_by = True, self.router.session.session_id

    @rx.event
    async def open_for_path(self) -> None:
        """Open the sheet for the group that the address names, as its page does."""
        path = str(self.router.url.query_parameters.get("add") or "")
        if not path or not (await self._who()).can_admin:
            return
        await self.open_sheet()
        self.set_path(path)

    def _clear(self) -> None:
        self.reset()

    async def _read_choices(self) -> None:
        columns = "id,name,is_disabled,client_id,trusts"
        self.accounts = form.build_accounts(await self._org_rows("service_accounts", columns=columns, order="name"))
        self.identities = [build_identity(row) for row in await self._org_rows("cloud_identities", order="name")]
        if self.identities:
            self._choose_identity(self.identities[0]["id"])

    @rx.event
    def set_tab(self, tab: str) -> None:
        """Show the other tab, unless something was begun in this one."""
        if tab in ("cloud", "self") and not self.worker_id and not self.job_id:
            self.tab = tab

    @rx.event
    def set_account(self, account_id: str) -> None:
        if account_id in (form.NO_ACCOUNT, *(item["id"] for item in self.accounts)):
            self.account_id = account_id

    @rx.var
    def command(self) -> str:
        """The command to paste on the machine, for the chosen way and file."""
        return paste(self.way, self.commands.get(self.way, ""), self.file["commands"])

    @rx.event
    def set_file(self, name: str | list[str]) -> None:
        self.file = next((file for file in self.files if file["name"] == name), self.file)

    @rx.event
    async def register(self) -> Any:
        self._check_name()
        host = form.check_host({"labels": self.labels, "capacity": self.capacity})
        self.errors = host.errors
        if self.name_problem or host.errors or self.worker_id:
            return
        self.is_busy = True
        yield
        token = None if self.account_id != form.NO_ACCOUNT else await asyncio.to_thread(make_token)
        proof = (token.hash, token.hint) if token else (None, None)
        try:
            worker = await self._rpc("register_worker", await self._registration(host.spec, *proof))
        except AppError as error:
            self.is_busy = False
            if isinstance(error, Refused) and error.code == NAME_TAKEN:
                self.name_problem = f"{error.message} {error.hint}".strip()
            else:
                yield say_error(error)
            return
        await self._registered(worker)
        if token is not None:
            yield rx.call_script(f"window.runyard.secret('{self.worker_id}', '{token.text}')")

    async def _registration(
        self, host: dict[str, Any], token_hash: str | None, token_hint: str | None
    ) -> dict[str, Any]:
        options = {**host, "service_account_id": form.account_of(self.account_id), **self._reach()}
        return {
            "p_org": await self._org_id(),
            "p_name": self.name,
            "p_token_hash": token_hash,
            "p_token_hint": token_hint,
            "p_options": options,
        }

    async def _registered(self, worker: dict[str, Any]) -> None:
        self.is_busy = False
        self.worker_id, self.worker_name = str(worker["id"]), str(worker["name"])
        self.registered_at = datetime.now(UTC).isoformat()
        who = await self._who()
        store = await runtime().hub.open(who.org_id, await who._must_session())
        releases = store.rows("worker_releases")
        chosen = next((each for each in self.accounts if each["id"] == self.account_id), None)
        self.client_id, self.trusts = (chosen["client_id"], chosen["trusts"]) if chosen else ("", "")
        launch = Launch(
            client_id=self.client_id,
            proof=chosen["proof"] if chosen else "token",
            url=runtime().settings.runner_url,
            worker_id=self.worker_id,
            token=TOKEN,
            name=self.worker_name,
            version=latest(releases) or "latest",
            image=runtime().settings.runner_image,
        )
        self.commands = commands(launch)
        self.files = newest_files(releases)
        self.file = self.files[0] if self.files else NO_FILE

    @rx.event
    def set_open(self, is_open: bool) -> rx.event.EventSpec | None:
        """Close the sheet; ask first while the token was not copied."""
        if is_open:
            return None
        has_token = bool(self.worker_id) and self.tab == "self" and not self.client_id
        if has_token and not self.is_copied and self.progress != "online":
            self.is_asking = True
            return None
        return self._shut()

    @rx.event
    def close_anyway(self) -> rx.event.EventSpec:
        return self._shut()

    def _shut(self) -> rx.event.EventSpec:
        gone = self.worker_id
        self._clear()
        return rx.call_script(f"window.runyard.forget('{gone}')")

    async def _watch(self) -> None:
        """Check for the first heartbeat, and the job that deploys. Every change is checked: the last may be the one."""
        if not self.is_open:
            return
        if self.test_job_id and (test := await self._job(self.test_job_id)) is not None:
            self._note_test(test)
        if not self.worker_id:
            return
        arguments = {"p_org": await self._org_id(), "p_filters": {"id": [self.worker_id]}}
        worker = next(iter((await self._rpc("list_runners", arguments))["rows"]), None)
        online = worker if worker is not None and worker["status"] != "OFFLINE" else None
        self._assign("progress", "online" if online or self.progress == "online" else self._waiting())
        if online:
            self._assign("arrived", arrival(online))
        if self.job_id and (job := await self._job(self.job_id)) is not None:
            self._follow(job)

    async def _job(self, job_id: int) -> Row | None:
        query = Query(columns=JOB_COLUMNS, filters=(Filter("id", "eq", str(job_id)),), limit=1)
        return next(iter((await self._select("provision_jobs", query)).rows), None)

    @rx.event
    async def run_test(self) -> Any:
        """Run a plan that changes nothing on the runner that has just come online, and show it."""
        if not self.worker_id:
            return None
        group = next(iter(self._reach()["assignments"]), form.TEST_GROUP)
        module, options = await self._test_module(group), {"pinned_worker_id": self.worker_id}
        args = {"p_org": await self._org_id(), "p_type": "PLAN", "p_module": module, "p_options": options}
        job = await self._rpc("enqueue_job", args)
        # The sheet is left for good: it would reopen with the page otherwise, without its token.
        return [self._shut(), self._go(f"/dashboard/jobs/{int(job['number'])}")]

    async def _test_module(self, group: str) -> str:
        """Find the module that tests runners, or create it where this runner may work."""
        path = Filter("path", "eq", f"{group}/{form.TEST_MODULE}")
        if rows := await self._org_rows("modules", path, columns="id", limit=1):
            return str(rows[0]["id"])
        args = {"p_org": await self._org_id(), "p_group_path": group, "p_name": form.TEST_MODULE, "p_spec": TEST_SPEC}
        return str((await self._rpc("create_module", args))["id"])

    @rx.event
    def come_back(self) -> rx.event.EventSpec | None:
        """Close a sheet from before a reload, unless a runner begins in it whose token the browser still has: states outlive a reload."""
        if (
            self.is_open
            and not self.worker_id
            and not self.job_id
            and self._opened_by != self.router.session.session_id
        ):
            return self._shut()
        if not self.is_open or self.tab != "self" or not self.worker_id or self.client_id:
            return None
        asked = f"window.runyard.hasSecret('{self.worker_id}')"
        return rx.call_script(asked, callback=AddRunnerState.leave_unless)

    @rx.event
    def leave_unless(self, has_token: bool) -> rx.event.EventSpec | None:
        """Close a sheet that could only show where its token was."""
        return None if has_token else self._shut()

    def _waiting(self) -> str:
        since = parse_time(self.registered_at)
        if since is None or (datetime.now(UTC) - since).total_seconds() < LATE_SECONDS:
            return "waiting"
        return "late"
