"""Turning what a statement gave back into a response."""

from dataclasses import dataclass, field
from urllib.parse import quote, urlencode

import orjson

from stack.asgi import JSON
from stack.rest.errors import RestError
from stack.rest.requests import Request
from stack.rest.session import Outcome

OBJECT_JSON = "application/vnd.pgrst.object+json; charset=utf-8"


@dataclass(slots=True)
class Response:
    """Status, body and headers."""

    status: int
    body: bytes = b""
    headers: list[tuple[str, str]] = field(default_factory=list)


def read_response(request: Request, outcome: Outcome, offset: int) -> Response:
    """The answer to a read, with its place in the whole."""
    status = _range_status(outcome, offset)
    headers = [("content-range", content_range(offset, offset + outcome.rows - 1, outcome.total))]
    if status == 416:
        total = outcome.total or 0
        details = f"An offset of {offset} was requested, but there are only {total} rows."
        raise RestError(416, "PGRST103", "Requested range not satisfiable", details, None, dict(headers))
    response = Response(status, outcome.body, [*headers, *_content(request)])
    return finish(request, outcome, response)


def change_response(request: Request, outcome: Outcome, status: int) -> Response:
    """The answer to an insert, update or delete."""
    prefer = request.prefer
    low, high = (0, outcome.rows - 1) if request.method == "PATCH" else (1, 0)
    headers = [("content-range", content_range(low, high, outcome.rows if prefer.is_counted else None))]
    if prefer.returning == "representation":
        response = Response(status if status != 204 else 200, outcome.body, [*headers, *_content(request)])
    else:
        response = Response(status, b"", headers)
    return finish(request, outcome, response)


def finish(request: Request, outcome: Outcome, response: Response) -> Response:
    """Apply what the database set in `response.headers` and `response.status`."""
    if request.prefer.applied:
        response.headers.append(("preference-applied", request.prefer.applied))
    if outcome.headers is not None:
        own = _own_headers(outcome.headers)
        names = {name for name, _ in own}
        response.headers = [pair for pair in response.headers if pair[0] not in names] + own
    if outcome.status is not None:
        if not outcome.status.isdigit() or not 100 <= int(outcome.status) <= 599:
            raise RestError(500, "PGRST112", "response.status guc must be a valid status code")
        response.status = int(outcome.status)
    return response


def location(table: str, row: dict[str, object]) -> tuple[str, str]:
    """The `Location` of a new row."""
    query = urlencode({name: f"eq.{value}" for name, value in row.items()})
    return ("location", f"/{quote(table)}?{query}")


def content_range(low: int, high: int, total: int | None) -> str:
    """`0-24/100`; `*` for what is empty or not known."""
    span = f"{low}-{high}" if low <= high else "*"
    return f"{span}/{'*' if total is None else total}"


def _range_status(outcome: Outcome, offset: int) -> int:
    if outcome.total is None:
        return 200
    if offset > outcome.total:
        return 416
    return 206 if outcome.rows < outcome.total else 200


def _content(request: Request) -> list[tuple[str, str]]:
    headers = [("content-type", OBJECT_JSON if request.is_single else JSON)]
    if "accept-profile" in request.headers or "content-profile" in request.headers:
        headers.append(("content-profile", request.schema))
    return headers


def _own_headers(raw: bytes) -> list[tuple[str, str]]:
    message = "response.headers guc must be a JSON array composed of objects with a single key and a string value"
    try:
        pairs = [(name, value) for item in orjson.loads(raw) for name, value in item.items()]
    except (ValueError, AttributeError, TypeError) as error:
        raise RestError(500, "PGRST111", message) from error
    if not all(isinstance(value, str) and name for name, value in pairs):
        raise RestError(500, "PGRST111", message)
    return [(name.lower(), value) for name, value in pairs]
