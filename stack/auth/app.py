"""The Auth service as an ASGI application."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import unquote

import orjson
import psycopg
from psycopg_pool import PoolTimeout
from starlette.types import Receive, Scope, Send

from stack.asgi import BodyTooLarge, BodyTooSlow, ClientGone, answer, client_address, header_map, read_body
from stack.auth.access import Access, NoKey, WrongKey
from stack.auth.admin import AdminService
from stack.auth.errors import API_VERSION, AuthError, Unsupported
from stack.auth.requests import Answer, Request, parse_pairs
from stack.auth.service import AuthService
from stack.auth.sessions import Client
from stack.auth.users import clean_id

LARGEST_BODY = 1024 * 1024
WRONG_METHOD = 405
HEADERS = (("content-type", "application/json"), ("cache-control", "no-store"))
NOT_SPOKEN = (
    "otp",
    "magiclink",
    "sso",
    "reauthenticate",
    "resend",
    "invite",
    "oauth",
)
Handler = Callable[[Request], Awaitable[Answer]]
log = logging.getLogger("stack.auth")


class AuthApp:
    """Answers `/auth/v1/…`."""

    def __init__(self, access: Access, service: AuthService, public_jwk: dict[str, Any], url: str) -> None:
        self._access = access
        self._service = service
        self._admin = AdminService(service, url)
        self._jwks = {"keys": [public_jwk]}
        # A browser comes by these, which has no key: the code or the state in the address is the credential.
        self._opened: dict[str, Handler] = {
            "verify": service.mails.follow_link,
            "authorize": service.federation.authorize,
            "callback": service.federation.callback,
        }
        self._routes: dict[tuple[str, str], Handler] = {
            ("POST", "signup"): service.sign_up,
            ("POST", "token"): service.token,
            ("GET", "user"): service.show_user,
            ("PUT", "user"): service.update_user,
            ("POST", "logout"): service.log_out,
            ("POST", "recover"): service.mails.recover,
            ("POST", "verify"): service.mails.verify,
            ("POST", "factors"): service.factors.enrol,
            ("GET", "settings"): self._settings,
            ("GET", "health"): _health,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; whatever goes wrong has a shape."""
        headers = header_map(scope)
        version = headers.get("x-supabase-api-version", "")
        try:
            found = await self._respond(scope, receive, headers)
        except Exception as error:  # noqa: BLE001 - a request that fails must not take the others with it
            refusal = _translate(error)
            await answer(send, refusal.status, _refusal_body(refusal, version), _refusal_headers(refusal, version))
            return
        body = b"" if found.body is None else orjson.dumps(found.body)
        await answer(send, found.status, body, [*HEADERS, *found.headers.items()])

    async def _respond(self, scope: Scope, receive: Receive, headers: dict[str, str]) -> Answer:
        path, method = scope["path"].removeprefix("/auth/v1").strip("/"), scope["method"]
        if path == ".well-known/jwks.json" and method == "GET":
            return Answer(self._jwks, headers={"cache-control": "public, max-age=600"})
        query = parse_pairs(scope["query_string"])
        body = await read_body(receive, headers, LARGEST_BODY)
        forwarded_for = self._access.forwarded_for(headers)
        client = Client(client_address(scope), headers.get("user-agent", "")[:500], forwarded_for)
        if path in self._opened and method == "GET":
            return await self._opened[path](
                Request(method, path, query, headers, body, self._access.anonymous, "", client)
            )
        apikey = headers.get("apikey", "")
        key = self._access.key_identity(apikey)
        return await self._dispatch(Request(method, path, query, headers, body, key, apikey, client))

    async def _dispatch(self, request: Request) -> Answer:
        handler = self._routes.get((request.method, request.path))
        if handler is not None:
            return await handler(request)
        first, _, rest = request.path.partition("/")
        if first == "admin":
            self._admin.check(request)
            return await self._administer(request, rest)
        if first == "factors" and rest:
            return await self._factor(request, rest)
        if first in NOT_SPOKEN:
            raise Unsupported(f"/{first}")
        if any(path == request.path for _, path in self._routes):
            raise AuthError(405, "method_not_allowed", f"Method {request.method} is not allowed here")
        raise AuthError(404, "not_found", "Not found")

    async def _factor(self, request: Request, path: str) -> Answer:
        factor_id, _, act = path.partition("/")
        factors = self._service.factors
        acts = {
            ("DELETE", ""): factors.remove,
            ("POST", "challenge"): factors.challenge,
            ("POST", "verify"): factors.verify,
        }
        if act not in ("", "challenge", "verify"):
            raise AuthError(404, "not_found", "Not found")
        if (request.method, act) not in acts:
            raise AuthError(405, "method_not_allowed", f"Method {request.method} is not allowed here")
        return await acts[request.method, act](request, clean_id(factor_id, "factor_id"))

    async def _administer(self, request: Request, path: str) -> Answer:
        kind, _, user_id = path.partition("/")
        if kind == "custom-providers":
            return await self._service.federation.providers.answer(request, unquote(user_id))
        if path == "generate_link" and request.method == "POST":
            return await self._admin.generate_link(request)
        user_id, _, rest = user_id.partition("/")
        if kind == "users" and rest.partition("/")[0] == "factors":
            return await self._administer_factors(request, user_id, rest.removeprefix("factors").strip("/"))
        if kind != "users" or rest:
            raise Unsupported(f"/admin/{path}"[:80])
        if not user_id:
            collection: dict[str, Handler] = {"GET": self._admin.list, "POST": self._admin.create}
            if request.method in collection:
                return await collection[request.method](request)
        else:
            one = {"GET": self._admin.show, "PUT": self._admin.update, "DELETE": self._admin.delete}
            if request.method in one:
                return await one[request.method](request, user_id)
        raise AuthError(405, "method_not_allowed", f"Method {request.method} is not allowed here")

    async def _administer_factors(self, request: Request, user_id: str, factor_id: str) -> Answer:
        if request.method == "GET" and not factor_id:
            return await self._admin.list_factors(request, user_id)
        if request.method == "DELETE" and factor_id:
            return await self._admin.delete_factor(request, user_id, factor_id)
        raise AuthError(405, "method_not_allowed", f"Method {request.method} is not allowed here")

    async def _settings(self, request: Request) -> Answer:
        external = {"email": True, "phone": False, "anonymous_users": False}
        return Answer(
            {
                "external": external,
                "disable_signup": not await self._service.is_open(),
                "mailer_autoconfirm": True,
                "phone_autoconfirm": False,
                "sms_provider": "",
                "saml_enabled": False,
            }
        )


