"""Cross-origin requests, answered for every service as hosted's gateway does."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

ALLOWED = (b"access-control-allow-origin", b"*")
EXPOSED = (
    b"access-control-expose-headers",
    b"Content-Encoding, Content-Range, Content-Type, Location, Range-Unit, X-Total-Count, X-Supabase-Api-Version",
)
METHODS = b"GET,HEAD,PUT,PATCH,POST,DELETE,OPTIONS"


class Cors:
    """Wraps the application; keys and tokens are sent explicitly, so any origin may ask."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a preflight; mark every other answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "OPTIONS":
            await _preflight(scope, send)
            return

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message["headers"] = list(message["headers"])
                if not any(name == b"access-control-allow-origin" for name, _ in headers):
                    headers += [ALLOWED, EXPOSED]
            await send(message)

        await self._app(scope, receive, marked)


async def _preflight(scope: Scope, send: Send) -> None:
    asked = next((value for name, value in scope["headers"] if name == b"access-control-request-headers"), b"*")
    headers = [
        ALLOWED,
        (b"access-control-allow-methods", METHODS),
        (b"access-control-allow-headers", asked),
        (b"access-control-max-age", b"3600"),
        (b"content-length", b"0"),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
