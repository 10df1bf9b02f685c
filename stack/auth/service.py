"""What the Auth service does for users: sign up, sign in, refresh, look, change, leave, recover."""

import hashlib
import logging
import secrets
import uuid
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from psycopg.types.json import Jsonb

from stack.auth.errors import AuthError, Unsupported, invalid_credentials, validation
from stack.auth.limits import Limiter
from stack.auth.passwords import Passwords
from stack.auth.requests import Answer, Request, text_of
from stack.auth.sessions import Sessions
from stack.auth.store import Row, Store, Transaction
from stack.auth.users import clean_email, clean_metadata, user_json

log = logging.getLogger("stack.auth")
EMAIL_METADATA = {"provider": "email", "providers": ["email"]}


@dataclass(frozen=True)
class Options:
    """What a project may set in `supabase/config.toml`."""

    can_sign_up: bool = True
    site_url: str = "http://localhost:3000"
    redirect_urls: tuple[str, ...] = ()


@dataclass(frozen=True)
class Limits:
    """One bucket per thing that can be abused."""

    requests: Limiter
    failures: Limiter
    mails: Limiter


class AuthService:
    """The handlers of the public endpoints."""

    def __init__(
        self, store: Store, sessions: Sessions, passwords: Passwords, limits: Limits, options: Options, url: str
    ) -> None:
        self.store = store
        self.sessions = sessions
        self.passwords = passwords
        self.limits = limits
        self.options = options
        self.url = url

    async def sign_up(self, request: Request) -> Answer:
        """POST /signup: a confirmed user and a session, since no mail is sent."""
        self.limits.requests.spend(request.client.address)
        if not self.options.can_sign_up:
            raise AuthError(422, "signup_disabled", "Signups not allowed for this instance")
        values = request.json()
        if "phone" in values and "email" not in values:
            raise Unsupported("sign-up by phone")
        if not values.get("email") and not values.get("password"):
            raise AuthError(422, "anonymous_provider_disabled", "Anonymous sign-ins are disabled")
        email = clean_email(values.get("email"))
        hashed = await self.passwords.hash(_password(values))
        metadata = clean_metadata(values.get("data"), "data")
        async with self.store.transaction() as tx:
            user = await create_user(tx, email, hashed, user_metadata=metadata)
            if user is None:
                raise AuthError(422, "user_already_exists", "User already registered")
            return Answer(await self.sessions.sign_in(tx, user, "password", request.client))

    async def token(self, request: Request) -> Answer:
        """POST /token: by password or by refresh token."""
        self.limits.requests.spend(request.client.address)
        grant = request.query.get("grant_type", "")
        if grant == "password":
            return await self._by_password(request)
        if grant == "refresh_token":
            token = text_of(request.json(), "refresh_token")
            if not token:
                raise validation("refresh_token required")
            return Answer(await self.sessions.refresh(token, request.client))
        if grant in ("pkce", "id_token", "web3"):
            raise Unsupported(f"the grant type {grant}")
        raise AuthError(400, "unsupported_grant_type", "unsupported_grant_type")

    async def _by_password(self, request: Request) -> Answer:
        values = request.json()
        if "phone" in values and not values.get("email"):
            raise Unsupported("sign-in by phone")
        email = clean_email(values.get("email"))
        password = text_of(values, "password") or ""
        key = f"{request.client.address} {email}"
        self.limits.failures.check(key)
        async with self.store.transaction() as tx:
            user = await tx.one("user_by_email", email=email)
        if not await self.passwords.verify(password, user["encrypted_password"] if user else None) or user is None:
            self.limits.failures.spend(key)
            raise invalid_credentials()
        if user["email_confirmed_at"] is None:
            raise AuthError(400, "email_not_confirmed", "Email not confirmed")
        async with self.store.transaction() as tx:
            return Answer(await self.sessions.sign_in(tx, user, "password", request.client))

    async def show_user(self, request: Request) -> Answer:
        """GET /user."""
        async with self.store.transaction() as tx:
            signed_in = await self.sessions.signed_in(tx, request.token)
            return Answer(await user_json(tx, signed_in.user))

    async def update_user(self, request: Request) -> Answer:
        """PUT /user: address, password or metadata of the one who asks."""
        values = request.json()
        if values.get("phone"):
            raise Unsupported("phone numbers")
        metadata = clean_metadata(values.get("data"), "data")
        password = text_of(values, "password")
        email = clean_email(values["email"]) if values.get("email") else None
        async with self.store.transaction() as tx:
            signed_in = await self.sessions.signed_in(tx, request.token)
        hashed = await self._changed_password(signed_in.user, password)
        async with self.store.transaction() as tx:
            row = await change_user(tx, signed_in.user, email=email, password=hashed, user_metadata=metadata)
            if hashed is not None:
                await tx.do("end_other_sessions", user_id=row["id"], session_id=signed_in.session_id)
            return Answer(await user_json(tx, row))

    async def _changed_password(self, user: Row, password: str | None) -> str | None:
        if password is None:
            return None
        hashed = await self.passwords.hash(password)
        if await self.passwords.verify(password, user["encrypted_password"]):
            raise AuthError(422, "same_password", "New password should be different from the old password.")
        return hashed

    async def log_out(self, request: Request) -> Answer:
        """POST /logout: this session, the others, or all."""
        scope = request.query.get("scope", "global")
        queries = {"global": "end_all_sessions", "local": "end_session", "others": "end_other_sessions"}
        if scope not in queries:
            raise validation(f'Unsupported logout scope "{scope[:40]}"')
        async with self.store.transaction() as tx:
            signed_in = await self.sessions.signed_in(tx, request.token)
            values = {"user_id": signed_in.user["id"], "session_id": signed_in.session_id}
            await tx.do(queries[scope], **values)
        return Answer(status=204)

    async def recover(self, request: Request) -> Answer:
        """POST /recover: the same answer whether the address is known or not."""
        self.limits.requests.spend(request.client.address)
        email = clean_email(request.json().get("email"))
        self.limits.mails.spend(email)
        async with self.store.transaction() as tx:
            user = await tx.one("user_by_email", email=email)
            if user is not None:
                await self._put_into_outbox(tx, user, request.query.get("redirect_to"))
        return Answer({})

    async def _put_into_outbox(self, tx: Transaction, user: Row, redirect_to: str | None) -> None:
        _, code, hashed, _ = await self.recovery_link(tx, user, redirect_to)
        query = urlencode({"token_hash": hashed, "type": "recovery"})
        target = self._allowed_target(redirect_to)
        link = f"{target}{'&' if '?' in target else '?'}{query}"
        await tx.do("insert_outbox", kind="recovery", email=user["email"], link=link, code=code)
        await tx.do("trim_outbox")
        log.warning("A recovery mail was kept instead of sent: `runyard mail` shows it")

    async def recovery_link(self, tx: Transaction, user: Row, redirect_to: str | None) -> tuple[str, str, str, Row]:
        """A link, the code in it, its hash, and the user who now has them."""
        code = f"{secrets.randbelow(10**8):08d}"
        hashed = token_hash(user["email"], code)
        row = await tx.one("set_recovery_token", id=user["id"], token=hashed)
        target = redirect_to or self.options.site_url
        query = urlencode({"token": hashed, "type": "recovery", "redirect_to": target})
        return f"{self.url}/auth/v1/verify?{query}", code, hashed, row or user

    async def verify(self, request: Request) -> Answer:
        """POST /verify: a recovery code or its hash becomes a session."""
        self.limits.requests.spend(request.client.address)
        values = request.json()
        kind, hashed = text_of(values, "type"), text_of(values, "token_hash")
        if hashed:
            return Answer(await self._redeem(request, kind, hashed))
        # Eight digits can be guessed where a hash cannot, so wrong ones are counted.
        email = clean_email(values.get("email"))
        key = f"{request.client.address} {email} code"
        self.limits.failures.check(key)
        try:
            return Answer(await self._redeem(request, kind, token_hash(email, text_of(values, "token") or "")))
        except AuthError:
            self.limits.failures.spend(key)
            raise

    async def follow_link(self, request: Request) -> Answer:
        """GET /verify: the link of a mail; the session goes to the page in the fragment."""
        self.limits.requests.spend(request.client.address)
        target = self._allowed_target(request.query.get("redirect_to"))
        try:
            session = await self._redeem(request, request.query.get("type"), request.query.get("token", ""))
        except AuthError as error:
            failure = {"error": "access_denied", "error_code": error.code, "error_description": error.message}
            return Answer(status=303, headers={"location": f"{target}#{urlencode(failure)}"})
        names = ("access_token", "expires_at", "expires_in", "refresh_token", "token_type")
        fragment = urlencode({**{name: session[name] for name in names}, "type": "recovery"})
        return Answer(status=303, headers={"location": f"{target}#{fragment}"})

    async def _redeem(self, request: Request, kind: str | None, token: str) -> dict[str, Any]:
        if kind != "recovery":
            raise Unsupported(f"verification of type {(kind or 'none')[:40]}")
        async with self.store.transaction() as tx:
            user = await tx.one("user_by_recovery_token", token=token) if token else None
            row = await tx.one("clear_recovery_token", id=user["id"], token=token) if user else None
            if row is not None:
                return await self.sessions.sign_in(tx, row, "recovery", request.client)
        raise AuthError(403, "otp_expired", "Token has expired or is invalid")

    def _allowed_target(self, target: str | None) -> str:
        """Only the site itself and what the project lists: a session must not be carried elsewhere."""
        allowed = [url.rstrip("/*") for url in (self.options.site_url, *self.options.redirect_urls)]
        is_ours = target is not None and any(target == url or target.startswith(f"{url}/") for url in allowed)
        return target if target is not None and is_ours else self.options.site_url.rstrip("/")


