"""Turning what a statement gave back into a response."""

from dataclasses import dataclass, field

from stack.asgi import JSON
from stack.rest.errors import RestError
from stack.rest.session import Outcome


@dataclass(slots=True)
class Response:
    """Status, body and headers."""

    status: int
    body: bytes = b""
    headers: list[tuple[str, str]] = field(default_factory=list)


def read_response(outcome: Outcome, offset: int) -> Response:
    """The answer to a read, with its place in the whole."""
    last = offset + outcome.rows - 1
    span = f"{offset}-{last}" if offset <= last else "*"
    place = ("content-range", f"{span}/{'*' if outcome.total is None else outcome.total}")
    if outcome.total is not None and offset > outcome.total:
        details = f"An offset of {offset} was requested, but there are only {outcome.total} rows."
        raise RestError(416, "PGRST103", "Requested range not satisfiable", details, None, dict([place]))
    is_part = outcome.total is not None and outcome.rows < outcome.total
    return Response(206 if is_part else 200, outcome.body, [place, ("content-type", JSON)])


def call_response(outcome: Outcome, *, is_void: bool) -> Response:
    """The answer to a call, with the status that the function set in `response.status`."""
    response = Response(204) if is_void else Response(200, outcome.body, [("content-type", JSON)])
    if outcome.status is not None:
        if not outcome.status.isdigit() or not 100 <= int(outcome.status) <= 599:
            raise RestError(500, "PGRST112", "response.status guc must be a valid status code")
        response.status = int(outcome.status)
    return response
