"""Cross-origin requests, answered for every service as hosted's gateway does."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stack.asgi import CROSS_ORIGIN

METHODS = b"GET,HEAD,PUT,PATCH,POST,DELETE,OPTIONS"


class Cors:
    """Wraps the application; keys and tokens are sent explicitly, so any origin may ask.

    REST receives far more requests than anything else and sets these headers itself: it bypasses the routing.
    """

    def __init__(self, app: ASGIApp, rest: ASGIApp) -> None:
        self._app = app
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a preflight; mark every other answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "OPTIONS":
            await _preflight(scope, send)
            return
        if scope["path"].startswith("/rest/v1/"):
            await self._rest(scope, receive, send)
            return

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message["headers"] = list(message["headers"])
                if not any(name == b"access-control-allow-origin" for name, _ in headers):
                    headers += CROSS_ORIGIN
            await send(message)

        await self._app(scope, receive, marked)


async def _preflight(scope: Scope, send: Send) -> None:
    asked = next((value for name, value in scope["headers"] if name == b"access-control-request-headers"), b"*")
    headers = [
        CROSS_ORIGIN[0],
        (b"access-control-allow-methods", METHODS),
        (b"access-control-allow-headers", asked),
        (b"access-control-max-age", b"3600"),
        (b"content-length", b"0"),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
