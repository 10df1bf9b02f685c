"""Sign-in and its neighbours as plain routes: only they can set a cookie that scripts cannot read."""

from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from app.http.api_routes import problem, session_of
from app.http.cookies import NAME, clear_sid
from app.http.origins import is_same_origin
from app.project.client import AuthSession, Client
from app.project.errors import AppError, Refused, Unreachable
from app.project.invitations import hash_of
from app.project.models import BrowserSession
from app.project.runtime import Runtime
from app.project.two_steps import NeedsCode, complete
from app.sign_in import provider
from app.sign_in.provider import address_of, open_session, signed_in

MAX_BODY = 16 * 1024
MAX_FIELD = 1024

log = structlog.get_logger(__name__)

Action = Callable[[Runtime, Request, dict[str, str]], Awaitable[Response]]


async def _read(request: Request) -> dict[str, str]:
    if request.headers.get("content-type", "").split(";")[0] != "application/json":
        raise Refused("Only JSON is understood here.")
    body = await request.body()
    if len(body) > MAX_BODY:
        raise Refused("That is too long.")
    try:
        fields = await request.json()
    except ValueError as error:
        raise Refused("That is not JSON.") from error
    if not isinstance(fields, dict):
        raise Refused("An object is expected.")
    return {str(key): value for key, value in fields.items() if isinstance(value, str) and len(value) <= MAX_FIELD}


def _answer(runtime: Runtime, action: Action) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        if not is_same_origin(request, runtime.settings.origins):
            return problem(Refused("This request came from another site."), 403)
        try:
            return await action(runtime, request, await _read(request))
        except NeedsCode as error:
            # Shows the field for the code. The password's session is dropped: the password is sent again, with the code.
            await runtime.authorized.client.sign_out(error.auth.access_token)
            return problem(error, needs_code=True)
        except AppError as error:
            return problem(error)

    return endpoint


async def sign_in(runtime: Runtime, request: Request, fields: dict[str, str]) -> Response:
    address = address_of(runtime, request)
    try:
        auth = await runtime.authorized.client.sign_in(fields.get("email", ""), fields.get("password", ""), address)
    except Refused as error:
        if error.code == "over_request_rate_limit":
            raise Refused("Too many attempts.", "Wait a minute and try again.") from error
        # One sentence for every other refusal, so that nobody learns which addresses exist.
        raise Refused("Incorrect email or password.", "Check both and try again.") from error
    auth = await complete(runtime.authorized.client, auth, fields.get("code", ""), address)
    return signed_in(runtime, await open_session(runtime, request, auth))


async def sign_up(runtime: Runtime, request: Request, fields: dict[str, str]) -> Response:
    """Create an account and sign in, unless the email must be confirmed first."""
    back = f"{request.headers.get('origin', '')}/login"
    email, password = fields.get("email", ""), fields.get("password", "")
    try:
        auth = await runtime.authorized.client.sign_up(email, password, back, address_of(runtime, request))
    except Refused as error:
        if error.code != "signup_disabled":
            raise
        hint = "Ask an admin to invite this address. RUNYARD_SIGN_UP=open lets everybody sign up."
        raise Refused("Accounts are by invitation here.", hint) from error
    if auth is None:
        return JSONResponse({"ok": True, "confirm": True})
    return signed_in(runtime, await open_session(runtime, request, auth))


def policy(runtime: Runtime) -> Callable[[Request], Awaitable[Response]]:
    """Return whether accounts are open to everybody, so that no page offers what would be refused."""

    async def answer(request: Request) -> Response:
        try:
            is_open = await runtime.authorized.client.can_sign_up()
        except Unreachable:
            is_open = True
        return JSONResponse({"is_open": is_open}, headers={"Cache-Control": "no-store"})

    return answer


async def sign_out(runtime: Runtime, request: Request, fields: dict[str, str]) -> Response:
    """End the session, here at once and at the project if it answers."""
    response = JSONResponse({"ok": True})
    clear_sid(response)
    try:
        await runtime.authorized.close(request.cookies.get(NAME, ""))
    except Unreachable:
        log.info("sign_out_without_project")
    return response


async def forgotten(runtime: Runtime, request: Request, fields: dict[str, str]) -> Response:
    """Send a recovery link; the answer is the same whether the address is known or not."""
    redirect_to = f"{request.headers.get('origin', '')}/reset-password"
    try:
        await runtime.authorized.client.send_recovery(fields.get("email", ""), redirect_to)
    except Refused:
        log.info("recovery_refused")
    return JSONResponse({"ok": True})


