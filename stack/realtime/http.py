"""Broadcasts sent by HTTP: many at once, or one by its address."""

from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from stack.asgi import client_address
from stack.realtime.errors import DatabaseAway, JoinRefused, MalformedFrame, RealtimeError, TokenRefused
from stack.realtime.frames import UserBroadcast, parse_json
from stack.realtime.hub import RealtimeHub
from stack.realtime.limits import RateCounter
from stack.realtime.policies import Asker
from stack.realtime.rooms import Room
from stack.realtime.tokens import RealtimeCaller

JSON, BINARY = "application/json", "application/octet-stream"


class RequestRefused(RealtimeError):
    """An HTTP answer other than 202."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(body)
        self.response = JSONResponse(body, status)


Handler = Callable[[Request], Awaitable[Response]]


class BroadcastApi:
    """The two endpoints under `/realtime/v1/api/broadcast`."""

    def __init__(self, hub: RealtimeHub) -> None:
        self._hub = hub

    async def batch(self, request: Request) -> Response:
        """`{messages: [{topic, event, payload, private}]}`; a private one that may not be sent is left out silently."""
        return await self._answered(request, self._batch)

    async def single(self, request: Request) -> Response:
        """One message whose topic and event are in the path."""
        return await self._answered(request, self._single)

    async def _answered(self, request: Request, work: Callable[[Request, RealtimeCaller], Awaitable[None]]) -> Response:
        try:
            await work(request, await self._identify(request))
        except RequestRefused as error:
            return error.response
        except DatabaseAway:
            return JSONResponse({"error": "Tenant database unavailable"}, 422)
        except JoinRefused as error:
            return JSONResponse({"error": error.reason}, 422)
        return Response(status_code=202)

    async def _identify(self, request: Request) -> RealtimeCaller:
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        token = bearer if scheme.lower() == "bearer" else ""
        if not token or token.startswith("sb_"):
            token = token or request.headers.get("apikey") or request.headers.get("x-api-key") or ""
        try:
            identity = self._hub.verifier.identify(token)
        except TokenRefused as error:
            raise RequestRefused(401, {"message": "Unauthorized"}) from error
        is_allowed = await self._hub.database.may_become(identity.role)
        if not is_allowed or not await self._hub.authorizer.has_session(identity):
            raise RequestRefused(401, {"message": "Unauthorized"})
        return identity

    async def _batch(self, request: Request, identity: RealtimeCaller) -> None:
        messages = read_messages(read_json(await self._body(request)), self._hub.settings.max_batch_messages)
        rooms = [Room(message["topic"], message["private"]) for message in messages]
        self._admit(request, identity, rooms)
        allowed: dict[str, bool] = {}
        for room, message in zip(rooms, messages, strict=True):
            if room.is_private and room.name not in allowed:
                allowed[room.name] = await self._may_send(request, identity, room)
            if not room.is_private or allowed[room.name]:
                content = {"type": "broadcast", "event": message["event"], "payload": message["payload"]}
                self._send(room, content)

    async def _single(self, request: Request, identity: RealtimeCaller) -> None:
        content = self._content(request, await self._body(request))
        room = Room(request.path_params["topic"], request.query_params.get("private") == "true")
        self._admit(request, identity, [room])
        if room.is_private and not await self._may_send(request, identity, room):
            raise RequestRefused(403, {"message": "Unauthorized"})
        self._send(room, content)

    def _content(self, request: Request, body: bytes) -> UserBroadcast:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        event = request.path_params["event"]
        if kind == BINARY:
            return UserBroadcast(event, body, is_json=False)
        if kind != JSON:
            raise RequestRefused(415, {"message": f"Content-Type must be {JSON} or {BINARY}"})
        return UserBroadcast(event, orjson.dumps(read_json(body)), is_json=True)

    async def _body(self, request: Request) -> bytes:
        limit, body = self._hub.settings.max_payload_bytes, bytearray()
        try:
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    raise RequestRefused(422, {"errors": {"payload": ["Payload size exceeds tenant limit"]}})
        except ClientDisconnect as error:
            raise RequestRefused(400, {"message": "The request body could not be read"}) from error
        return bytes(body)

    def _admit(self, request: Request, identity: RealtimeCaller, rooms: list[Room]) -> None:
        """Refuse what this project does not offer, and anyone who has sent too much."""
        if not self._hub.settings.allow_public:
            if identity.is_anonymous:
                raise RequestRefused(401, {"message": "Unauthorized"})
            if not all(room.is_private for room in rooms):
                raise RequestRefused(403, {"message": "This project only allows private channels"})
        cost = sum(1 + self._hub.rooms.size(room) for room in rooms)
        sender = self._hub.senders.of(identity.sender(client_address(request.scope)))
        self._check_rates(cost, sender)
        sender.add(cost)

    def _check_rates(self, cost: int, sender: RateCounter) -> None:
        rates = (sender, self._hub.messages)
        if any(rate.is_exceeded for rate in rates):
            raise RequestRefused(429, {"message": "You have exceeded your rate limit"})
        if not all(rate.has_room(cost) for rate in rates):
            message = "Too many messages to broadcast, please reduce the batch size"
            raise RequestRefused(429, {"message": message})

    async def _may_send(self, request: Request, identity: RealtimeCaller, room: Room) -> bool:
        headers = orjson.dumps(safe_headers(request.headers.items())).decode()
        return await self._hub.authorizer.may_write(Asker(identity, room.name, headers), "broadcast")

    def _send(self, room: Room, content: UserBroadcast | dict[str, Any]) -> None:
        self._hub.messages.add()
        self._hub.rooms.broadcast(room, content)


def safe_headers(items: list[tuple[str, str]]) -> dict[str, str]:
    """Request headers as policies may read them, without credentials."""
    return {name: value for name, value in items if name not in ("authorization", "apikey", "x-api-key", "cookie")}


def read_json(body: bytes) -> Any:
    """The body as JSON, or 400."""
    try:
        return parse_json(body)
    except MalformedFrame as error:
        raise RequestRefused(400, {"message": f"The body cannot be read: {error}"}) from error


def read_messages(body: Any, most: int) -> list[dict[str, Any]]:
    """The messages of a batch; every fault of every message is named, as hosted's validation does."""
    messages = body.get("messages") if isinstance(body, dict) else None
    if not isinstance(messages, list) or not messages:
        raise RequestRefused(422, {"errors": {"messages": ["can't be blank"]}})
    if len(messages) > most:
        raise RequestRefused(422, {"errors": {"messages": [f"should have at most {most} item(s)"]}})
    faults = [_faults(message) for message in messages]
    if any(faults):
        raise RequestRefused(422, {"errors": {"messages": faults}})
    return [{**message, "private": message.get("private") is True} for message in messages]


def _faults(message: Any) -> dict[str, list[str]]:
    if not isinstance(message, dict):
        return {"message": ["is invalid"]}
    kinds: dict[str, type] = {"topic": str, "event": str, "payload": dict}
    faults = {}
    for name, kind in kinds.items():
        if message.get(name) in (None, ""):
            faults[name] = ["can't be blank"]
        elif not isinstance(message[name], kind):
            faults[name] = ["is invalid"]
    return faults
