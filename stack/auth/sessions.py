"""Sessions: signing in, refreshing with rotation and reuse detection, and who a bearer token is."""

import base64
import re
import secrets
import time
import uuid
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import ip_address
from typing import Any

from stack.auth.errors import AuthError
from stack.auth.store import Row, Store, Transaction
from stack.auth.tokens import ApiCaller, KeyRing, TokenError
from stack.auth.users import is_banned, user_json

FIRST, SECOND = "aal1", "aal2"
TOKEN_BYTES = 24
TOKEN = re.compile(r"[A-Za-z0-9_-]{32}")


@dataclass(frozen=True)
class Client:
    """The origin of a request."""

    address: str
    user_agent: str
    # For whom a server of ours asks; empty for everybody else.
    forwarded_for: str = ""

    @property
    def origin(self) -> str:
        """The origin for which failures are counted: the browser that a server of ours names, or the connected client."""
        return self.forwarded_for or self.address

    @property
    def ip(self) -> str | None:
        """The origin if it is an address; anything else is not kept."""
        try:
            return str(ip_address(self.origin.partition("%")[0]))
        except ValueError:
            return None


@dataclass(frozen=True)
class SignedIn:
    """A user and the session that its bearer token belongs to."""

    user: Row
    session_id: uuid.UUID
    # Whether a second factor was given for it.
    is_second: bool = False


