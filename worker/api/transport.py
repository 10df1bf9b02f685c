"""HTTP, in the one place that knows it."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import httpx
import orjson

from wire.answers import is_passing
from worker.api.replies import Document, read_answer
from worker.errors import ExitCode, Fatal, Fenced, Locked, Rejected, Retryable, TokenExpired, WorkerError
from worker.version import __version__

_EXPIRED_TOKEN = frozenset({"PGRST301", "PGRST303", "UNAUTHORIZED_INVALID_JWT_FORMAT"})

_AGENT = {"user-agent": f"runyard-worker/{__version__}", "content-type": "application/json"}


class Transport:
    """Sends JSON and returns JSON; every failure is one of `worker.errors`."""

    def __init__(self, url: str, *, timeout_seconds: float = 30.0, http: httpx.AsyncClient | None = None) -> None:
        """Take the project's URL; the key and the token come with the session."""
        self.url = url.rstrip("/")
        self._http = http or httpx.AsyncClient(
            timeout=httpx.Timeout(timeout_seconds, connect=min(10.0, timeout_seconds)),
            limits=httpx.Limits(max_connections=64, max_keepalive_connections=16, keepalive_expiry=60),
        )
        self._key = ""
        self.token = ""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    def use(self, *, publishable_key: str, token: str) -> None:
        """Send these with every call from now on."""
        self._key, self.token = publishable_key, token

    async def rpc(self, name: str, arguments: Mapping[str, Any], *, timeout_seconds: float | None = None) -> Any:
        """Call a database function."""
        headers = {"apikey": self._key, "authorization": f"Bearer {self.token}"}
        return await self._post(f"/rest/v1/rpc/{name}", arguments, headers, timeout_seconds)

    async def function(self, name: str, body: Mapping[str, Any], *, is_authorised: bool = False) -> Document:
        """Call an edge function; opening a session needs no key, renewing it needs the old token."""
        headers = {"authorization": f"Bearer {self.token}", "apikey": self._key} if is_authorised else {}
        return read_answer(Document, await self._post(f"/functions/v1/{name}", body, headers, None))

    async def _post(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str], timeout_seconds: float | None
    ) -> Any:
        timeout = httpx.USE_CLIENT_DEFAULT if timeout_seconds is None else httpx.Timeout(timeout_seconds)
        try:
            response = await self._http.post(
                self.url + path, content=orjson.dumps(body), headers={**_AGENT, **headers}, timeout=timeout
            )
        except (httpx.RequestError, httpx.InvalidURL) as error:
            raise Retryable(f"{self.url} cannot be reached: {_words(error)}") from error
        return _read(response)


def _read(response: httpx.Response) -> Any:
    try:
        body = orjson.loads(response.content) if response.content else None
    except orjson.JSONDecodeError:
        if response.is_success:
            # A sign-in or maintenance page. Taken for an empty answer it would say "there is no state", or "it is stored".
            raise Retryable(
                f"{response.url} answers with a page, not with JSON; check the proxies on the way."
            ) from None
        body = None
    if response.is_success:
        return body
    if response.status_code < 400:
        # A redirect here is a proxy's sign-in page or a wrong URL, not the project.
        raise Retryable(f"{response.url} answers with a redirect; check the server's URL.")
    raise fault(response.status_code, body if isinstance(body, dict) else {}, response.headers)


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def fault(status: int, body: Mapping[str, Any], headers: Mapping[str, str]) -> WorkerError:
    """Turn an error answer into the reaction that it requires."""
    code = str(body.get("code") or "")
    message = str(body.get("message") or body.get("msg") or f"The server answered {status}.")
    about: dict[str, Any] = {"code": code, "hint": str(body.get("hint") or ""), "detail": body.get("details")}
    if code == "RY401":
        return Fatal(message, exit_code=ExitCode.SESSION_ENDED, **about)
    if code == "RY410":
        return Fenced(message, **about)
    if code == "RY423":
        return Locked(message, **about)
    if code in _EXPIRED_TOKEN or (status == 401 and not code.startswith("RY")):
        return TokenExpired(message, **about)
    if is_passing(status, code):
        return Retryable(message, retry_after_seconds=_retry_after(headers), **about)
    return Rejected(message, **about)


def _retry_after(headers: Mapping[str, str]) -> float:
    try:
        return min(120.0, max(0.0, float(headers.get("retry-after", "0"))))
    except ValueError:
        return 0.0