async def _follow(client: Client, fields: dict[str, str], address: str) -> AuthSession:
    """Redeem a link: it has the hash of a code, or the session that Auth gave to those who came by there."""
    try:
        if fields.get("refresh_token"):
            # Exchanged at once: what stood in the address is worth nothing afterwards.
            return await client.refresh(fields["refresh_token"], address)
        return await client.verify_recovery(fields.get("token_hash", ""), address)
    except Refused as error:
        raise Refused("This link is no longer valid.", "Ask for a new one.") from error


async def reset(runtime: Runtime, request: Request, fields: dict[str, str]) -> Response:
    """Set a new password with a recovery link, sign in, and end every other session: one of them may be a thief's."""
    client, address = runtime.authorized.client, address_of(runtime, request)
    auth = await _follow(client, fields, address)
    try:
        auth = await complete(client, auth, fields.get("code", ""), address)
    except NeedsCode as error:
        # A link works once: the page continues with the session that it opened.
        return problem(error, refresh_token=error.auth.refresh_token, needs_code=True)
    await client.set_password(auth.access_token, fields.get("password", ""))
    session = await open_session(runtime, request, auth)
    await runtime.authorized.end_others(session)
    return signed_in(runtime, session)


async def offer(runtime: Runtime, request: Request, fields: dict[str, str]) -> Response:
    """Show what an invitation offers, and the account that would accept it."""
    session = await runtime.authorized.sessions.get(request.cookies.get(NAME, ""))
    found = await _offer_of(runtime, fields)
    return JSONResponse({"ok": True, **found, "signed_in_as": session.email if session else ""})


async def _offer_of(runtime: Runtime, fields: dict[str, str]) -> dict[str, Any]:
    body = {"invitation": fields.get("invitation", ""), "token_hash": hash_of(fields.get("token", ""))}
    try:
        found: dict[str, Any] = await runtime.authorized.client.invoke("", "invitation", body)
    except Refused as error:
        if error.code == "RY429":
            raise
        hint = "Ask the person who invited you for a new link."
        raise Refused("This invitation is not valid, or no longer.", hint) from error
    return found


async def accept(runtime: Runtime, request: Request, fields: dict[str, str]) -> Response:
    """Accept an invitation with the secret of its link; the database has only its hash."""
    await _accept_as(runtime, await session_of(runtime, request), fields)
    return JSONResponse({"ok": True})


async def _accept_as(runtime: Runtime, session: BrowserSession, fields: dict[str, str]) -> None:
    token_hash = hash_of(fields.get("token", ""))
    args: dict[str, Any] = {"p_invitation": fields.get("invitation", ""), "p_token_hash": token_hash}
    membership = await runtime.authorized.rpc(session, "accept_invitation", args)
    session.org_id = str((membership or {}).get("org_id", session.org_id))
    await runtime.authorized.sessions.put(session)


async def join(runtime: Runtime, request: Request, fields: dict[str, str]) -> Response:
    """Create the account that an invitation is for, and accept it."""
    found = await _offer_of(runtime, fields)
    back, address = f"{request.headers.get('origin', '')}/login", address_of(runtime, request)
    try:
        auth = await runtime.authorized.client.sign_up(found["email"], fields.get("password", ""), back, address)
    except Refused as error:
        if error.code != "user_already_exists":
            raise
        raise Refused(f"{found['email']} has an account already.", "Sign in with it to accept.") from error
    if auth is None:
        return JSONResponse({"ok": True, "confirm": True})
    session = await open_session(runtime, request, auth)
    await _accept_as(runtime, session, fields)
    return signed_in(runtime, session)


ACTIONS: dict[str, Action] = {
    "login": sign_in,
    "signup": sign_up,
    "logout": sign_out,
    "forgotten": forgotten,
    "reset": reset,
    "offer": offer,
    "accept": accept,
    "join": join,
    "provider": provider.find,
    "leave": provider.leave,
    "link": provider.join,
    "second": provider.second,
}


def build_routes(runtime: Runtime) -> list[BaseRoute]:
    posts = [Route(f"/auth/{name}", _answer(runtime, action), methods=["POST"]) for name, action in ACTIONS.items()]
    gets = {"policy": policy(runtime), "callback": provider.callback(runtime)}
    return [*posts, *(Route(f"/auth/{name}", answer, methods=["GET"]) for name, answer in gets.items())]
