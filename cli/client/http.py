"""JSON over one kept connection, with the standard library alone: a command must begin at once.

http.client brings TLS and email parsing, a quarter of the start: it is imported with the first request.
"""

import json
import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from cli.errors import NoAnswer, Usage

if TYPE_CHECKING:
    from http.client import HTTPConnection

SECONDS = 30
REDIRECT = 300
BAD_REQUEST = 400
# A server may close an idle connection at the moment we write; what changes something must not be sent twice.
IDLE_SECONDS = 2.0
NOT_THE_PROJECT = "Check the address, and whether a proxy on the way asks for a sign-in of its own."


class Reply(NamedTuple):
    """The answer to a request."""

    status: int
    text: str

    @property
    def is_error(self) -> bool:
        """Whether it was refused or went wrong."""
        return self.status >= BAD_REQUEST

    def json(self) -> Any:
        """The document; an empty body is None. A redirect or a page, such as a proxy's sign-in, is not an answer of the project."""
        if not self.text and self.status < REDIRECT:
            return None
        try:
            return json.loads(self.text)
        except ValueError as error:
            raise NoAnswer(f"HTTP {self.status} without the project's answer", NOT_THE_PROJECT) from error


class Connection:
    """One server's address, connected when it is first needed."""

    def __init__(self, url: str, seconds: float = SECONDS) -> None:
        self.url = url.rstrip("/")
        self._at = _parsed(self.url)
        self._seconds = seconds
        self._open: HTTPConnection | None = None
        self._used_at = 0.0
        self._headers: dict[str, str] = {}

    def request(self, method: str, path: str, headers: dict[str, str], body: Any = None) -> Reply:
        """Ask, and read the whole answer."""
        from http.client import HTTPException

        data = None if body is None else json.dumps(body).encode()
        sent = headers if data is None else {**headers, "Content-Type": "application/json"}
        try:
            self._ready().request(method, self._at.path + path, data, sent)
            answer = self._ready_now().getresponse()
            text = answer.read().decode("utf-8", "replace")
        except (OSError, HTTPException) as error:
            self.close()
            raise NoAnswer(
                f"{self.url} does not answer: {error or type(error).__name__}",
                "Check the address, and that the project runs.",
            ) from error
        self._used_at = time.monotonic()
        self._headers = {name.lower(): value for name, value in answer.getheaders()}
        return Reply(answer.status, text)

    def head(self, path: str) -> dict[str, str]:
        """The headers of an answer, by lower-case name."""
        self.request("GET", path, {})
        return self._headers

    def close(self) -> None:
        """Hang up; the next request connects again."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def _ready(self) -> "HTTPConnection":
        if time.monotonic() - self._used_at > IDLE_SECONDS:
            self.close()
        return self._ready_now()

    def _ready_now(self) -> "HTTPConnection":
        if self._open is None:
            self._open = _connection(self._at, self._seconds)
        return self._open


def _parsed(url: str) -> SplitResult:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Usage(f'"{url}" is not the address of a project.', "It looks like https://abc.supabase.co.")
    return parts


def _connection(at: SplitResult, seconds: float) -> "HTTPConnection":
    from http.client import HTTPConnection, HTTPSConnection

    host, is_secure = at.hostname or "", at.scheme == "https"
    proxy = _proxy(at.scheme, host)
    near = proxy or at
    port = near.port or (443 if near.scheme == "https" else 80)
    made = (
        HTTPSConnection(near.hostname or "", port, timeout=seconds)
        if is_secure
        else HTTPConnection(near.hostname or "", port, timeout=seconds)
    )
    if proxy is not None:
        made.set_tunnel(host, at.port or (443 if is_secure else 80))
    return made


def _proxy(scheme: str, host: str) -> SplitResult | None:
    """The proxy that the environment names for this address, as curl reads it."""
    names = (f"{scheme}_proxy", f"{scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY")
    named = next((os.environ[name] for name in names if os.environ.get(name)), "")
    if not named:
        return None
    from urllib.request import proxy_bypass

    return None if proxy_bypass(host) else urlsplit(named)
