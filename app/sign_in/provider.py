"""Signing in at an identity provider: there by Auth's /authorize, back here with a code, which only this browser redeems."""

import base64
import hashlib
import secrets
from collections.abc import Awaitable, Callable
from urllib.parse import quote, urlencode

import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from app.http.api_routes import problem, session_of
from app.http.cookies import SAID, set_sid
from app.http.origins import own_address
from app.project.client import AuthSession
from app.project.errors import AppError, Refused, Unreachable
from app.project.models import BrowserSession
from app.project.runtime import Runtime
from app.project.two_steps import NeedsCode, complete

# What a browser that left for a provider brings back; its half-finished sign-in.
LEFT, HALF = "runyard_left", "runyard_half"
LEFT_SECONDS, SAID_SECONDS, MOST_WORDS = 600, 60, 300
CODE_ASKED = "code"
# A verifier that begins so is of a test: its code is never redeemed, and what happened is on the page of settings.
TEST, TESTED_AT = "test-", "/dashboard/settings/sign-in"
log = structlog.get_logger(__name__)


async def find(runtime: Runtime, request: Request, fields: dict[str, str]) -> Response:
    """Return the provider that speaks for an address, the same with and without an account."""
    try:
        found = await _provider_of(runtime, fields)
    except Unreachable:
        log.info("provider_not_looked_up")
        found = {}
    return JSONResponse({"ok": True, "name": found.get("name", "")})


async def _provider_of(runtime: Runtime, fields: dict[str, str]) -> dict[str, str]:
    email = fields.get("email", "").strip()
    if "@" not in email:
        return {}
    found: dict[str, str] = await runtime.authorized.client.invoke("", "sign-in", {"email": email})
    return found


async def leave(runtime: Runtime, request: Request, fields: dict[str, str]) -> Response:
    """Send the browser to the provider of an address, with a verifier that stays in its cookie."""
    found = await _provider_of(runtime, fields)
    if not found:
        raise Refused("No identity provider speaks for this address.", "Sign in with your password.")
    return _to_provider(runtime, request, found["provider"])


async def join(runtime: Runtime, request: Request, fields: dict[str, str]) -> Response:
    """Allow the provider of one's own domain to join this account, or only to show its claims, and go there."""
    session = await session_of(runtime, request)
    is_test = fields.get("is_test") == "true"
    found = await runtime.authorized.rpc(session, "allow_sign_in_link", {"p_is_test": is_test})
    return _to_provider(runtime, request, str(found["provider"]), TEST if is_test else "")


def _to_provider(runtime: Runtime, request: Request, provider: str, mark: str = "") -> Response:
    verifier = mark + secrets.token_urlsafe(48)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    asked = {
        "provider": provider,
        "redirect_to": f"{own_address(request, runtime.settings.origins)}/auth/callback",
        "code_challenge": challenge,
        "code_challenge_method": "s256",
    }
    # The browser may reach the project by another name than this process does, as runners do.
    response = JSONResponse({"ok": True, "go": f"{runtime.settings.runner_url}/auth/v1/authorize?{urlencode(asked)}"})
    _keep(runtime, response, LEFT, verifier)
    return response


def _keep(runtime: Runtime, response: Response, name: str, value: str) -> None:
    secure = runtime.settings.is_cookie_secure
    response.set_cookie(name, value, max_age=LEFT_SECONDS, httponly=True, samesite="lax", secure=secure, path="/auth")


def callback(runtime: Runtime) -> Callable[[Request], Awaitable[Response]]:
    """Redeem what Auth sends the browser back with; the sign-in page shows what is wrong."""

    async def arrive(request: Request) -> Response:
        verifier = request.cookies.get(LEFT, "")
        try:
            response = await _redeem(runtime, request, verifier)
        except NeedsCode as error:
            response = _say(runtime, CODE_ASKED)
            _keep(runtime, response, HALF, error.auth.refresh_token)
        except AppError as error:
            page = TESTED_AT if verifier.startswith(TEST) else "/login"
            response = _say(runtime, f"{error.message} {error.hint}".strip(), page)
        response.delete_cookie(LEFT, path="/auth")
        return response

    return arrive


async def _redeem(runtime: Runtime, request: Request, verifier: str) -> Response:
    if not verifier:
        # Somebody else's link: it must sign nobody in, and its words are not ours.
        raise Refused("This sign-in was not begun in this browser, or took too long.", "Begin it again.")
    code = request.query_params.get("code", "")
    if not code:
        said = request.query_params.get("error_description", "")[:MOST_WORDS]
        raise Refused(said or "The provider did not sign you in.", "" if said else "Begin it again.")
    if verifier.startswith(TEST):
        tested = RedirectResponse(TESTED_AT, 303)
        tested.delete_cookie(SAID, path="/")
        return tested
    body = {"auth_code": code, "code_verifier": verifier}
    said_by_auth = await runtime.authorized.client.ask_auth(
        "POST", "token?grant_type=pkce", "", body, address_of(runtime, request)
    )
    session = await open_session(runtime, request, AuthSession.model_validate(said_by_auth))
    return signed_in(runtime, session, RedirectResponse("/dashboard/runners", 303))


def _say(runtime: Runtime, words: str, page: str = "/login") -> Response:
    """Show words on a page, as text."""
    log.info("provider_sign_in_refused", words=words)
    response = RedirectResponse(page, 303)
    secure = runtime.settings.is_cookie_secure
    response.set_cookie(SAID, quote(words), max_age=SAID_SECONDS, samesite="lax", secure=secure, path="/")
    return response


async def second(runtime: Runtime, request: Request, fields: dict[str, str]) -> Response:
    """Take the code of somebody whom the provider signed in, and whose account requires one."""
    client, address = runtime.authorized.client, address_of(runtime, request)
    try:
        auth = await client.refresh(request.cookies.get(HALF, ""), address)
    except Refused as error:
        raise Refused("This sign-in took too long.", "Begin it again.") from error
    try:
        auth = await complete(client, auth, fields.get("code", ""), address)
    except NeedsCode as error:
        response = problem(error, needs_code=True)
        _keep(runtime, response, HALF, error.auth.refresh_token)
        return response
    done = signed_in(runtime, await open_session(runtime, request, auth))
    done.delete_cookie(HALF, path="/auth")
    return done


async def open_session(runtime: Runtime, request: Request, auth: AuthSession) -> BrowserSession:
    return await runtime.authorized.open(auth, request.headers.get("user-agent", ""), address_of(runtime, request))


def signed_in(runtime: Runtime, session: BrowserSession, response: Response | None = None) -> Response:
    response = response or JSONResponse({"ok": True})
    set_sid(response, session.sid, is_secure=runtime.settings.is_cookie_secure)
    return response


def address_of(runtime: Runtime, request: Request) -> str:
    return browser_address(request, runtime.settings.address_header)


def browser_address(request: Request, header: str) -> str:
    """Return the address of the connected client, or with a proxy in front of us the one in the header that the operator named."""
    if header:
        # The browser may have invented everything before the last comma.
        return request.headers.get(header, "").rpartition(",")[2].strip()
    return request.client.host if request.client else ""
