"""One organisation: finding what it has by the names that people use."""

import os
import uuid
from typing import Any

from cli.client.api import Api
from cli.errors import NotFound, first

Row = dict[str, Any]
LONGEST_NUMBER = 18


class Organization:
    """One organisation, as one person sees it."""

    def __init__(self, api: Api, row: Row) -> None:
        self.api = api
        self.id = str(row["id"])
        self.slug = str(row["slug"])
        self.role = str(row.get("role", ""))

    def modules(self, group: str | None = None) -> list[Row]:
        """Every module, or those at and below a group."""
        rows = self.api.all_rows("modules", **self._live(), order="path")
        if group is None:
            return rows
        return [row for row in rows if row["path"] == group or row["path"].startswith(f"{group.rstrip('/')}/")]

    def module(self, wanted: str) -> Row:
        """One module by its path or its id."""
        column = "id" if is_id(wanted) else "path"
        found = self.api.rows("modules", **{column: f"eq.{wanted.strip('/')}"}, **self._live())
        if not found:
            raise NotFound(f'There is no module "{wanted}" in {self.slug}.', self._similar(wanted))
        return found[0]

    def _similar(self, wanted: str) -> str:
        import difflib

        paths = [row["path"] for row in self.api.all_rows("modules", **self._live(), select="path", order="path")]
        near = difflib.get_close_matches(wanted, paths, 3, 0.4) or [path for path in paths if wanted in path][:3]
        return f"Did you mean {' or '.join(near)}?" if near else "`runyard modules list` shows all modules."

    def _live(self) -> dict[str, str]:
        return {"org_id": f"eq.{self.id}", "deleted_at": "is.null"}

    def run(self, number: str) -> list[Row]:
        """The jobs that share a number: the plan and the apply that follows it, or the only one."""
        text = number.removeprefix("#")
        is_number = text.isdecimal() and len(text) <= LONGEST_NUMBER
        found: list[Row] = self.api.call("job_by_number", org=self.id, number=int(text)) if is_number else []
        if not found:
            raise NotFound(f"There is no job {number} in {self.slug}.", "`runyard jobs list` shows the newest.")
        return found

    def job(self, number: str) -> Row:
        """The newest job of a number: what a decision is about."""
        return self.run(number)[-1]

    def runners(self) -> list[Row]:
        """Every runner that the organisation sees, shared ones included."""
        return self.api.all_rows("workers", **self._seen(), removed_at="is.null", order="name,id")

    def runner(self, wanted: str) -> Row:
        """One runner by its exact name or its id; the organisation's own before a shared one of the same name."""
        return self._one("workers", "runner", wanted, **self._seen(), order="is_shared")

    def account(self, wanted: str) -> Row:
        """A service account by its name, its client id or its id."""
        column = "client_id" if wanted.startswith("rysa_") else None
        return self._one("service_accounts", "service account", wanted, column, org_id=f"eq.{self.id}")

    def cloud_identity(self, wanted: str) -> Row:
        """A cloud identity by its name or its id."""
        return self._one("cloud_identities", "cloud identity", wanted, org_id=f"eq.{self.id}")

    def team(self, wanted: str) -> Row:
        """A team by its name."""
        found = self.api.rows("teams", name=f"eq.{wanted}", org_id=f"eq.{self.id}")
        return first(found, f'There is no team "{wanted}" in {self.slug}.', "`runyard teams list` shows them.")

    def member(self, wanted: str) -> Row:
        """A member by email address or id."""
        column = "user_id" if is_id(wanted) else "email"
        found = self.api.rows("memberships", **{column: f"eq.{wanted}"}, org_id=f"eq.{self.id}")
        return first(found, f"{wanted} is not a member of {self.slug}.", "`runyard members list` shows who is.")

    def _seen(self) -> dict[str, str]:
        return {"or": f"(org_id.eq.{self.id},is_shared.is.true)"}

    def _one(self, table: str, kind: str, wanted: str, column: str | None = None, **filters: str) -> Row:
        column = column or ("id" if is_id(wanted) else "name")
        found = self.api.rows(table, **{column: f"eq.{wanted}"}, **filters, removed_at="is.null")
        return first(found, f'There is no {kind} "{wanted}" in {self.slug}.')


def find_organization(api: Api, wanted: str | None) -> Organization:
    """Find an organisation by slug or id; the only one needs no name."""
    mine = api.call("my_organizations")
    wanted = wanted or os.environ.get("RUNYARD_ORGANIZATION") or None
    found = [one for one in mine if wanted is None or wanted in {one["id"], one["slug"]}]
    if len(found) != 1:
        names = ", ".join(sorted(one["slug"] for one in mine)) or "none"
        problem = "Which organisation?" if found else f"There is no organisation {wanted or 'of yours'}."
        raise NotFound(problem, f"Yours: {names}. Name one with --organization, RUNYARD_ORGANIZATION or `orgs use`.")
    return Organization(api, found[0])


def is_id(text: str) -> bool:
    """Whether it is an id and not a name."""
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True
