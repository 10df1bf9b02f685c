"""The REST service as an ASGI application."""

import logging
from collections.abc import Callable
from functools import partial

import orjson
from starlette.types import Receive, Scope, Send

from stack import asgi
from stack.auth.access import Access, NoKey, WrongKey
from stack.auth.tokens import TokenError
from stack.rest.errors import RestError
from stack.rest.pool import DatabaseGone, Pool, PoolTimeout
from stack.rest.resources import Plan, Request, Response, answer_call, answer_table, negotiate, run_plan
from stack.rest.store import CatalogStore

FIRST_CATALOG_SECONDS = 5.0
# The root has no content, but its status shows whether the database is reachable.
NOTHING = b"select null, 0, '', null"
log = logging.getLogger("stack.rest")


class RestApp:
    """Answers `/rest/v1/…`."""

    def __init__(self, access: Access, pool: Pool, store: CatalogStore, most_rows: int | None = 1000) -> None:
        self._access = access
        self._pool = pool
        self._store = store
        self._most_rows = most_rows

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; whatever goes wrong has a shape."""
        try:
            response = await self._respond(scope, receive)
        except Exception as error:  # noqa: BLE001 - a request that fails must not take the others with it
            response = failure(error)
        body = b"" if scope["method"] == "HEAD" else response.body
        await asgi.answer(send, response.status, body, response.headers)

    async def _respond(self, scope: Scope, receive: Receive) -> Response:
        headers = asgi.header_map(scope)
        identity = self._access.identify(headers.get("apikey"), headers.get("authorization"))
        catalog = await self._store.wait(FIRST_CATALOG_SECONDS)
        if catalog is None:
            message = "Could not query the database for the schema cache. Retrying."
            raise RestError(503, "PGRST002", message)
        method, path = scope["method"], scope["path"].removeprefix("/rest/v1").strip("/")
        body = await asgi.read_body(receive, headers) if method == "POST" else b""
        schema = negotiate(headers, method, catalog.schemas)
        request = Request(
            method, path, scope["query_string"], headers, body, identity, catalog, schema, self._most_rows
        )
        if request.path.startswith("rpc/"):
            return await answer_call(self._pool, request)
        if not request.path:
            await run_plan(self._pool, request.caller(), Plan(NOTHING, [], is_read_only=True))
            raise RestError(404, "PGRST126", "Root endpoint metadata is disabled")
        if "/" in request.path:
            raise RestError(404, "PGRST125", "Invalid path specified in request URL")
        return await answer_table(self._pool, request)


def failure(error: Exception) -> Response:
    """The response for whatever went wrong."""
    found = _translate(error)
    headers = {"content-type": asgi.JSON, "proxy-status": f"PostgREST; error={found.code}", **found.headers}
    return Response(found.status, found.body(), list(headers.items()))


def _translate(error: Exception) -> RestError:
    if isinstance(error, RestError):
        return error
    if isinstance(error, TokenError):
        return _token_error(error)
    for kind, make in KNOWN_FAILURES.items():
        if isinstance(error, kind):
            return make()
    log.error("Unexpected failure", exc_info=error)
    return RestError(500, "PGRSTX00", "Internal error")


def _token_error(error: TokenError) -> RestError:
    challenge = f'Bearer error="invalid_token", error_description="{error.message}"'
    code = "PGRST303" if error.is_claim else "PGRST301"
    return RestError(401, code, error.message, error.details, None, {"www-authenticate": challenge})


class GatewayError(RestError):
    """A refusal by the gateway in front of PostgREST, which has a shape of its own."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(401, "401", message, None, hint)

    def body(self) -> bytes:
        """The gateway's JSON: no code and no details."""
        return orjson.dumps({"message": self.message, "hint": self.hint})


KNOWN_FAILURES: dict[type[Exception], Callable[[], RestError]] = {
    NoKey: partial(GatewayError, "No API key found in request", "No `apikey` request header was found."),
    WrongKey: partial(GatewayError, "Invalid API key", "Double check your Supabase `anon` or `service_role` API key."),
    asgi.ClientGone: partial(RestError, 400, "PGRST102", "The request body could not be read"),
    asgi.BodyTooLarge: partial(RestError, 413, "PGRST102", "The request body is too large"),
    asgi.BodyTooSlow: partial(RestError, 408, "PGRST102", "The request body did not arrive in time"),
    DatabaseGone: partial(RestError, 503, "PGRST001", "Database client error. Retrying the connection."),
    PoolTimeout: partial(RestError, 504, "PGRST003", "Timed out acquiring connection from connection pool."),
}