class AuthSessions:
    """Issues and renews tokens."""

    def __init__(
        self, store: Store, ring: KeyRing, issuer: str, access_seconds: int = 3600, reuse_seconds: int = 10
    ) -> None:
        self._store = store
        self._ring = ring
        self._issuer = issuer
        self._access_seconds = access_seconds
        self._reuse_seconds = reuse_seconds

    async def sign_in(self, tx: Transaction, user: Row, method: str, client: Client) -> dict[str, Any]:
        """A new session for a user who has just proved who they are."""
        if is_banned(user):
            raise AuthError(400, "user_banned", "User is banned")
        session_id = uuid.uuid4()
        row = await tx.one("mark_signed_in", id=user["id"])
        await tx.do("insert_session", id=session_id, user_id=user["id"], user_agent=client.user_agent, ip=client.ip)
        await tx.do("insert_amr", session_id=session_id, method=method)
        token = _random_token()
        await self._keep(tx, token, user["id"], session_id, parent=None)
        return await self._answer(tx, row or user, session_id, token)

    async def raise_level(self, tx: Transaction, signed_in: SignedIn, factor_id: uuid.UUID) -> dict[str, Any]:
        """The same session with a second factor given, and new tokens; what had one factor alone is over."""
        session_id, user = signed_in.session_id, signed_in.user
        await tx.one("lock_session", id=session_id)
        await tx.do("raise_session", session_id=session_id, factor_id=factor_id)
        await tx.do("insert_amr", session_id=session_id, method="totp")
        await tx.do("end_lower_sessions", user_id=user["id"])
        active = await tx.one("active_refresh_token", session_id=session_id)
        await tx.do("revoke_family", session_id=session_id)
        token = _random_token()
        await self._keep(tx, token, user["id"], session_id, parent=active["token"] if active else None)
        return await self._answer(tx, user, session_id, token)

    async def refresh(self, token: str, client: Client) -> dict[str, Any]:
        """Swap a refresh token for the next one; the refusal of a reused one is committed with its revocations."""
        async with self._store.transaction() as tx:
            outcome = await self._refresh(tx, token, client)
        if isinstance(outcome, AuthError):
            raise outcome
        return outcome

    async def _refresh(self, tx: Transaction, token: str, client: Client) -> dict[str, Any] | AuthError:
        if not TOKEN.fullmatch(token):
            return AuthError(400, "validation_failed", "Refresh token is not valid")
        known = await tx.one("refresh_token", token=_hash(token), reuse_seconds=self._reuse_seconds)
        if known is None or known["session_id"] is None:
            return AuthError(400, "refresh_token_not_found", "Invalid Refresh Token: Refresh Token Not Found")
        session = await tx.one("lock_session", id=known["session_id"])
        user = await tx.one("user_by_id", id=uuid.UUID(known["user_id"]))
        if session is None or user is None:
            return AuthError(400, "session_not_found", "Invalid Refresh Token: No Valid Session Found")
        if is_banned(user):
            return AuthError(400, "user_banned", "Invalid Refresh Token: User Banned")
        # Read again under the session's lock: a refresh that came first has changed it.
        known = await tx.one("refresh_token", token=_hash(token), reuse_seconds=self._reuse_seconds) or known
        following = await self._following(tx, token, known, session)
        if isinstance(following, AuthError):
            return following
        await tx.do("touch_session", id=session["id"], user_agent=client.user_agent, ip=client.ip)
        return await self._answer(tx, user, session["id"], following)

    async def _following(self, tx: Transaction, token: str, known: Row, session: Row) -> str | AuthError:
        """The token that comes after a known one."""
        if known["revoked"]:
            active = await tx.one("active_refresh_token", session_id=session["id"])
            following = self._successor(token)
            if active is not None and active["token"] == _hash(following):
                return following  # the client never got the answer to its last refresh: it gets the same one again
            if not known["is_recent"]:
                await tx.do("revoke_family", session_id=session["id"])
                return AuthError(400, "refresh_token_already_used", "Invalid Refresh Token: Already Used")
        await tx.do("revoke_refresh_token", token=known["token"])
        user_id = uuid.UUID(known["user_id"])
        following = self._successor(token) if not known["revoked"] else _random_token()
        await self._keep(tx, following, user_id, session["id"], parent=known["token"])
        return following

    def _successor(self, token: str) -> str:
        """The token that follows another: derived from it, as the database has only hashes and a client may request it twice."""
        return base64.urlsafe_b64encode(bytes.fromhex(self._ring.digest(f"after:{token}"))[:TOKEN_BYTES]).decode()

    async def _keep(
        self, tx: Transaction, token: str, user_id: uuid.UUID, session_id: uuid.UUID, parent: str | None
    ) -> None:
        values = {"token": _hash(token), "user_id": user_id, "parent": parent, "session_id": session_id}
        await tx.do("insert_refresh_token", **values)

    async def _answer(self, tx: Transaction, user: Row, session_id: uuid.UUID, token: str) -> dict[str, Any]:
        methods = await tx.all("amr_of", session_id=session_id)
        amr = [{"method": m["authentication_method"], "timestamp": int(m["created_at"].timestamp())} for m in methods]
        issued_at = int(time.time())
        claims = self._claims(user, session_id, amr, issued_at)
        return {
            "access_token": self._ring.sign(claims),
            "token_type": "bearer",
            "expires_in": self._access_seconds,
            "expires_at": issued_at + self._access_seconds,
            "refresh_token": token,
            "user": await user_json(tx, user),
        }

    def _claims(self, user: Row, session_id: uuid.UUID, amr: list[dict[str, Any]], issued_at: int) -> dict[str, Any]:
        return {
            "iss": self._issuer,
            "sub": str(user["id"]),
            "aud": user["aud"],
            "exp": issued_at + self._access_seconds,
            "iat": issued_at,
            "email": user["email"] or "",
            "phone": user["phone"] or "",
            "app_metadata": user["raw_app_meta_data"] or {},
            "user_metadata": user["raw_user_meta_data"] or {},
            "role": user["role"],
            "aal": SECOND if any(entry["method"] == "totp" for entry in amr) else FIRST,
            "amr": amr,
            "session_id": str(session_id),
            "is_anonymous": user["is_anonymous"],
        }

    def identity(self, token: str | None) -> ApiCaller:
        """Return the caller that a bearer token names, by its signature alone."""
        try:
            return self._ring.verify(token or "")
        except TokenError as error:
            message = "token has invalid claims: token is expired" if error.is_claim else error.message
            raise AuthError(403, "bad_jwt", f"invalid JWT: unable to parse or verify signature, {message}") from error

    async def signed_in(self, tx: Transaction, token: str | None) -> SignedIn:
        """The user and session of a bearer token; a session that was ended counts at once."""
        claims = self.identity(token).claims
        try:
            user_id, session_id = uuid.UUID(str(claims["sub"])), uuid.UUID(str(claims["session_id"]))
        except (KeyError, ValueError) as error:
            raise AuthError(403, "bad_jwt", "invalid claim: missing sub claim") from error
        user = await tx.one("user_by_id", id=user_id)
        if user is None:
            raise AuthError(403, "user_not_found", "User from sub claim in JWT does not exist")
        session = await tx.one("session_by_id", id=session_id)
        if session is None or session["user_id"] != user_id:
            raise AuthError(403, "session_not_found", "Session from session_id claim in JWT does not exist")
        return SignedIn(user, session_id, session["aal"] == SECOND)


def _random_token() -> str:
    return secrets.token_urlsafe(TOKEN_BYTES)


def _hash(token: str) -> str:
    """Return the hash that the database keeps of a refresh token, which has too many bits to be guessed from it."""
    return sha256(token.encode()).hexdigest()
