"""The API as the demo uses it: what a person and an administrator could do by hand."""

from typing import Any, Self

import httpx

from stack.errors import StackError


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
            raise _refused("The demo account could not be made", made)
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
            raise _refused("The demo account could not sign in", answer)
        return Api(self._http, key, answer.json()["access_token"])

    async def call(self, name: str, /, **arguments: Any) -> Any:
        """Call a function of the database."""
        body = {f"p_{key}": value for key, value in arguments.items()}
        answer = await self._http.post(f"/rest/v1/rpc/{name}", json=body, headers=self._headers)
        if answer.is_error:
            raise _refused(f"The demo could not call {name}", answer)
        return answer.json() if answer.content else None

    async def rows(self, table: str, **filters: str) -> list[dict[str, Any]]:
        """Read rows."""
        answer = await self._http.get(f"/rest/v1/{table}", params=filters, headers=self._headers)
        if answer.is_error:
            raise _refused(f"The demo could not read {table}", answer)
        return list(answer.json())


def _refused(what: str, answer: httpx.Response) -> StackError:
    return StackError(f"{what}: HTTP {answer.status_code} {answer.text[:300]}. `make up DEMO=0` starts without it.")
