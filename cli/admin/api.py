"""The API as a person and an administrator use it: sign in, call functions, read rows."""

import contextlib
import os
from collections.abc import AsyncIterator
from typing import Any, Self

import httpx

from stack.errors import Missing, Refused

REQUEST_SECONDS = 30
PAGE = 1000


class Api:
    """Calls of one identity."""

    def __init__(self, http: httpx.AsyncClient, key: str, token: str) -> None:
        """Keep the connection, the API key and the bearer token."""
        self._http = http
        self._headers = {"apikey": key, "Authorization": f"Bearer {token}"}

    @classmethod
    def administrator(cls, http: httpx.AsyncClient, secret_key: str) -> Self:
        """Act with the secret key."""
        return cls(http, secret_key, secret_key)

    async def sign_in(self, publishable_key: str, email: str, password: str) -> "Api":
        """Make the account where it is missing, and act as that person."""
        account = {"email": email, "password": password, "email_confirm": True}
        made = await self._http.post("/auth/v1/admin/users", json=account, headers=self._headers)
        if made.status_code not in {200, 422}:
            raise _refused(f"The account {email} could not be made", made)
        return await Api(self._http, publishable_key, publishable_key).sign_in_only(email, password)

    async def sign_in_only(self, email: str, password: str) -> "Api":
        """Act as a person whose account stands."""
        key = self._headers["apikey"]
        answer = await self._http.post(
            "/auth/v1/token",
            params={"grant_type": "password"},
            json={"email": email, "password": password},
            headers={"apikey": key},
        )
        if answer.status_code != httpx.codes.OK:
            raise _refused(f"{email} could not sign in", answer)
        return Api(self._http, key, answer.json()["access_token"])

    async def call(self, name: str, /, **arguments: Any) -> Any:
        """Call a function of the database."""
        body = {f"p_{key}": value for key, value in arguments.items()}
        answer = await self._http.post(f"/rest/v1/rpc/{name}", json=body, headers=self._headers)
        if answer.is_error:
            raise _refused(name, answer)
        return answer.json() if answer.content else None

    async def rows(self, table: str, **filters: str) -> list[dict[str, Any]]:
        """Read rows; the server gives at most a thousand."""
        answer = await self._http.get(f"/rest/v1/{table}", params=filters, headers=self._headers)
        if answer.is_error:
            raise _refused(table, answer)
        return list(answer.json())

    async def all_rows(self, table: str, **filters: str) -> list[dict[str, Any]]:
        """Read every row, a page at a time; the filters must name an order."""
        found: list[dict[str, Any]] = []
        while True:
            page = await self.rows(table, **filters, limit=str(PAGE), offset=str(len(found)))
            found += page
            if len(page) < PAGE:
                return found


def need_variables(*names: str) -> list[str]:
    """Read variables that a command cannot do without; all that are missing are named at once."""
    missing = [name for name in names if not os.environ.get(name)]
    if missing:
        raise Missing(
            f"Set {' and '.join(missing)}.",
            "`make env` prints the address and the keys of the local stack; `supabase status` or the project's API "
            "settings show those of another.",
        )
    return [os.environ[name] for name in names]


@contextlib.asynccontextmanager
async def signed_in() -> AsyncIterator[Api]:
    """Act as the person whom the environment names."""
    url, key = need_variables("SUPABASE_URL", "SUPABASE_PUBLISHABLE_KEY")
    async with _connect(url) as http:
        if token := os.environ.get("RUNYARD_ACCESS_TOKEN"):
            yield Api(http, key, token)
            return
        email, password = (os.environ.get(name) for name in ("RUNYARD_EMAIL", "RUNYARD_PASSWORD"))
        if not email or not password:
            raise Missing("Say who you are.", "Set RUNYARD_EMAIL and RUNYARD_PASSWORD, or RUNYARD_ACCESS_TOKEN.")
        yield await Api(http, key, key).sign_in_only(email, password)


@contextlib.asynccontextmanager
async def installation() -> AsyncIterator[Api]:
    """Act for the installation, with its secret key."""
    url, key = need_variables("SUPABASE_URL", "SUPABASE_SECRET_KEY")
    async with _connect(url) as http:
        yield Api.administrator(http, key)


@contextlib.asynccontextmanager
async def _connect(url: str) -> AsyncIterator[httpx.AsyncClient]:
    try:
        async with httpx.AsyncClient(base_url=url, timeout=REQUEST_SECONDS) as http:
            yield http
    except httpx.TransportError as error:
        raise Refused(f"{url} does not answer: {error}", "Check SUPABASE_URL, and that the project runs.") from error


def _refused(what: str, answer: httpx.Response) -> Refused:
    """Say what the project said: the database's and Auth's own message and hint, where there is one."""
    try:
        said = answer.json()
        message = said.get("message") or said.get("msg") or said.get("error_description")
    except (ValueError, AttributeError):
        said, message = {}, None
    if message is None:
        return Refused(f"{what}: HTTP {answer.status_code} {answer.text[:300]}")
    return Refused(f"{what}: {message}", said.get("hint") or "")
