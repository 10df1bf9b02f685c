"""The endpoints of the Auth service for administrators, who have the secret key."""

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from stack.auth import users
from stack.auth.access import Answer, Request, text_of
from stack.auth.errors import AuthError, Unsupported, user_not_found, validation
from stack.auth.factors import drop_factor
from stack.auth.mails import RECOVERY
from stack.auth.service import AuthService

MOST_PER_PAGE = 1000


class AdminService:
    """The handlers below /admin."""

    def __init__(self, auth: AuthService, url: str) -> None:
        self._auth = auth
        self._url = url

    def check(self, request: Request) -> None:
        """Only the service role may continue."""
        role = request.key.role if request.token is None else self._auth.sessions.identity(request.token).role
        if role != "service_role":
            raise AuthError(403, "not_admin", "User not allowed")

    async def create(self, request: Request) -> Answer:
        """POST /admin/users."""
        values = request.json()
        if values.get("phone"):
            raise Unsupported("phone numbers")
        email = users.clean_email(values.get("email"))
        changes = await self._changes(values, is_new=True)
        is_confirmed = values.get("email_confirm") is True
        if is_confirmed:
            changes["user_metadata"] = {**(changes["user_metadata"] or {}), "email_verified": True}
        user_id = text_of(values, "id")
        async with self._auth.store.transaction() as tx:
            row = await users.create_user(
                tx,
                email,
                changes.pop("password", None),
                id=users.clean_id(user_id) if user_id else None,
                **{**changes, "is_confirmed": is_confirmed},
            )
            if row is None:
                raise AuthError(422, "email_exists", "A user with this email address has already been registered")
            return Answer(await users.user_json(tx, row))

    async def list(self, request: Request) -> Answer:
        """GET /admin/users: newest first."""
        page = max(_number(request, "page", 1, least=0), 1)
        size = min(_number(request, "per_page", 50), MOST_PER_PAGE)
        async with self._auth.store.transaction() as tx:
            total = await tx.one("count_users")
            rows = await tx.all("list_users", limit=size, offset=(page - 1) * size)
            shown = await users.users_json(tx, rows)
        headers = {"x-total-count": str(total["total"] if total else 0)}
        return Answer({"users": shown, "aud": "authenticated"}, headers=headers)

    async def show(self, request: Request, user_id: UUID) -> Answer:
        """GET /admin/users/id."""
        async with self._auth.store.transaction() as tx:
            row = await tx.one("user_by_id", id=user_id)
            if row is None:
                raise user_not_found()
            return Answer(await users.user_json(tx, row))

    async def update(self, request: Request, user_id: UUID) -> Answer:
        """PUT /admin/users/id; a new password ends every session."""
        values = request.json()
        changes = await self._changes(values)
        email = users.clean_email(values["email"]) if values.get("email") else None
        changes["is_confirmed"] = values.get("email_confirm") is True
        async with self._auth.store.transaction() as tx:
            row = await tx.one("user_by_id", id=user_id)
            if row is None:
                raise user_not_found()
            row = await users.change_user(tx, row, **changes)
            if email is not None and email != row["email"]:
                row = await users.change_address(tx, row, email)
            if "password" in changes:
                await tx.do("end_all_sessions", user_id=user_id)
            return Answer(await users.user_json(tx, row))

    async def delete(self, request: Request, user_id: UUID) -> Answer:
        """DELETE /admin/users/id."""
        is_soft = bool(request.body.strip()) and request.json().get("should_soft_delete") is True
        async with self._auth.store.transaction() as tx:
            if await tx.one("any_user_by_id", id=user_id) is None:
                raise user_not_found()
            if is_soft:
                await tx.do("end_all_sessions", user_id=user_id)
            await tx.do("soft_delete_user" if is_soft else "delete_user", id=user_id)
        return Answer({})

    async def list_factors(self, request: Request, user_id: UUID) -> Answer:
        """GET /admin/users/id/factors."""
        async with self._auth.store.transaction() as tx:
            rows = await tx.all("factors_of", ids=[user_id])
        return Answer([users.factor_json(row) for row in rows])

    async def delete_factor(self, request: Request, user_id: UUID, factor_id: UUID) -> Answer:
        """DELETE /admin/users/id/factors/id: for somebody who lost the device."""
        async with self._auth.store.transaction() as tx:
            row = await tx.one("factor_by_id", id=factor_id, user_id=user_id)
            if row is None:
                raise AuthError(404, "mfa_factor_not_found", "Factor not found")
            await drop_factor(tx, row)
        return Answer(users.factor_json(row))

    async def generate_link(self, request: Request) -> Answer:
        """POST /admin/generate_link: a recovery link to hand over by other means than mail."""
        values = request.json()
        kind = text_of(values, "type") or ""
        if kind != "recovery":
            raise Unsupported(f"links of type {kind[:40]}")
        email = users.clean_email(values.get("email"))
        redirect_to = text_of(values, "redirect_to") or request.query.get("redirect_to")
        async with self._auth.store.transaction() as tx:
            user = await tx.one("user_by_email", email=email)
            if user is None:
                raise AuthError(404, "user_not_found", "User with this email not found")
            token, code = await self._auth.mails.make_token(tx, user, RECOVERY, email)
            shown = await users.user_json(tx, await tx.one("mark_recovery_sent", id=user["id"]) or user)
        target = redirect_to or self._auth.options.site_url
        link = f"{self._url}/auth/v1/verify?{urlencode({'token': token, 'type': kind, 'redirect_to': target})}"
        more = {"action_link": link, "email_otp": code, "hashed_token": token, "verification_type": kind}
        return Answer({**shown, **more, "redirect_to": target})

    async def _changes(self, values: dict[str, Any], *, is_new: bool = False) -> dict[str, Any]:
        changes: dict[str, Any] = {
            "user_metadata": users.clean_metadata(values.get("user_metadata"), "user_metadata"),
            "app_metadata": users.clean_metadata(values.get("app_metadata"), "app_metadata"),
        }
        role = text_of(values, "role")
        if role:
            changes["role"] = role
        password = text_of(values, "password")
        if password:
            changes["password"] = await self._auth.passwords.hash(password, owner="admin", is_checked=not is_new)
        if values.get("ban_duration"):
            changes["banned_until"] = users.ban_end(values["ban_duration"])
        return changes


def _number(request: Request, name: str, default: int, least: int = 1) -> int:
    text = request.query.get(name) or str(default)
    if not text.isdecimal() or not least <= int(text) <= 10**9:
        raise validation(f"Bad Pagination Parameters: {name} must be a positive number")
    return int(text)
