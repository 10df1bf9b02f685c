"""The runners of one organisation, by name or id, through the functions that the dashboard calls too."""

import os
import uuid
from typing import Any

from cli.admin.api import Api
from cli.admin.tokens import SERVICE_ACCOUNT, make_token
from stack.errors import StackError


class Fleet:
    """What one person may do with one organisation's runners."""

    def __init__(self, person: Api, organization: str) -> None:
        """Keep who acts, and the organisation's id."""
        self._person = person
        self._organization = organization

    @classmethod
    async def of(cls, person: Api, wanted: str | None) -> "Fleet":
        """Find the organisation by slug or id; the only one needs no name."""
        mine = await person.call("my_organizations")
        wanted = wanted or os.environ.get("RUNYARD_ORGANIZATION")
        found = [one for one in mine if wanted is None or wanted in {one["id"], one["slug"]}]
        if len(found) != 1:
            names = ", ".join(sorted(one["slug"] for one in mine)) or "none"
            problem = "Which organisation?" if found else f"There is no organisation {wanted or 'of yours'}."
            raise StackError(problem, f"Yours: {names}. Name one with --organization or RUNYARD_ORGANIZATION.")
        return cls(person, found[0]["id"])

    async def rows(self) -> list[dict[str, Any]]:
        """Every runner that the organisation sees, shared ones included."""
        return await self._person.all_rows("workers", **self._seen(), removed_at="is.null", order="name,id")

    async def find(self, runner: str) -> dict[str, Any]:
        """One runner by its exact name or its id; the organisation's own before a shared one of the same name."""
        column = "id" if _is_id(runner) else "name"
        return await self._one("workers", column, runner, **self._seen(), order="is_shared")

    async def service_account(self, account: str) -> str:
        """A service account's id, by its name, its client id or its id."""
        column = "id" if _is_id(account) else "client_id" if account.startswith("rysa_") else "name"
        owner = {"org_id": f"eq.{self._organization}"}
        return str((await self._one("service_accounts", column, account, **owner))["id"])

    async def add_service_account(self, spec: dict[str, Any], *, with_secret: bool) -> dict[str, Any]:
        """Make a service account; its secret is in the answer and nowhere else."""
        secret = await make_token(SERVICE_ACCOUNT) if with_secret else None
        made: dict[str, Any] = await self._person.call(
            "create_service_account",
            org=self._organization,
            spec=spec,
            secret_hash=secret.hash if secret else None,
            secret_hint=secret.hint if secret else None,
        )
        return {**made, "client_secret": secret.text} if secret else made

    async def register(self, name: str, options: dict[str, Any], *, with_token: bool) -> dict[str, Any]:
        """Register a runner; its token is in the answer and nowhere else."""
        token = await make_token() if with_token else None
        made: dict[str, Any] = await self._person.call(
            "register_worker",
            org=self._organization,
            name=name,
            token_hash=token.hash if token else None,
            token_hint=token.hint if token else None,
            options=options,
        )
        return {**made, "token": token.text} if token else made

    async def rotate(self, runner: str, overlap_seconds: int) -> dict[str, Any]:
        """Give a runner a new token; the one before it works on for a while."""
        row, token = await self.find(runner), await make_token()
        await self._person.call(
            "rotate_worker_token",
            worker=row["id"],
            token_hash=token.hash,
            token_hint=token.hint,
            overlap_seconds=overlap_seconds,
        )
        return {**row, "token": token.text}

    async def remove(self, runner: str) -> dict[str, Any]:
        """Remove a runner's record, or queue the job that takes down what was deployed."""
        is_deployed = (await self.find(runner))["type"] == "cloud-hosted"
        return await self.act("remove_cloud_worker" if is_deployed else "remove_worker", runner)

    async def act(self, function: str, runner: str, **arguments: Any) -> dict[str, Any]:
        """Call a function about one runner, and read what became of it."""
        row = await self.find(runner)
        await self._person.call(function, worker=row["id"], **arguments)
        (after,) = await self._person.rows("workers", id=f"eq.{row['id']}")
        return after

    def _seen(self) -> dict[str, str]:
        return {"or": f"(org_id.eq.{self._organization},is_shared.is.true)"}

    async def _one(self, table: str, column: str, value: str, **filters: str) -> dict[str, Any]:
        found = await self._person.rows(table, **{column: f"eq.{value}"}, **filters, removed_at="is.null")
        if not found:
            kind = table.removeprefix("workers") or "runners"
            raise StackError(f'There is no "{value}" among the {kind.replace("_", " ")} of this organisation.')
        return found[0]


def _is_id(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True
