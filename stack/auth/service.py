"""The endpoints of the Auth service for users: sign up, sign in, refresh, read and change the account, sign out."""

import uuid
from dataclasses import dataclass
from typing import Any

from stack.auth.access import Answer, Request, text_of
from stack.auth.errors import AuthError, Unsupported, invalid_credentials, validation
from stack.auth.factors import Factors, need_second
from stack.auth.federation import Federation
from stack.auth.limits import Limits
from stack.auth.mails import Mails
from stack.auth.passwords import Passwords
from stack.auth.sessions import AuthSessions
from stack.auth.settings import Options, SignUp
from stack.auth.store import Row, Store, Transaction
from stack.auth.users import change_user, clean_email, clean_metadata, create_user, identity_data, user_json


@dataclass(eq=False)
class AuthService:
    """The handlers of the public endpoints."""

    store: Store
    sessions: AuthSessions
    passwords: Passwords
    limits: Limits
    options: Options
    mails: Mails
    factors: Factors
    federation: Federation

    async def sign_up(self, request: Request) -> Answer:
        """POST /signup: a confirmed user and a session, since no mail is sent."""
        self.limits.requests.spend(request.client.address)
        if not self.options.can_sign_up:
            raise AuthError(422, "signup_disabled", "Signups not allowed for this instance")
        values = request.json()
        if "phone" in values and "email" not in values:
            raise Unsupported("sign-up by phone")
        if not values.get("email"):
            raise AuthError(422, "anonymous_provider_disabled", "Anonymous sign-ins are disabled")
        email = clean_email(values.get("email"))
        hashed = await self.passwords.hash(_password(values), owner=request.client.origin)
        metadata = clean_metadata(values.get("data"), "data")
        async with self.store.transaction() as tx:
            await self._check_invited(tx, email)
            user = await _new_user(tx, email, hashed, metadata or {})
            return Answer(await self.sessions.sign_in(tx, user, "password", request.client))

    async def is_open(self) -> bool:
        """Whether somebody without an invitation can create an account."""
        if not self.options.can_sign_up or self.options.sign_up is SignUp.OPEN:
            return self.options.can_sign_up
        async with self.store.transaction() as tx:
            found = await tx.one("may_join", email="")
        return found is not None and bool(found["is_allowed"])

    async def _check_invited(self, tx: Transaction, email: str) -> None:
        if self.options.sign_up is SignUp.OPEN:
            return
        await tx.one("lock_first_account")
        found = await tx.one("may_join", email=email)
        if found is None or not found["is_allowed"]:
            raise AuthError(422, "signup_disabled", "Signups not allowed for this instance")

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
            await self.federation.reread(token)
            return Answer(await self.sessions.refresh(token, request.client))
        if grant == "pkce":
            return await self.federation.swap(request)
        if grant in ("id_token", "web3"):
            raise Unsupported(f"the grant type {grant}")
        raise AuthError(400, "invalid_credentials", "unsupported_grant_type")

    async def _by_password(self, request: Request) -> Answer:
        values = request.json()
        if "phone" in values and not values.get("email"):
            raise Unsupported("sign-in by phone")
        email = clean_email(values.get("email"))
        password = text_of(values, "password") or ""
        key = f"{request.client.origin} {email}"
        self.limits.failures.check(key)
        async with self.store.transaction() as tx:
            user = await tx.one("user_by_email", email=email)
            owner = await _owner(tx, user, request)
        hashed = user["encrypted_password"] if user else None
        if not await self.passwords.verify(password, hashed, owner=owner) or user is None:
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
        if values.get("app_metadata") is not None:
            raise AuthError(403, "not_admin", "Updating app_metadata requires admin privileges")
        metadata = clean_metadata(values.get("data"), "data")
        password = text_of(values, "password")
        email = clean_email(values["email"]) if values.get("email") else None
        async with self.store.transaction() as tx:
            signed_in = await self.sessions.signed_in(tx, request.token)
            if password is not None or (email is not None and email != signed_in.user["email"]):
                await need_second(tx, signed_in)
        hashed = await self._changed_password(signed_in.user, password)
        async with self.store.transaction() as tx:
            row = await change_user(tx, signed_in.user, password=hashed, user_metadata=metadata)
            if email is not None and email != row["email"]:
                row = await self.mails.confirm_address(tx, row, email, request.query.get("redirect_to"))
            if hashed is not None:
                await tx.do("end_other_sessions", user_id=row["id"], session_id=signed_in.session_id)
            return Answer(await user_json(tx, row))

    async def _changed_password(self, user: Row, password: str | None) -> str | None:
        if password is None:
            return None
        hashed = await self.passwords.hash(password, owner=str(user["id"]))
        if await self.passwords.verify(password, user["encrypted_password"], owner=str(user["id"])):
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


async def _owner(tx: Transaction, user: Row | None, request: Request) -> str:
    """Return the owner of the turn that a password check uses: the organisation, so that its people together have one.

    It reads the database even without a user, so that an unknown address takes as long as a wrong password.
    """
    found = await tx.one("organization_of", user_id=user["id"] if user else uuid.uuid4())
    own = str(user["id"]) if user else request.client.origin
    return str((found and found["organization"]) or own)


async def _new_user(tx: Transaction, email: str, hashed: str, data: dict[str, Any]) -> Row:
    """As GoTrue makes one: the identity has the data of the sign-up, the user the data of the identity."""
    user_id = uuid.uuid4()
    identity = {**data, **identity_data(user_id, email)}
    metadata = {**identity, "email_verified": True}
    user = await create_user(tx, email, hashed, user_metadata=metadata, id=user_id, identity=identity)
    if user is None:
        raise AuthError(422, "user_already_exists", "User already registered")
    return user


def _password(values: dict[str, Any]) -> str:
    password = text_of(values, "password")
    if not password:
        raise validation("Signup requires a valid password")
    return password
