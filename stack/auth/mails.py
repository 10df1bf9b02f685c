"""Mails for recovery and for the confirmation of a new address. The database keeps links and codes as hashes."""

import logging
import secrets
from typing import Any
from urllib.parse import urlencode

from stack.auth.access import Answer, Request, text_of
from stack.auth.errors import AuthError, Unsupported, too_many_mails
from stack.auth.limits import Limits
from stack.auth.outbox import Outbox
from stack.auth.sessions import AuthSessions
from stack.auth.settings import Options
from stack.auth.store import Row, Store, Transaction
from stack.auth.tokens import KeyRing
from stack.auth.users import change_address, clean_email

log = logging.getLogger("stack.auth")
LINK_BYTES = 32
RECOVERY, NEW_ADDRESS, OLD_ADDRESS = "recovery", "email_change_new", "email_change_current"
KINDS = {"recovery": [RECOVERY], "email_change": [NEW_ADDRESS, OLD_ADDRESS]}
HALF_WAY = "Confirmation link accepted. Please proceed to confirm link sent to the other email"


class Mails:
    """The handlers that send mails, and those of the links in them."""

    def __init__(self, store: Store, sessions: AuthSessions, limits: Limits, options: Options, ring: KeyRing) -> None:
        self._store = store
        self._sessions = sessions
        self._limits = limits
        self.options = options
        self._ring = ring
        self._outbox = Outbox(ring.secret)

    async def recover(self, request: Request) -> Answer:
        """POST /recover: the same answer whether the address is known or not."""
        self._limits.requests.spend(request.client.address)
        email = clean_email(request.json().get("email"))
        self._limits.mails.spend(email, too_many_mails(self.options.mail_seconds))
        async with self._store.transaction() as tx:
            user = await tx.one("user_by_email", email=email)
            if user is not None:
                await tx.one("mark_recovery_sent", id=user["id"])
                await self._mail(tx, user, RECOVERY, email, request.query.get("redirect_to"))
        return Answer({})

    async def confirm_address(self, tx: Transaction, user: Row, email: str, redirect_to: str | None) -> Row:
        """Mail the new address, and the old one where both must agree; nothing changes until they do."""
        if await tx.one("user_by_email", email=email) is not None:
            raise AuthError(422, "email_exists", "A user with this email address has already been registered")
        self._limits.mails.spend(str(user["id"]), too_many_mails(self.options.mail_seconds))
        row = await tx.one("ask_for_address", id=user["id"], email=email)
        await self._mail(tx, user, NEW_ADDRESS, email, redirect_to)
        if self.options.confirms_twice and user["email"]:
            await self._mail(tx, user, OLD_ADDRESS, user["email"], redirect_to)
        return row or user

    async def _mail(self, tx: Transaction, user: Row, kind: str, email: str, redirect_to: str | None) -> None:
        link, code = await self.make_token(tx, user, kind, email)
        query = urlencode({"token_hash": link, "type": "recovery" if kind == RECOVERY else "email_change"})
        target = self.allowed_target(redirect_to)
        address = f"{target}{'&' if '?' in target else '?'}{query}"
        await self._outbox.keep(tx, kind, email, address, code)
        log.warning("A mail was kept instead of sent: `runyard mail` shows it")

    async def make_token(self, tx: Transaction, user: Row, kind: str, email: str) -> tuple[str, str]:
        """A link's token and a code to type; the database has their hashes, the newest of each kind alone."""
        link, code = secrets.token_urlsafe(LINK_BYTES), f"{secrets.randbelow(10**8):08d}"
        hashes = {"link_hash": self._ring.digest(link), "code_hash": self._ring.digest(email + code)}
        await tx.do("put_mailed_token", user_id=user["id"], kind=kind, email=email, **hashes)
        return link, code

    async def verify(self, request: Request) -> Answer:
        """POST /verify: a link's token or a code becomes a session; wrong ones of both kinds are counted."""
        self._limits.requests.spend(request.client.address)
        values = request.json()
        kind, link = text_of(values, "type"), text_of(values, "token_hash")
        email = "" if link else clean_email(values.get("email"))
        given = link or email + (text_of(values, "token") or "")
        return Answer(await self._counted(request, kind, given, f"{request.client.origin} {email} code"))

    async def follow_link(self, request: Request) -> Answer:
        """GET /verify: the link of a mail; the session goes to the page in the fragment."""
        self._limits.requests.spend(request.client.address)
        target = self.allowed_target(request.query.get("redirect_to"))
        kind, token = request.query.get("type"), request.query.get("token", "")
        try:
            session = await self._counted(request, kind, token, f"{request.client.origin}  code")
        except AuthError as error:
            failure = {"error": "access_denied", "error_code": error.code, "error_description": error.message}
            return Answer(status=303, headers={"location": f"{target}#{urlencode(failure)}"})
        names = ("access_token", "expires_at", "expires_in", "refresh_token", "token_type")
        shown = {name: session[name] for name in names} if "access_token" in session else {"message": HALF_WAY}
        return Answer(status=303, headers={"location": f"{target}#{urlencode({**shown, 'type': kind or ''})}"})

    async def _counted(self, request: Request, kind: str | None, given: str, key: str) -> dict[str, Any]:
        self._limits.failures.check(key)
        try:
            return await self._redeem(request, kind, given)
        except AuthError:
            self._limits.failures.spend(key)
            raise

    async def _redeem(self, request: Request, kind: str | None, given: str) -> dict[str, Any]:
        if kind not in KINDS:
            raise Unsupported(f"verification of type {(kind or 'none')[:40]}")
        async with self._store.transaction() as tx:
            token = await tx.one("take_mailed_token", hash=self._ring.digest(given), kinds=KINDS[kind])
            user = await tx.one("user_by_id", id=token["user_id"]) if token else None
            if token is not None and user is not None:
                return await self._accept(tx, token, user, request)
        raise AuthError(403, "otp_expired", "Token has expired or is invalid")

    async def _accept(self, tx: Transaction, token: Row, user: Row, request: Request) -> dict[str, Any]:
        if token["kind"] == RECOVERY:
            row = await tx.one("confirm_user", id=user["id"])
            return await self._sessions.sign_in(tx, row or user, "recovery", request.client)
        if self.options.confirms_twice and user["email"] and user["email_change_confirm_status"] == 0:
            await tx.do("confirm_half", id=user["id"])
            return {"msg": HALF_WAY, "code": "200"}
        row = await change_address(tx, user, user["email_change"])
        return await self._sessions.sign_in(tx, row, "otp", request.client)

    def allowed_target(self, target: str | None) -> str:
        """Only the site itself and what the project lists: a session must not be carried elsewhere."""
        allowed = [url.rstrip("/*") for url in (self.options.site_url, *self.options.redirect_urls)]
        is_ours = target is not None and any(target == url or target.startswith(f"{url}/") for url in allowed)
        return target if target is not None and is_ours else self.options.site_url.rstrip("/")
