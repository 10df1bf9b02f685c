"""The API as a person and an operator use it: call functions, read rows."""

import base64
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from cli.client.http import Connection, Reply
from cli.errors import CommandError, NoAnswer, Refused, SignedOut
from wire import answers

NOTIFY = "/functions/v1/notify"
PAGE = 1000
UNAUTHORIZED = 401
# Auth's codes for a login that has ended.
ENDED = frozenset({"session_not_found", "user_not_found", "refresh_token_not_found", "refresh_token_already_used"})
AGAIN = "Try again in a moment."
FAILED = "The project, or a proxy on the way to it, failed, and its log says why. Try again in a moment."


class Api:
    """Calls of one identity; `renew` gives another token when the present one has expired."""

    def __init__(self, connection: Connection, key: str, token: str, renew: Callable[[], str] | None = None) -> None:
        self.connection = connection
        self._key = key
        self._token = token
        self._renew = renew
        self.through: dict[str, str] = {}

    @property
    def url(self) -> str:
        """The project's address."""
        return self.connection.url

    @property
    def headers(self) -> dict[str, str]:
        """The headers that identify the caller."""
        identity = {"apikey": self._key, "Authorization": f"Bearer {self._token}"}
        return {**identity, "Accept": "application/json", **self.through}

    def call(self, name: str, /, **arguments: Any) -> Any:
        """Call a function of the database."""
        body = {f"p_{key}": value for key, value in arguments.items()}
        return self.request("POST", f"/rest/v1/rpc/{name}", name, body)

    def rows(self, table: str, **filters: str) -> list[dict[str, Any]]:
        """Read rows; the server gives at most a thousand."""
        return list(self.request("GET", f"/rest/v1/{table}?{urlencode(filters)}", table))

    def all_rows(self, table: str, **filters: str) -> list[dict[str, Any]]:
        """Read every row, a page at a time; the filters must name an order."""
        found: list[dict[str, Any]] = []
        while True:
            page = self.rows(table, **filters, limit=str(PAGE), offset=str(len(found)))
            found += page
            if len(page) < PAGE:
                return found

    def listed(self, name: str, page: int, most: int | None = None, /, **arguments: Any) -> list[dict[str, Any]]:
        """Read a list that a function of the database returns a page at a time, or only its first rows."""
        found: list[dict[str, Any]] = []
        while (size := page if most is None else min(page, most - len(found))) > 0:
            rows = self.call(name, **arguments, limit=size, offset=len(found))["rows"]
            found += rows
            if len(rows) < size:
                break
        return found

    def who(self) -> dict[str, Any]:
        """The person who calls: id and address, from Auth; a personal token, which Auth does not know, is looked up in the database."""
        claims = claims_of(self._token)
        if "personal_token" in claims:
            return {"id": claims.get("sub"), "email": claims.get("email")}
        return dict(self.request("GET", "/auth/v1/user", "Auth"))

    def request(self, method: str, path: str, what: str, body: Any = None) -> Any:
        """One request as this identity; `what` precedes a refusal without a message of its own."""
        reply = self._send(method, path, body)
        if reply.status == UNAUTHORIZED and self._renew is not None:
            self._token = self._renew()
            reply = self._send(method, path, body)
        if reply.is_error:
            raise refusal(what, reply)
        return reply.json()

    def _send(self, method: str, path: str, body: Any) -> Reply:
        return self.connection.request(method, path, self.headers, body)


def claims_of(token: str) -> dict[str, Any]:
    """Return a token's claims about itself; the project judges whether they are true."""
    try:
        payload = token.split(".")[1]
        return dict(json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))))
    except (IndexError, ValueError, TypeError):
        return {}


def refusal(what: str, reply: Reply) -> CommandError:
    """Raise the project's refusal: the database's and Auth's own message and hint, where there is one."""
    message, hint = said_by(reply)
    code = _code(reply)
    said = f"{what}: {message}{f' [{code}]' if code.startswith('RY') else ''}"
    if is_passing(reply):
        return NoAnswer(said, hint or (AGAIN if code else FAILED))
    if auth_code(reply) in ENDED:
        return SignedOut("This login was ended elsewhere, or by a new password.", "Sign in again: runyard login.")
    if reply.status == UNAUTHORIZED:
        return SignedOut(f"The project does not accept this login: {message}", "Sign in again: runyard login.")
    return Refused(said, hint)


def is_passing(reply: Reply) -> bool:
    """Whether the same request may succeed in a moment: the reply does not refuse the request itself."""
    return reply.is_error and answers.is_passing(reply.status, _code(reply))


def _code(reply: Reply) -> str:
    """The code of the database, PostgREST, an edge function or Auth."""
    code = _said(reply).get("code")
    return code if isinstance(code, str) else ""


def auth_code(reply: Reply) -> str:
    """Auth's own code of a refusal, where Auth answered."""
    return str(_said(reply).get("error_code") or "")


def said_by(reply: Reply) -> tuple[str, str]:
    """The message and the hint of a refusal."""
    said = _said(reply)
    message = said.get("message") or said.get("msg") or said.get("error_description")
    return message or f"HTTP {reply.status} {_shown(reply.text)}".rstrip(), str(said.get("hint") or "")


def _said(reply: Reply) -> dict[str, Any]:
    try:
        said = reply.json()
    except NoAnswer:
        return {}
    return said if isinstance(said, dict) else {}


def _shown(text: str) -> str:
    """Return the readable part of an answer without a message; a proxy's page is markup for a browser."""
    return "and a web page" if text.lstrip().startswith("<") else text[:300]
