"""Errors as PostgREST forms them: a status and `{code, message, details, hint}`."""

from typing import Any

import orjson

from stack.rest.pool import DatabaseError

EXACT = {
    "21000": 500,
    "23503": 409,
    "23505": 409,
    "25006": 405,
    "42883": 404,
    "42P01": 404,
    "42P17": 500,
    "53400": 500,
    "57P01": 503,
    "P0001": 400,
}
BY_CLASS = {
    "08": 503,
    "53": 503,
    "0L": 403,
    "0P": 403,
    "28": 403,
    **dict.fromkeys(("09", "25", "2D", "38", "39", "3B", "40", "54", "55", "57", "58", "F0", "HV", "P0", "XX"), 500),
}


class RestError(Exception):
    """An answer that is not the one asked for."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        details: Any = None,
        hint: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.details = details
        self.hint = hint
        self.headers = headers or {}

    def body(self) -> bytes:
        """The error's JSON."""
        return orjson.dumps({"code": self.code, "message": self.message, "details": self.details, "hint": self.hint})


class Unsupported(RestError):
    """PostgREST speaks it and this slice does not."""

    def __init__(self, feature: str) -> None:
        super().__init__(
            501,
            "PGRST127",
            "Feature not implemented",
            f"The embedded stack does not speak {feature}.",
            "Hosted Supabase and `supabase start` do: point SUPABASE_URL there.",
        )


def bad_query(message: str, details: str) -> RestError:
    """A query string that cannot be parsed."""
    return RestError(400, "PGRST100", message, details)


def bad_body(message: str = "Empty or invalid json") -> RestError:
    """A body that cannot be used."""
    return RestError(400, "PGRST102", message)


def from_database(error: DatabaseError, is_anonymous: bool) -> RestError:
    """Return the error with which PostgREST answers when PostgreSQL refuses."""
    if error.code == "PGRST":
        return _raised(error)
    status = _status(error, is_anonymous)
    headers = {}
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    return RestError(status, error.code, error.message, error.details, error.hint, headers)


def _status(error: DatabaseError, is_anonymous: bool) -> int:
    code, message = error.code, error.message
    if code in EXACT:
        return EXACT[code]
    if code == "42501":
        return 401 if is_anonymous else 403
    if code == "22023" and message.startswith("role") and message.endswith("does not exist"):
        return 401
    if code.startswith("PT"):
        return int(code[2:]) if code[2:].isdecimal() and 100 <= int(code[2:]) <= 599 else 500
    return BY_CLASS.get(code[:2], 400)


def _raised(error: DatabaseError) -> RestError:
    """`raise sqlstate 'PGRST'`: message and detail carry the whole answer as JSON."""
    try:
        message, detail = orjson.loads(error.message), orjson.loads(error.details or "")
        code, text, status = str(message["code"]), str(message["message"]), int(detail["status"])
        headers = {str(name).lower(): str(value) for name, value in detail["headers"].items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        details = f"Invalid JSON value for MESSAGE or DETAIL: '{error.message}', '{error.details}'"
        hint = "MESSAGE must be a JSON object with 'code' and 'message', DETAIL one with 'status' and 'headers'."
        return RestError(500, "PGRST121", "Could not parse JSON in the \"RAISE SQLSTATE 'PGRST'\" error", details, hint)
    return RestError(status, code, text, message.get("details"), message.get("hint"), headers)
