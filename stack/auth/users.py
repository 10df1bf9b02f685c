"""Users as the API shows them, and input checked before it reaches the database."""

import re
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from stack.auth.errors import AuthError, validation
from stack.auth.store import Row, Transaction

EMAIL = re.compile(r"[^@\s\x00-\x1f]{1,64}@[^@\s\x00-\x1f.]+(\.[^@\s\x00-\x1f.]+)*")
LONGEST_EMAIL = 255
DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
METADATA_LIMIT = 64 * 1024
TIMES = (
    "invited_at",
    "confirmation_sent_at",
    "recovery_sent_at",
    "email_confirmed_at",
    "phone_confirmed_at",
    "confirmed_at",
    "last_sign_in_at",
    "banned_until",
    "deleted_at",
)


def moment(value: datetime | None) -> str | None:
    """A time as Go's JSON has it."""
    return None if value is None else value.astimezone(UTC).isoformat().replace("+00:00", "Z")


async def user_json(tx: Transaction, row: Row) -> dict[str, Any]:
    """One user with its identities."""
    return (await users_json(tx, [row]))[0]


async def users_json(tx: Transaction, rows: list[Row]) -> list[dict[str, Any]]:
    """Users with their identities."""
    identities = await tx.all("identities_of", ids=[row["id"] for row in rows])
    by_user: dict[uuid.UUID, list[dict[str, Any]]] = {}
    for identity in identities:
        by_user.setdefault(identity["user_id"], []).append(_identity_json(identity))
    return [_user_json(row, by_user.get(row["id"], [])) for row in rows]


def _user_json(row: Row, identities: list[dict[str, Any]]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": str(row["id"]),
        "aud": row["aud"],
        "role": row["role"],
        "email": row["email"] or "",
        "phone": row["phone"] or "",
    }
    shown |= {name: moment(row[name]) for name in TIMES if row[name] is not None}
    return shown | {
        "app_metadata": row["raw_app_meta_data"] or {},
        "user_metadata": row["raw_user_meta_data"] or {},
        "identities": identities,
        "created_at": moment(row["created_at"]),
        "updated_at": moment(row["updated_at"]),
        "is_anonymous": row["is_anonymous"],
    }


def _identity_json(row: Row) -> dict[str, Any]:
    return {
        "identity_id": str(row["id"]),
        "id": row["provider_id"],
        "user_id": str(row["user_id"]),
        "identity_data": row["identity_data"],
        "provider": row["provider"],
        "last_sign_in_at": moment(row["last_sign_in_at"]),
        "created_at": moment(row["created_at"]),
        "updated_at": moment(row["updated_at"]),
        "email": row["email"],
    }


def clean_email(value: Any) -> str:
    """An address in lower case, or a refusal."""
    if not isinstance(value, str) or not value.strip():
        raise validation("An email address is required")
    email = value.strip().lower()
    if len(email) > LONGEST_EMAIL or not EMAIL.fullmatch(email):
        raise AuthError(400, "validation_failed", "Unable to validate email address: invalid format")
    return email


def clean_metadata(value: Any, name: str) -> dict[str, Any] | None:
    """A JSON object of reasonable size, or None where there is none."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise validation(f"{name} must be a JSON object")
    text = repr(value)
    if len(text) > METADATA_LIMIT:
        raise validation(f"{name} is too large")
    if "\\x00" in text:
        raise validation(f"{name} must not contain a NUL character")
    return value


def clean_id(value: str) -> uuid.UUID:
    """A user's id."""
    try:
        return uuid.UUID(value)
    except (ValueError, AttributeError, TypeError) as error:
        raise AuthError(404, "validation_failed", "user_id must be an UUID") from error


def ban_end(duration: Any) -> datetime | None:
    """When a ban of a Go duration ends; `none` lifts it."""
    if duration == "none":
        return None
    if not isinstance(duration, str) or not duration:
        raise validation("invalid format for ban duration")
    parts = DURATION.findall(duration)
    if "".join(number + unit for number, unit in parts) != duration:
        raise validation(f'invalid format for ban duration: time: invalid duration "{duration[:40]}"')
    seconds = sum(float(number) * SECONDS[unit] for number, unit in parts)
    try:
        return datetime.now(UTC) + timedelta(seconds=seconds)
    except OverflowError as error:
        raise validation("ban duration is too long") from error


def is_banned(row: Row) -> bool:
    """Whether a user may not sign in now."""
    until = row["banned_until"]
    return until is not None and until > datetime.now(UTC)
