"""The runner's reactions to answers that are not a success."""

from collections.abc import Mapping
from typing import Any

from wire.answers import is_passing
from worker.errors import Fatal, Fenced, Locked, Rejected, Retryable, TokenExpired, WorkerError
from worker.exit_codes import ExitCode

_EXPIRED_TOKEN = frozenset({"PGRST301", "PGRST303", "UNAUTHORIZED_INVALID_JWT_FORMAT"})


def fault(status: int, body: Mapping[str, Any], headers: Mapping[str, str]) -> WorkerError:
    """Turn an error answer into the reaction that it requires."""
    code = str(body.get("code") or "")
    message = str(body.get("message") or body.get("msg") or f"The server answered {status}.")
    about: dict[str, Any] = {"code": code, "hint": str(body.get("hint") or ""), "detail": body.get("details")}
    if code == "RY401":
        return Fatal(message, exit_code=ExitCode.SESSION_ENDED, **about)
    if code == "RY410":
        return Fenced(message, **about)
    if code == "RY423":
        return Locked(message, **about)
    if code in _EXPIRED_TOKEN or (status == 401 and not code.startswith("RY")):
        return TokenExpired(message, **about)
    if is_passing(status, code):
        return Retryable(message, retry_after_seconds=_retry_after(headers), **about)
    return Rejected(message, **about)


def _retry_after(headers: Mapping[str, str]) -> float:
    try:
        return min(120.0, max(0.0, float(headers.get("retry-after", "0"))))
    except ValueError:
        return 0.0