async def _health(request: Request) -> Answer:
    description = "GoTrue is a user registration and authentication API"
    return Answer({"version": "embedded", "name": "GoTrue", "description": description})


def _refusal_headers(refusal: AuthError, version: str) -> list[tuple[str, str]]:
    """Only an error tells its code and the shape it has, as GoTrue does; a wrong method is its router's alone."""
    if refusal.status == WRONG_METHOD:
        return []
    shape = [("x-supabase-api-version", API_VERSION)] if version >= API_VERSION else []
    if "retry_after" in refusal.more:
        shape.append(("retry-after", str(refusal.more["retry_after"])))
    return [*HEADERS, ("x-sb-error-code", refusal.code), *shape]


def _refusal_body(refusal: AuthError, version: str) -> bytes:
    return b"" if refusal.status == WRONG_METHOD else refusal.body(version)


def _translate(error: Exception) -> AuthError:
    match error:
        case AuthError():
            return error
        case NoKey():
            return AuthError(401, "no_api_key", "No API key found in request")
        case WrongKey():
            return AuthError(401, "invalid_api_key", "Invalid API key")
        case ClientGone():
            return AuthError(400, "bad_json", "The request body could not be read")
        case BodyTooLarge():
            return AuthError(413, "request_too_large", "The request body is too large")
        case BodyTooSlow():
            return AuthError(408, "request_timeout", "The request body did not arrive in time")
        case psycopg.OperationalError() | PoolTimeout():
            return AuthError(503, "unexpected_failure", "The database is not available; try again")
    log.error("Unexpected failure", exc_info=error)
    return AuthError(500, "unexpected_failure", "Unexpected failure, please check server logs for more information")
