"""The one module that talks HTTP: PostgREST and Auth of the Supabase project.

Every call is made with the token of the person it is made for, so row level
security decides; the dashboard holds no secret key.
"""

import contextlib
import time
from collections.abc import Mapping
from typing import Any, cast

import httpx
from postgrest import APIError, CountMethod
from supabase_auth.errors import AuthApiError, AuthError, AuthRetryableError, AuthUnknownError
from supabase_auth.types import Session

from app.project.errors import AppError, NotThere, Refused, SignedOut, Unreachable
from app.project.models import Page, Query
from app.project.settings import Settings
from supabase import AsyncClient, AsyncClientOptions
from wire.answers import is_passing

_EXPIRED_CODES = {"PGRST301", "PGRST302", "PGRST303"}
# The database starts, stops or cannot be connected to.
_AWAY_CODES = ("PGRST00", "08", "57P")
_BUSY = ("The database did not answer in time.", "Nothing was changed. Try again in a moment.")
_OVER_CODES = {"bad_jwt", "session_not_found", "user_not_found"}
# The rest of the dashboard takes the type from here.
AuthSession = Session
AUTH_SILENT = ("The sign-in service did not answer.", "Try again in a moment.")


def to_app_error(error: APIError) -> AppError:
    """Turn PostgREST's answer into the reaction it asks for."""
    code, message, hint = str(error.code or ""), error.message or "", error.hint or ""
    absent = {"RY404": (message, hint), "22P02": ("This link is not complete.", "A part of it is missing or changed.")}
    if code in _EXPIRED_CODES:
        return SignedOut()
    if code in absent:
        return NotThere(*absent[code], code)
    # RY429, too: a person reads how long to wait.
    is_refusal = code.startswith("RY") or code in {"42501", "23505", "23514"}
    passing = None if is_refusal else _passing(code)
    return passing or Refused(message or "The database refused.", hint or "Nothing was changed.", code)


def _passing(code: str) -> AppError | None:
    """The error of a project that is away or busy; a gateway's own status is passed on as a code."""
    status = int(code) if code.isdigit() and len(code) == len("404") else 0
    if not is_passing(status, code):
        return None
    return Unreachable() if status or code.startswith(_AWAY_CODES) else Unreachable(*_BUSY)


