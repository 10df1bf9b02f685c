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
from stack.auth.access import Access, Answer, NoKey, Request, WrongKey, parse_pairs
from stack.auth.admin import AdminService
from stack.auth.errors import API_VERSION, AuthError, Unsupported
from stack.auth.service import AuthService
from stack.auth.sessions import Client
from stack.auth.users import clean_id

LARGEST_BODY = 1024 * 1024
WRONG_METHOD = 405
HEADERS = (("content-type", "application/json"), ("cache-control", "no-store"))
NOT_SPOKEN = ("otp", "magiclink", "sso", "reauthenticate", "resend", "invite", "oauth")
Handler = Callable[..., Awaitable[Answer]]
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
        factors, admin = service.factors, self._admin
        # A part in braces is an id.
        self._routes: dict[str, dict[str, Handler]] = {
            "signup": {"POST": service.sign_up},
            "token": {"POST": service.token},
            "user": {"GET": service.show_user, "PUT": service.update_user},
            "logout": {"POST": service.log_out},
            "recover": {"POST": service.mails.recover},
            "verify": {"POST": service.mails.verify},
            "factors": {"POST": factors.enrol},
            "factors/{factor_id}": {"DELETE": factors.remove},
            "factors/{factor_id}/challenge": {"POST": factors.challenge},
            "factors/{factor_id}/verify": {"POST": factors.verify},
            "settings": {"GET": self._settings},
            "health": {"GET": _health},
            "admin/generate_link": {"POST": admin.generate_link},
            "admin/users": {"GET": admin.list, "POST": admin.create},
            "admin/users/{user_id}": {"GET": admin.show, "PUT": admin.update, "DELETE": admin.delete},
            "admin/users/{user_id}/factors": {"GET": admin.list_factors},
            "admin/users/{user_id}/factors/{factor_id}": {"DELETE": admin.delete_factor},
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; whatever goes wrong has a shape."""
        headers = header_map(scope)
        version = headers.get("x-supabase-api-version", "")
        try:
            found = await self._respond(scope, receive, headers)
        except Exception as error:  # noqa: BLE001 - a request that fails must not take the others with it
            refusal = _translate(error)
            text = b"" if refusal.status == WRONG_METHOD else refusal.body(version)
            await answer(send, refusal.status, text, _refusal_headers(refusal, version))
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
        is_open = path in self._opened and method == "GET"
        apikey = "" if is_open else headers.get("apikey", "")
        key = self._access.anonymous if is_open else self._access.key_identity(apikey)
        request = Request(method, path, query, headers, body, key, apikey, client)
        return await (self._opened[path] if is_open else self._dispatch)(request)

    async def _dispatch(self, request: Request) -> Answer:
        first, *rest = parts = request.path.split("/")
        if first == "admin":
            self._admin.check(request)
        if parts[:2] == ["admin", "custom-providers"]:
            return await self._service.federation.providers.answer(request, unquote("/".join(rest[1:])))
        for pattern, handlers in self._routes.items():
            ids = _ids_in(pattern.split("/"), parts)
            if ids is not None:
                if request.method not in handlers:
                    raise AuthError(405, "method_not_allowed", f"Method {request.method} is not allowed here")
                return await handlers[request.method](request, *(clean_id(text, name) for name, text in ids))
        if first in ("admin", *NOT_SPOKEN):
            raise Unsupported(f"/{request.path if first == 'admin' else first}"[:80])
        raise AuthError(404, "not_found", "Not found")

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


def _ids_in(pattern: list[str], parts: list[str]) -> list[tuple[str, str]] | None:
    """The ids in an address, each with its name; None where the address does not fit."""
    pairs = list(zip(pattern, parts, strict=False))
    if len(pattern) != len(parts) or any(name[0] != "{" and name != text for name, text in pairs):
        return None
    return [(name.strip("{}"), text) for name, text in pairs if name[0] == "{"]


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
