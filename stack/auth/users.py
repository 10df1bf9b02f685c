"""Users as the API shows them, and input checked before it reaches the database."""

import re
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg.types.json import Jsonb

from stack.auth.errors import AuthError, validation
from stack.auth.store import Row, Transaction

EMAIL = re.compile(r"[^@\s\x00-\x1f]{1,64}@[^@\s\x00-\x1f.]+(\.[^@\s\x00-\x1f.]+)*")
LONGEST_EMAIL = 255
EMAIL_METADATA = {"provider": "email", "providers": ["email"]}
DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
METADATA_LIMIT = 64 * 1024
TIMES = (
    "invited_at",
    "confirmation_sent_at",
    "recovery_sent_at",
    "email_change_sent_at",
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
    factors = await tx.all("factors_of", ids=[row["id"] for row in rows])
    by_user: dict[uuid.UUID, list[dict[str, Any]]] = {}
    for identity in identities:
        by_user.setdefault(identity["user_id"], []).append(_identity_json(identity))
    second: dict[uuid.UUID, list[dict[str, Any]]] = {}
    for factor in factors:
        second.setdefault(factor["user_id"], []).append(factor_json(factor))
    return [_user_json(row, by_user.get(row["id"], []), second.get(row["id"], [])) for row in rows]


def factor_json(row: Row) -> dict[str, Any]:
    """A second factor without its secret, which is shown once."""
    name = {"friendly_name": row["friendly_name"]} if row["friendly_name"] else {}
    return {
        "id": str(row["id"]),
        "created_at": moment(row["created_at"]),
        "updated_at": moment(row["updated_at"]),
        "status": row["status"],
        **name,
        "factor_type": row["factor_type"],
    }


def _user_json(row: Row, identities: list[dict[str, Any]], factors: list[dict[str, Any]]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": str(row["id"]),
        "aud": row["aud"],
        "role": row["role"],
        "email": row["email"] or "",
        "phone": row["phone"] or "",
    }
    if row["email_change"]:
        shown["new_email"] = row["email_change"]
    shown |= {name: moment(row[name]) for name in TIMES if row[name] is not None}
    return shown | {
        "app_metadata": row["raw_app_meta_data"] or {},
        "user_metadata": row["raw_user_meta_data"] or {},
        "identities": identities,
        **({"factors": factors} if factors else {}),
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


def clean_id(value: str, name: str = "user_id") -> uuid.UUID:
    """An id that stands in an address."""
    try:
        return uuid.UUID(value)
    except (ValueError, AttributeError, TypeError) as error:
        raise AuthError(404, "validation_failed", f"{name} must be an UUID") from error


def seconds_of(duration: str) -> float:
    """A duration as Go writes it: `1h30m`."""
    parts = DURATION.findall(duration)
    if not parts or "".join(number + unit for number, unit in parts) != duration:
        raise ValueError(f"{duration!r} is not a duration such as 1h30m")
    return sum(float(number) * SECONDS[unit] for number, unit in parts)


def ban_end(duration: Any) -> datetime | None:
    """Return the end of a ban of a Go duration; `none` lifts it."""
    if duration == "none":
        return None
    if not isinstance(duration, str) or not duration:
        raise validation("invalid format for ban duration")
    try:
        return datetime.now(UTC) + timedelta(seconds=seconds_of(duration))
    except ValueError as error:
        raise validation(f'invalid format for ban duration: time: invalid duration "{duration[:40]}"') from error
    except OverflowError as error:
        raise validation("ban duration is too long") from error


async def create_user(
    tx: Transaction, email: str, hashed: str | None, user_metadata: dict[str, Any] | None = None, **more: Any
) -> Row | None:
    """A new user with its identity; None when the address is taken."""
    user_id: uuid.UUID = more.get("id") or uuid.uuid4()
    row = await tx.one(
        "insert_user",
        id=user_id,
        role=more.get("role") or "authenticated",
        email=email,
        password=hashed,
        is_confirmed=more.get("is_confirmed", True),
        app_metadata=Jsonb({**EMAIL_METADATA, **(more.get("app_metadata") or {})}),
        user_metadata=Jsonb(user_metadata or {}),
        banned_until=more.get("banned_until"),
    )
    if row is not None:
        data = Jsonb(more.get("identity") or identity_data(user_id, email))
        await tx.do("insert_identity", user_id=user_id, provider="email", subject=str(user_id), data=data)
    return row


def identity_data(user_id: uuid.UUID, email: str) -> dict[str, Any]:
    """Return the identity as GoTrue keeps it for an address that was given, not verified."""
    return {"sub": str(user_id), "email": email, "email_verified": False, "phone_verified": False}


async def change_user(tx: Transaction, user: Row, **changes: Any) -> Row:
    """Change what is given."""
    metadata = {name: changes.get(name) for name in ("user_metadata", "app_metadata")}
    row = await tx.one(
        "update_user",
        id=user["id"],
        password=changes.get("password"),
        role=changes.get("role"),
        is_confirmed=changes.get("is_confirmed", False),
        sets_ban="banned_until" in changes,
        banned_until=changes.get("banned_until"),
        **{name: None if value is None else Jsonb(value) for name, value in metadata.items()},
    )
    return row or user


async def change_address(tx: Transaction, user: Row, email: str) -> Row:
    """Give a user another address, which must be free."""
    holder = await tx.one("user_by_email", email=email)
    if holder is not None and holder["id"] != user["id"]:
        raise AuthError(422, "email_exists", "A user with this email address has already been registered")
    await tx.do("update_identity_email", id=user["id"], email=email)
    return await tx.one("set_address", id=user["id"], email=email) or user


def is_banned(row: Row) -> bool:
    """Whether a user may not sign in now."""
    until = row["banned_until"]
    return until is not None and until > datetime.now(UTC)
