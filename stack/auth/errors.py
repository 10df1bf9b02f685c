"""Errors as Supabase Auth forms them, in its older and its newer shape."""

from math import ceil
from typing import Any

import orjson

API_VERSION = "2024-01-01"


class AuthError(Exception):
    """A refusal with a status, a code clients switch on, and a sentence."""

    def __init__(self, status: int, code: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.more = more

    def body(self, api_version: str) -> bytes:
        """The JSON: since 2024-01-01 the code is the string, before it was the status."""
        if api_version >= API_VERSION:
            return orjson.dumps({"code": self.code, "message": self.message, **self.more})
        return orjson.dumps({"code": self.status, "error_code": self.code, "msg": self.message, **self.more})


class Unsupported(AuthError):
    """Supabase Auth speaks it and this slice does not."""

    def __init__(self, feature: str) -> None:
        super().__init__(
            501,
            "not_implemented",
            f"The embedded stack does not speak {feature}. Hosted Supabase and `supabase start` do.",
        )


def validation(message: str) -> AuthError:
    """Input that cannot be used."""
    return AuthError(400, "validation_failed", message)


def invalid_credentials() -> AuthError:
    """The same words whether the address or the password is wrong."""
    return AuthError(400, "invalid_credentials", "Invalid login credentials")


def too_many(seconds: float = 1) -> AuthError:
    """A limit was reached; the same whether the account exists or not."""
    wait = ceil(seconds)
    message = f"Too many attempts. Try again in {wait} {'second' if wait == 1 else 'seconds'}."
    return AuthError(429, "over_request_rate_limit", message, retry_after=wait)


def too_many_mails(seconds: float) -> AuthError:
    """A mail to the same address was requested just now."""
    message = f"For security purposes, you can only request this after {seconds:.0f} seconds."
    return AuthError(429, "over_email_send_rate_limit", message)


def user_not_found() -> AuthError:
    """An administrator asked for a user there is not."""
    return AuthError(404, "user_not_found", "User not found")
