"""A request as the REST service sees it, and what its headers ask for."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

from stack.auth.tokens import ApiCaller
from stack.rest.catalog import SchemaCatalog
from stack.rest.errors import RestError, Unsupported, bad_body
from stack.rest.prefer import Prefer, parse_prefer
from stack.rest.query import Slice
from stack.rest.reading import Shape
from stack.rest.session import Caller

OBJECT = "application/vnd.pgrst.object"
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
    def prefer(self) -> Prefer:
        """The `Prefer` header."""
        return parse_prefer(self.headers.get("prefer", ""))

    @property
    def is_single(self) -> bool:
        """Whether the client requests one object."""
        return wants_object(self.headers.get("accept", "*/*"))

    @property
    def shape(self) -> Shape:
        """The shape of the answer that this request wants."""
        return Shape(self.is_single, self.prefer.is_counted, self.most_rows)

    def caller(self) -> Caller:
        """The request's side of the transaction."""
        return Caller(self.identity, self.catalog, self.method, f"/{self.path}", self.headers)

    def json(self) -> Any:
        """The body's JSON; only json is read."""
        kind = self.headers.get("content-type", "application/json").split(";")[0].strip().lower()
        if kind not in ("application/json", OBJECT, OBJECT + "+json", "application/vnd.pgrst.array+json", ""):
            if kind in (
                "text/csv",
                "application/x-www-form-urlencoded",
                "text/plain",
                "application/octet-stream",
                "text/xml",
            ):
                raise Unsupported(f"bodies of type {kind}")
            raise bad_body(f"Content-Type not acceptable: {kind}")
        try:
            return orjson.loads(self.body)
        except ValueError as error:
            raise bad_body() from error


@lru_cache(maxsize=256)
def wants_object(accept: str) -> bool:
    """Whether the `Accept` header requests one object; refuses unknown media types."""
    wanted = [part.split(";")[0].strip().lower() for part in accept.split(",")]
    for kind in wanted:
        if kind in (OBJECT, OBJECT + "+json"):
            if "nulls=stripped" in accept:
                raise Unsupported("`nulls=stripped`")
            return True
        if kind in SPOKEN:
            return False
        if kind.startswith("application/vnd.pgrst.plan"):
            raise Unsupported("execution plans (`explain`)")
        if kind in ("text/csv", "application/geo+json", "application/openapi+json"):
            raise Unsupported(f"answers of type {kind}")
    raise RestError(406, "PGRST107", f"None of these media types are available: {', '.join(wanted)}")


def negotiate(headers: dict[str, str], method: str, schemas: tuple[str, ...]) -> str:
    """The schema a request speaks to."""
    name = "accept-profile" if method in ("GET", "HEAD") else "content-profile"
    schema = headers.get(name, schemas[0])
    if schema not in schemas:
        hint = f"Only the following schemas are exposed: {', '.join(schemas)}"
        raise RestError(406, "PGRST106", f"Invalid schema: {schema}", None, hint)
    return schema


def apply_range(headers: dict[str, str], narrowed: Slice) -> None:
    """Narrow by the `Range` header, within what limit and offset already say."""
    text = headers.get("range", "")
    low, dash, high = text.removeprefix("items=").partition("-")
    if not dash or not low.isdecimal() or not (high.isdecimal() or not high):
        return
    first = int(low)
    if high and int(high) < first:
        details = "The lower boundary must be lower than or equal to the upper boundary in the Range header."
        raise RestError(416, "PGRST103", "Requested range not satisfiable", details)
    narrowed.offset = max(narrowed.offset, first)
    if high:
        count = int(high) - first + 1
        narrowed.limit = count if narrowed.limit is None else min(narrowed.limit, count)
