"""Service accounts: sign-in for runners and CI, by OIDC trust or by a secret that is shown once."""

import asyncio
from typing import Any, ClassVar

import reflex as rx

from app.frame.session import SEGMENT, ShownSecret, puts, takes
from app.live.item_form import ItemForm
from app.project.models import BrowserSession
from app.project.store import Changed, OrgStore
from app.settings.view.service_accounts import AccountView, TrustView, build_view, check_form, new_trust
from wire.tokens import SERVICE_ACCOUNT, NewToken, make_token

MOST_TRUSTS = 10
NO_ACCOUNT: AccountView = build_view({"id": "", "name": ""})


class AccountsState(ItemForm, ShownSecret, rx.State):
    EMPTY: ClassVar[AccountView] = NO_ACCOUNT
    TOPICS: ClassVar[frozenset[str]] = frozenset({"service_accounts"})

    rows: list[AccountView] = []
    way: str = "oidc"
    chosen: AccountView = NO_ACCOUNT
    trusts: list[TrustView] = []
    next_trust: int = 0
    asking: str = ""
    asking_id: str = ""
    asking_name: str = ""
    shown_client: str = ""

    set_way = takes("way", SEGMENT, of=("oidc", "secret"))
    keep = puts(asking="")

    async def _prepare(self, session: BrowserSession) -> None:
        self.is_open, self.asking, self.shown_id = False, "", ""

    async def _show(self, store: OrgStore, changed: Changed) -> None:
        rows = await self._org_rows("service_accounts", order="name", limit=500)
        self._assign("rows", [build_view(row) for row in rows])

    def _fill(self, chosen: Any, *, is_new: bool) -> None:
        super()._fill(chosen, is_new=is_new)
        self.way = "oidc" if is_new or chosen["trusts"] else "secret"
        self.trusts, self.next_trust = list(chosen["trusts"]), len(chosen["trusts"])

    @rx.event
    def add_trust(self, platform: str) -> None:
        """Trust one more issuer: a platform's, with what its tokens say."""
        if len(self.trusts) < MOST_TRUSTS:
            self.trusts = [*self.trusts, new_trust(str(self.next_trust), platform)]
            self.next_trust += 1
            self.way = "oidc"

    @rx.event
    def drop_trust(self, key: str) -> None:
        self.trusts = [trust for trust in self.trusts if trust["key"] != key]

    @rx.event
    async def save(self, form: dict[str, Any]) -> Any:
        """Check the form and let the database take it; a new secret is shown once."""
        checked = check_form({**form, "way": self.way}, is_new=self.is_new, trusts=self.trusts)
        if self._is_refused(checked):
            return None
        shown = await self._save(checked.spec)
        await self._again()
        self.is_open = False
        return shown or rx.toast.success("Added" if self.is_new else "Saved")

    async def _save(self, spec: dict[str, Any]) -> Any:
        if not self.is_new:
            await self._rpc("update_service_account", {"p_account": self.chosen["id"], "p_spec": spec})
            return None
        args: dict[str, Any] = {"p_org": await self._org_id(), "p_spec": spec}
        if self.way == "oidc":
            await self._rpc("create_service_account", args)
            return None
        secret = await asyncio.to_thread(make_token, SERVICE_ACCOUNT)
        args |= {"p_secret_hash": secret.hash, "p_secret_hint": secret.hint}
        row = await self._rpc("create_service_account", args)
        return self._show_secret(row, secret)

    def _show_secret(self, row: dict[str, Any], secret: NewToken) -> rx.event.EventSpec:
        self.shown_client = str(row.get("client_id") or "")
        return self._reveal(row["id"], secret.text)

    @rx.event
    def ask(self, what: str, key: str) -> None:
        found = self._find(key)
        if what in ("rotate", "remove") and found is not None:
            self.asking, self.asking_id, self.asking_name = what, key, found["name"]

    @rx.event
    async def confirm(self) -> Any:
        asked, self.asking = self.asking, ""
        if not asked or self._find(self.asking_id) is None:
            return None
        return await (self._rotate() if asked == "rotate" else self._remove())

    async def _rotate(self) -> rx.event.EventSpec:
        secret = await asyncio.to_thread(make_token, SERVICE_ACCOUNT)
        args = {"p_account": self.asking_id, "p_secret_hash": secret.hash, "p_secret_hint": secret.hint}
        row = await self._rpc("rotate_service_account_secret", args)
        await self._again()
        return self._show_secret(row, secret)

    async def _remove(self) -> rx.event.EventSpec | None:
        args, said = {"p_account": self.asking_id}, f"{self.asking_name} is removed"
        return await self._act("remove_service_account", args, said, "It cannot sign in any more.")

    @rx.event
    async def switch(self, key: str, is_on: bool) -> rx.event.EventSpec | None:
        if self._find(key) is None:
            return None
        args = {"p_account": key, "p_spec": {"is_disabled": not is_on}}
        return await self._act(
            "update_service_account", args, "It can sign in" if is_on else "It cannot sign in any more"
        )
