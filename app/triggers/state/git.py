"""Connected repositories, their deliveries, and the form that connects one."""

import re
from typing import Any, ClassVar

import reflex as rx

from app.frame.session import ShownSecret, puts, takes
from app.live.item_form import Items, Removal
from app.live.page import LogPages
from app.project.models import BrowserSession
from app.project.runtime import runtime
from app.project.store import Changed, OrgStore
from app.triggers.state.git_logins import GitLoginsState
from app.triggers.view import git
from wire.tokens import make_webhook_secret

NEW: git.ConnectionView = git.build_connection({})
EVERY = "any"
PAGE = 20


class GitState(Items, LogPages, ShownSecret, rx.State):
    TOPICS: ClassVar[frozenset[str]] = frozenset({"git_connections", "git_deliveries", "git_logins", "modules"})
    EMPTY: ClassVar[git.ConnectionView] = NEW
    REMOVAL = Removal("disconnect_repository", "p_connection", "Disconnected {}")

    rows: list[git.ConnectionView] = []
    deliveries: list[git.DeliveryView] = []
    only: str = EVERY
    unfolded: str = ""
    chosen: git.ConnectionView = NEW
    provider: str = "github"
    poll: str = "300"
    replacing: str = ""
    replacing_name: str = ""
    shown_url: str = ""
    shown_steps: list[str] = []

    set_provider = takes("provider", of=git.PROVIDERS)
    set_poll = takes("poll", of=git.POLLS)
    keep_secret = puts(replacing="", replacing_name="")

    async def _prepare(self, session: BrowserSession) -> None:
        await super()._prepare(session)
        self.replacing = self.shown_id = ""
        self.only, self.before, self.unfolded = EVERY, [], ""
        named = str(self.router.url.query_parameters.get("delivery", ""))
        if re.fullmatch(r"[0-9]{1,18}", named):
            # The page of the list that begins with it.
            self.unfolded, self.before = named, [str(int(named) + 1)]
        (await self.get_state(GitLoginsState))._close()

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        found = await self._rpc("list_git_connections", {"p_org": store.org_id})
        self._assign("rows", [git.build_connection(row) for row in found])
        if self.only != EVERY and self._find(self.only) is None:
            self.only, self.before = EVERY, []
        await self._read_deliveries(store.org_id)
        await (await self.get_state(GitLoginsState))._read()

    async def _read_deliveries(self, org: str) -> None:
        only = None if self.only == EVERY else self.only
        # One more than a page shows whether there are older ones.
        args = {"p_org": org, "p_connection": only, "p_before": self._before(), "p_limit": PAGE + 1}
        found = await self._rpc("list_git_deliveries", args)
        self._assign("deliveries", [git.build_delivery(row) for row in found[:PAGE]])
        self._assign("has_older", len(found) > PAGE)

    @rx.event
    async def show_only(self, key: str) -> None:
        self.only, self.before, self.unfolded = key if self._find(key) else EVERY, [], ""
        await self._again()

    @rx.event
    def unfold(self, key: str) -> None:
        """Show why a delivery planned each module or did not, or fold it again."""
        self.unfolded = "" if self.unfolded == key else key

    def _fill(self, chosen: git.ConnectionView, *, is_new: bool) -> None:
        super()._fill(chosen, is_new=is_new)
        self.provider, self.poll = chosen["provider"], chosen["poll"]

    @rx.event
    def create_app(self) -> rx.event.EventSpec:
        """Lead the browser to GitHub, with the manifest of an app."""
        return rx.call_script("window.location.assign('/api/git/app')")

    @rx.event
    async def save(self, form: dict[str, Any]) -> Any:
        """Connect a repository and show its webhook once, or save how often it is read."""
        checked = git.check_form(form, self.provider, self.poll, is_new=self.is_new)
        if self._is_refused(checked):
            return None
        spec = checked.spec | await self._token(form)
        answer = await (self._connect(spec) if self.is_new else self._update(spec))
        self.is_open = False
        return answer

    async def _token(self, form: dict[str, Any]) -> dict[str, str]:
        """Seal a token that was typed; an empty field keeps the stored one."""
        given = str(form.get("token") or "").strip() if self.provider != "generic" else ""
        return {"token": await self._sealed(given)} if given else {}

    async def _connect(self, spec: dict[str, Any]) -> rx.event.EventSpec:
        secret = make_webhook_secret(self.provider)
        spec = {**spec, "webhook_secret": await self._sealed(secret)}
        made = await self._rpc("connect_repository", {"p_org": await self._org_id(), "p_spec": spec})
        await self._again()
        return self._show_webhook(made, secret)

    async def _update(self, spec: dict[str, Any]) -> rx.event.EventSpec | None:
        return await self._act("update_git_connection", {"p_connection": self.chosen["id"], "p_spec": spec}, "Saved")

    async def _sealed(self, secret: str) -> str:
        body = {"org": await self._org_id(), "channel": "webhook", "secret": secret}
        return str((await self._invoke("notify", body))["secret"])

    def _show_webhook(self, row: dict[str, Any], secret: str) -> rx.event.EventSpec:
        self.shown_url = f"{runtime().settings.runner_url}/functions/v1/git/{row['id']}"
        self.shown_steps = git.STEPS[str(row["provider"])]
        return self._reveal(row["id"], secret)

    @rx.event
    def ask_replace(self, key: str) -> None:
        found = self._find(key)
        if found is not None:
            self.replacing, self.replacing_name = key, found["name"]

    @rx.event
    async def replace_secret(self) -> rx.event.EventSpec | None:
        """Replace the secret of a webhook, and show the new one once."""
        found, self.replacing = self._find(self.replacing), ""
        if found is None:
            return None
        secret = make_webhook_secret(found["provider"])
        spec = {"webhook_secret": await self._sealed(secret)}
        row = await self._rpc("update_git_connection", {"p_connection": found["id"], "p_spec": spec})
        return self._show_webhook(row, secret)

    @rx.event
    async def remove_token(self, key: str) -> rx.event.EventSpec | None:
        """Report nothing to the provider any more."""
        args = {"p_connection": key, "p_spec": {"token": None}}
        return await self._act("update_git_connection", args, "Token removed") if self._find(key) else None

    @rx.event
    async def poll_now(self, key: str) -> rx.event.EventSpec | None:
        if self._find(key) is None:
            return None
        job = await self._rpc("poll_repository", {"p_connection": key})
        return rx.toast.info("Poll queued", description=f"Job #{job['number']} reads the repository.")
