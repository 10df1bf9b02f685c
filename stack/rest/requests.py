"""A request as the REST service sees it, and what its headers ask for."""

from dataclasses import dataclass
from typing import Any

import orjson

from stack.auth.tokens import ApiCaller
from stack.rest.catalog import SchemaCatalog
from stack.rest.errors import RestError, Unsupported, bad_body
from stack.rest.session import Caller

SPOKEN = ("application/json", "*/*", "application/*", "application/vnd.pgrst.array+json", "application/vnd.pgrst.array")


@dataclass(frozen=True, slots=True)
class Request:
    """One request, its body read."""

    method: str
    path: str
    query_string: bytes
    headers: dict[str, str]
    body: bytes
    identity: ApiCaller
    catalog: SchemaCatalog
    schema: str
    most_rows: int | None

    @property
    def is_counted(self) -> bool:
        """Whether the client wants to know how many rows there are in all."""
        wanted = {part.strip() for part in self.headers.get("prefer", "").split(",")}
        if wanted & {"count=planned", "count=estimated"}:
            raise Unsupported("estimated counts; use count=exact")
        return "count=exact" in wanted

    def caller(self) -> Caller:
        """The request's side of the transaction."""
        return Caller(self.identity, self.catalog, self.method, f"/{self.path}", self.headers)

    def json(self) -> Any:
        """The body's JSON; only json is read."""
        kind = self.headers.get("content-type", "application/json").split(";")[0].strip().lower()
        if kind not in ("application/json", ""):
            raise Unsupported(f"bodies of type {kind}")
        try:
            return orjson.loads(self.body)
        except ValueError as error:
            raise bad_body() from error


def check_accepted(headers: dict[str, str]) -> None:
    """Refuse a request that accepts no list in JSON."""
    wanted = [part.split(";")[0].strip().lower() for part in headers.get("accept", "*/*").split(",")]
    if not set(wanted) & set(SPOKEN):
        raise Unsupported(f"answers of type {', '.join(wanted)}")


def negotiate(headers: dict[str, str], method: str, schemas: tuple[str, ...]) -> str:
    """The schema a request speaks to."""
    name = "accept-profile" if method in ("GET", "HEAD") else "content-profile"
    schema = headers.get(name, schemas[0])
    if schema not in schemas:
        hint = f"Only the following schemas are exposed: {', '.join(schemas)}"
        raise RestError(406, "PGRST106", f"Invalid schema: {schema}", None, hint)
    return schema