async def create_user(
    tx: Transaction, email: str, hashed: str | None, user_metadata: dict[str, Any] | None = None, **more: Any
) -> Row | None:
    """A new user with its identity; None when the address is taken."""
    user_id: uuid.UUID = more.get("id") or uuid.uuid4()
    identity = {"sub": str(user_id), "email": email, "email_verified": True, "phone_verified": False}
    row = await tx.one(
        "insert_user",
        id=user_id,
        role=more.get("role") or "authenticated",
        email=email,
        password=hashed,
        is_confirmed=more.get("is_confirmed", True),
        app_metadata=Jsonb({**EMAIL_METADATA, **(more.get("app_metadata") or {})}),
        user_metadata=Jsonb(user_metadata or {}),
        banned_until=more.get("banned_until"),
    )
    if row is not None:
        await tx.do("insert_identity", id=user_id, data=Jsonb(identity))
    return row


async def change_user(tx: Transaction, user: Row, **changes: Any) -> Row:
    """Change what is given; the address must be free."""
    email = changes.get("email")
    if email is not None and email != user["email"]:
        if await tx.one("user_by_email", email=email) is not None:
            raise AuthError(422, "email_exists", "A user with this email address has already been registered")
        await tx.do("update_identity_email", id=user["id"], email=email)
    metadata = {name: changes.get(name) for name in ("user_metadata", "app_metadata")}
    row = await tx.one(
        "update_user",
        id=user["id"],
        email=email,
        password=changes.get("password"),
        role=changes.get("role"),
        is_confirmed=changes.get("is_confirmed", False),
        sets_ban="banned_until" in changes,
        banned_until=changes.get("banned_until"),
        **{name: None if value is None else Jsonb(value) for name, value in metadata.items()},
    )
    return row or user


def token_hash(email: str, code: str) -> str:
    """What the database keeps instead of a code."""
    return hashlib.sha224((email + code).encode("utf-8", "replace")).hexdigest()


def _password(values: dict[str, Any]) -> str:
    password = text_of(values, "password")
    if not password:
        raise validation("Signup requires a valid password")
    return password