class Client:
    """A project's REST and Auth endpoints over one pool of connections."""

    def __init__(self, settings: Settings, http: httpx.AsyncClient | None = None) -> None:
        """Share one HTTP pool between everybody's calls."""
        self._settings = settings
        self._http = http or httpx.AsyncClient(
            timeout=settings.request_timeout_seconds,
            limits=httpx.Limits(max_connections=64, max_keepalive_connections=32),
        )

    async def aclose(self) -> None:
        await self._http.aclose()

    def _as(self, token: str = "", address: str = "") -> AsyncClient:
        """Build a client for one call: a shared one would mix people's sessions.

        `address` is the browser's, so that Auth counts wrong passwords for the person who typed them, and keeps with a session
        where it was opened, rather than the dashboard's own address.
        """
        headers = {"Authorization": f"Bearer {token or self._settings.publishable_key}", **self._on_behalf_of(address)}
        options = AsyncClientOptions(
            headers=headers,
            httpx_client=self._http,
            postgrest_client_retry=False,
            auto_refresh_token=False,
            persist_session=False,
            # A link in a mail may be followed in another browser, which has no verifier of a PKCE flow.
            flow_type="implicit",
        )
        return AsyncClient(self._settings.supabase_url, self._settings.publishable_key, options)

    def _headers(self, token: str) -> dict[str, str]:
        """Name the project and the caller, for requests that the client has no method for."""
        key = self._settings.publishable_key
        return {"apikey": key, "Authorization": f"Bearer {token or key}"}

    async def _sent(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Send what the client has no method for; without an answer the project, or its Auth, is unreachable."""
        try:
            return await self._http.request(method, f"{self._settings.supabase_url}/{path}", **request)
        except (httpx.HTTPError, OSError) as error:
            raise Unreachable(*(AUTH_SILENT if path.startswith("auth/") else ())) from error

    async def _run(self, query: Any) -> Any:
        try:
            return await query.execute()
        except APIError as error:
            raise to_app_error(error) from error
        except (httpx.HTTPError, OSError) as error:
            raise Unreachable from error

    async def rpc(self, token: str, name: str, args: Mapping[str, Any] | None = None) -> Any:
        result = await self._run(self._as(token).rpc(name, dict(args or {})))
        return result.data

    async def invoke(self, token: str, name: str, body: Mapping[str, Any]) -> Any:
        """Call an edge function, as a visitor without a token, and return its JSON; a refusal keeps its own words."""
        answer = await self._sent("POST", f"functions/v1/{name}", headers=self._headers(token), json=dict(body))
        try:
            said = answer.json()
        except ValueError as error:
            raise Unreachable from error
        if answer.is_success:
            return said
        if answer.is_server_error:
            raise Unreachable
        raise Refused(str(said.get("message", "")), str(said.get("hint", "")), str(said.get("code", "")))

    async def issuer(self) -> str:
        """The address by which clouds know the project's tokens."""
        answer = await self._sent("GET", "functions/v1/job-identity/.well-known/openid-configuration")
        try:
            return str(answer.raise_for_status().json()["issuer"])
        except (httpx.HTTPError, ValueError, KeyError) as error:
            raise Unreachable from error

    async def select(self, token: str, table: str, query: Query | None = None) -> Page:
        """Read rows of a table that the caller may see."""
        query = query or Query()
        count = CountMethod.exact if query.is_counted else None
        builder: Any = self._as(token).from_(table).select(query.columns, count=count)
        for condition in query.filters:
            builder = builder.filter(condition.column, condition.operator, condition.value)
        if query.or_filter:
            builder = builder.or_(query.or_filter)
        if query.order:
            builder = builder.order(query.order, desc=query.is_descending)
        if query.limit is not None:
            builder = builder.range(query.offset, query.offset + query.limit - 1)
        result = await self._run(builder)
        return Page(rows=list(result.data), total=result.count or 0)

    def _on_behalf_of(self, address: str) -> dict[str, str]:
        """Send the browser's address; the embedded stack accepts it with the key that it gave to its dashboard."""
        if not address:
            return {}
        key = self._settings.forwarding_key
        proved = {"sb-forwarded-for": address, "x-runyard-forwarding-key": key} if key else {}
        return {"x-forwarded-for": address, **proved}

    async def sign_in(self, email: str, password: str, address: str = "") -> AuthSession:
        auth = self._as(address=address).auth
        answer = await self._guarded(auth.sign_in_with_password({"email": email, "password": password}))
        return _must_have_session(answer.session)

    async def sign_up(self, email: str, password: str, redirect_to: str, address: str = "") -> AuthSession | None:
        """Create an account; None when the project first wants the email confirmed, by a link that leads back here."""
        options: Any = {"email_redirect_to": redirect_to}
        auth = self._as(address=address).auth
        answer = await self._guarded(auth.sign_up({"email": email, "password": password, "options": options}))
        return cast("AuthSession | None", answer.session)

    async def refresh(self, refresh_token: str, address: str = "") -> AuthSession:
        answer = await self._guarded(self._as(address=address).auth.refresh_session(refresh_token))
        return _must_have_session(answer.session)

    async def sign_out(self, token: str, scope: str = "local") -> None:
        """End the session that a token belongs to, or its person's `others`, so that their refresh tokens are dead too."""
        with contextlib.suppress(Refused):
            await self._guarded(self._as(token).auth.admin.sign_out(token, cast("Any", scope)))

    async def send_recovery(self, email: str, redirect_to: str) -> None:
        options: Any = {"redirect_to": redirect_to}
        await self._guarded(self._as().auth.reset_password_for_email(email, options))

    async def verify_recovery(self, token_hash: str, address: str = "") -> AuthSession:
        """Exchange the hash of a recovery link for a session."""
        auth = self._as(address=address).auth
        answer = await self._guarded(auth.verify_otp({"token_hash": token_hash, "type": "recovery"}))
        return _must_have_session(answer.session)

    async def set_password(self, token: str, password: str) -> None:
        await self._change_user(token, {"password": password}, "Choose another password.")

    async def set_email(self, token: str, email: str, redirect_to: str) -> None:
        """Ask Auth to change somebody's address; it counts once the link in the mail to it was followed."""
        await self._change_user(token, {"email": email}, "Check the address.", redirect_to=redirect_to)

    async def _change_user(self, token: str, body: dict[str, str], hint: str, **query: str) -> None:
        answer = await self._sent("PUT", "auth/v1/user", json=body, headers=self._headers(token), params=query)
        if answer.is_server_error:
            raise Unreachable(*AUTH_SILENT)
        if answer.is_error:
            raise Refused(_auth_words(answer), hint)

    async def can_sign_up(self) -> bool:
        """Whether anybody may create an account; people who are invited may in any case."""
        answer = await self._sent("GET", "auth/v1/settings", headers={"apikey": self._settings.publishable_key})
        return not (answer.is_success and answer.json().get("disable_signup"))

    async def ask_auth(
        self, method: str, path: str, token: str, body: Mapping[str, Any] | None = None, address: str = ""
    ) -> Any:
        """Ask Auth something as the person whose token this is, and return its JSON."""
        headers = self._headers(token) | self._on_behalf_of(address)
        sent = None if body is None else dict(body)
        answer = await self._sent(method, f"auth/v1/{path}", headers=headers, json=sent)
        if answer.is_success:
            return answer.json()
        raise _auth_refusal(answer)

    async def metrics(self, credential: str) -> httpx.Response:
        """Ask the project's metrics function with the credential that was given; it judges it."""
        headers = {"apikey": self._settings.publishable_key, "Authorization": credential}
        return await self._sent("GET", "functions/v1/metrics", headers=headers)

    async def _guarded(self, call: Any) -> Any:
        try:
            return await call
        except AuthApiError as error:
            if error.status >= 500:
                raise Unreachable(*AUTH_SILENT) from error
            raise Refused(error.message, code=str(error.code or error.status)) from error
        except (AuthRetryableError, AuthUnknownError, httpx.HTTPError, OSError) as error:
            # The library's names for no answer, a gateway's error, and an answer that is not Auth's own: no refusal.
            raise Unreachable(*AUTH_SILENT) from error
        except AuthError as error:
            raise Refused(error.message) from error


def _must_have_session(session: AuthSession | None) -> AuthSession:
    if session is None:
        raise Refused("Auth answered without a session.", "Confirm the email first.")
    return session


def _auth_refusal(answer: httpx.Response) -> AppError:
    """Turn Auth's refusal into the reaction it asks for."""
    if answer.is_server_error:
        return Unreachable(*AUTH_SILENT)
    code = answer.headers.get("x-sb-error-code", "")
    if code in _OVER_CODES:
        return SignedOut()
    return Refused(_auth_words(answer), "Nothing was changed.", code)


def _auth_words(answer: httpx.Response) -> str:
    try:
        body = answer.json()
    except ValueError:
        return "It was refused."
    return str(body.get("msg") or body.get("message") or "It was refused.")


def expiry_of(session: AuthSession) -> float:
    """Return when a session's access token ends, in seconds since the epoch."""
    if session.expires_at:
        return float(session.expires_at)
    return time.time() + float(session.expires_in)
