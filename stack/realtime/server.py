"""The Realtime server as routes to mount and a lifetime to enter."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import orjson
import psycopg
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from stack.asgi import client_address
from stack.realtime.database import QUERIES
from stack.realtime.errors import DatabaseAway, TokenRefused
from stack.realtime.frames import VERSION
from stack.realtime.hub import Addresses, RealtimeHub
from stack.realtime.settings import RealtimeSettings
from stack.realtime.socket import Socket
from stack.realtime.tokens import TokenVerifier
from stack.secrets import Secrets
from stack.settings import Settings

log = logging.getLogger("stack.realtime")
MAINTENANCE_SECONDS = 3600.0
# Policies may read a request's headers, but no credentials.
WITHHELD = ("authorization", "apikey", "x-api-key", "cookie")


@dataclass(frozen=True, slots=True)
class Realtime:
    """The Realtime server that the gateway mounts: `routes` under the root, `lifespan()` around its own."""

    hub: RealtimeHub
    addresses: Addresses
    routes: list[BaseRoute]

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Run the WAL feed and the upkeep of stored messages.

        granian cuts websockets before this ends, so no close message can be sent; clients reconnect automatically.
        """
        await self.hub.database.open()
        tasks = [
            asyncio.create_task(self.hub.feed.run()),
            asyncio.create_task(_maintain(self.addresses.maintenance_url)),
            asyncio.create_task(_watch_sessions(self.hub)),
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.hub.database.close()


def create_realtime(settings: Settings, secrets: Secrets) -> Realtime:
    """Make the server from the stack's settings and secrets."""
    roles = ("authenticator", "supabase_replication_admin", "supabase_realtime_admin")
    addresses = Addresses(*(settings.database_url(role, secrets.password(role)) for role in roles))
    return make_server(addresses, TokenVerifier.of(secrets, settings.auth_issuer), RealtimeSettings())


def make_server(addresses: Addresses, verifier: TokenVerifier, settings: RealtimeSettings) -> Realtime:
    """Make the server from its parts."""
    hub = RealtimeHub(addresses, verifier, settings)

    async def serve(websocket: WebSocket) -> None:
        await _serve(hub, websocket)

    routes: list[BaseRoute] = [
        WebSocketRoute("/realtime/v1/websocket", serve),
        Route("/realtime/v1/websocket", _needs_upgrade),
        Route("/realtime/v1/{path:path}", _not_here),
    ]
    return Realtime(hub, addresses, routes)


async def _needs_upgrade(_: Request) -> Response:
    return JSONResponse({"error": "This address speaks websocket"}, 426, {"upgrade": "websocket"})


async def _not_here(request: Request) -> Response:
    message = f"The embedded Realtime server does not offer {request.url.path}; hosted Supabase may."
    return JSONResponse({"message": message}, 501)


async def _serve(hub: RealtimeHub, websocket: WebSocket) -> None:
    api_key = websocket.headers.get("x-api-key") or websocket.query_params.get("apikey")
    if websocket.query_params.get("vsn", VERSION) != VERSION:
        await _refuse(hub, websocket, 403, "Unsupported protocol version")
        return
    if not api_key:
        await _refuse(hub, websocket, 401, "Missing API key")
        return
    try:
        hub.verifier.identify(api_key)
    except TokenRefused as error:
        await _refuse(hub, websocket, 401, error.message)
        return
    if len(hub.sockets) >= hub.settings.max_connections:
        await _refuse(hub, websocket, 429, "Too many connected users")
        return
    await websocket.accept()
    shown = {name: value for name, value in websocket.headers.items() if name not in WITHHELD}
    headers = orjson.dumps(shown).decode()
    await Socket(hub, websocket, api_key, headers, client_address(websocket.scope)).run()


async def _refuse(hub: RealtimeHub, websocket: WebSocket, status: int, message: str) -> None:
    """Answer the handshake itself; hosted waits first, which slows down anyone who tries again at once."""
    await asyncio.sleep(hub.settings.connect_error_seconds)
    await websocket.send_denial_response(JSONResponse({"error": message}, status))


async def _watch_sessions(hub: RealtimeHub) -> None:
    """A person who was signed out elsewhere receives nothing a few seconds later."""
    while True:
        await asyncio.sleep(hub.settings.session_check_seconds)
        try:
            await hub.close_ended()
        except (DatabaseAway, psycopg.Error) as error:
            log.info("sessions could not be checked, trying again: %s", error)


async def _maintain(url: str) -> None:
    """Keep a few days' partitions of stored messages, as hosted does."""
    while True:
        try:
            async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
                await connection.execute(QUERIES["maintain_messages"])
        except psycopg.Error as error:
            log.warning("stored messages could not be maintained: %s", error)
        await asyncio.sleep(MAINTENANCE_SECONDS)
