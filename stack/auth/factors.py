"""Second factors: an authenticator app is added, confirmed, asked for its code, and removed, as GoTrue does it."""

import hmac
import io
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import pyotp
import segno

from stack.auth.access import Answer, Request, text_of
from stack.auth.errors import AuthError, Unsupported, validation
from stack.auth.limits import Limits
from stack.auth.sealing import Seal
from stack.auth.sessions import AuthSessions, SignedIn
from stack.auth.settings import Options
from stack.auth.store import Row, Store, Transaction

DIGITS = 6
STEP_SECONDS = 30
# A clock may be this many steps off, either way.
WINDOW = 1


def new_secret() -> str:
    """A secret as apps take it: 160 bits in base 32."""
    return pyotp.random_base32()


def step_at(seconds: float) -> int:
    """The time step of a moment."""
    return int(seconds) // STEP_SECONDS


def code_of(secret: str, step: int) -> str:
    """The code of one time step."""
    return pyotp.HOTP(secret, digits=DIGITS).at(step)


def matching_step(secret: str, code: str, seconds: float) -> int | None:
    """The step that a code belongs to, near a moment; every one is compared, so that time tells nothing."""
    now, given = step_at(seconds), code.encode("utf-8", "replace")
    found = None
    for step in range(now - WINDOW, now + WINDOW + 1):
        if hmac.compare_digest(code_of(secret, step).encode(), given):
            found = step
    return found


def address_of(secret: str, issuer: str, account: str) -> str:
    """Return the otpauth address that the picture encodes."""
    query = urlencode(
        {"algorithm": "SHA1", "digits": DIGITS, "issuer": issuer, "period": STEP_SECONDS, "secret": secret},
        quote_via=quote,
    )
    return f"otpauth://totp/{quote(issuer, safe='')}:{quote(account, safe='@')}?{query}"


def picture_of(address: str) -> str:
    """The QR code as SVG; colours by name, since `#` would end it in an address."""
    drawn = io.BytesIO()
    segno.make(address, micro=False).save(drawn, kind="svg", scale=4, border=4, xmldecl=False, light="#ffffff")
    return drawn.getvalue().decode().replace("#fff", "white").replace("#000", "black").strip()


MOST_FACTORS = 10
LONGEST_NAME = 100
CHALLENGE_SECONDS = 300
VERIFIED = "verified"


@dataclass(eq=False)
class Factors:
    """The handlers below /factors."""

    store: Store
    sessions: AuthSessions
    limits: Limits
    options: Options
    seal: Seal
    now: Callable[[], float] = time.time

    async def enrol(self, request: Request) -> Answer:
        """POST /factors: a secret to put into an app; it counts once a code of it was given."""
        self.limits.requests.spend(request.client.address)
        values = request.json()
        kind = text_of(values, "factor_type")
        if kind in ("phone", "webauthn"):
            raise Unsupported(f"factors of type {kind}")
        if kind != "totp":
            raise validation("factor_type needs to be totp, phone, or webauthn")
        name, issuer = _short(values, "friendly_name"), _short(values, "issuer")
        async with self.store.transaction() as tx:
            signed_in = await self.sessions.signed_in(tx, request.token)
            await self._check_room(tx, signed_in)
            secret = new_secret()
            values = {
                "user_id": signed_in.user["id"],
                "friendly_name": name or None,
                "secret": self.seal.close(secret.encode()),
            }
            row = await tx.one("insert_factor", id=uuid.uuid4(), **values)
        if row is None:
            message = f'A factor with the friendly name "{name}" for this user already exists'
            raise AuthError(422, "mfa_factor_name_conflict", message)
        account = signed_in.user["email"] or str(signed_in.user["id"])
        enrolment = self._enrolment(secret, issuer or urlsplit(self.options.site_url).netloc, account)
        return Answer({"id": str(row["id"]), "type": "totp", "friendly_name": name, "totp": enrolment})

    @staticmethod
    def _enrolment(secret: str, issuer: str, account: str) -> dict[str, str]:
        address = address_of(secret, issuer, account)
        return {"qr_code": picture_of(address), "secret": secret, "uri": address}

    async def _check_room(self, tx: Transaction, signed_in: SignedIn) -> None:
        user_id = signed_in.user["id"]
        await tx.one("lock_user", id=user_id)
        await tx.do("drop_stale_factors", user_id=user_id)
        factors = await tx.all("factors_of", ids=[user_id])
        if len(factors) >= MOST_FACTORS:
            message = "Maximum number of enrolled factors reached, unenroll to continue"
            raise AuthError(422, "too_many_enrolled_mfa_factors", message)
        if _has_verified(factors) and not signed_in.is_second:
            raise AuthError(403, "insufficient_aal", "AAL2 required to enroll a new factor")

    async def challenge(self, request: Request, factor_id: uuid.UUID) -> Answer:
        """POST /factors/id/challenge: from now on a code may be given, for five minutes."""
        self.limits.requests.spend(request.client.address)
        async with self.store.transaction() as tx:
            signed_in = await self.sessions.signed_in(tx, request.token)
            factor = await _mine(tx, signed_in, factor_id)
            await tx.do("drop_old_challenges", factor_id=factor["id"])
            made = await tx.one("insert_challenge", id=uuid.uuid4(), factor_id=factor["id"], ip=request.client.ip)
        expires_at = int(self.now()) + CHALLENGE_SECONDS
        return Answer({"id": str(made["id"]) if made else "", "type": "totp", "expires_at": expires_at})

    async def verify(self, request: Request, factor_id: uuid.UUID) -> Answer:
        """POST /factors/id/verify: a code of the app; the session has two factors from now on."""
        self.limits.requests.spend(request.client.address)
        values = request.json()
        challenge, code = _id_of(values, "challenge_id"), text_of(values, "code") or ""
        # Counted per factor, wherever the guesses come from: a million codes are few.
        key = f"factor {factor_id}"
        self.limits.failures.check(key)
        async with self.store.transaction() as tx:
            signed_in = await self.sessions.signed_in(tx, request.token)
            factor = await _mine(tx, signed_in, factor_id)
            await _need_challenge(tx, factor, challenge)
            if await self._is_right(tx, factor, code):
                return Answer(await self._accept(tx, signed_in, factor, challenge))
        self.limits.failures.spend(key)
        raise AuthError(422, "mfa_verification_failed", "Invalid TOTP code entered")

    async def _is_right(self, tx: Transaction, factor: Row, code: str) -> bool:
        secret = self.seal.open(factor["secret"]).decode()
        step = matching_step(secret, code, self.now())
        return step is not None and await tx.one("use_step", factor_id=factor["id"], step=step) is not None

    async def _accept(self, tx: Transaction, signed_in: SignedIn, factor: Row, challenge: uuid.UUID) -> dict[str, Any]:
        await tx.do("mark_challenge_verified", id=challenge)
        await tx.do("verify_factor", id=factor["id"])
        await tx.do("drop_unverified_factors", user_id=signed_in.user["id"])
        return await self.sessions.raise_level(tx, signed_in, factor["id"])

    async def remove(self, request: Request, factor_id: uuid.UUID) -> Answer:
        """DELETE /factors/id: sessions that stood on it have one factor again."""
        async with self.store.transaction() as tx:
            signed_in = await self.sessions.signed_in(tx, request.token)
            factor = await _mine(tx, signed_in, factor_id)
            if factor["status"] == VERIFIED and not signed_in.is_second:
                raise AuthError(422, "insufficient_aal", "AAL2 required to unenroll verified factor")
            await drop_factor(tx, factor)
        return Answer({"id": str(factor_id)})


async def drop_factor(tx: Transaction, factor: Row) -> None:
    """Forget a factor, and what sessions owe to it."""
    await tx.do("forget_factor_method", factor_id=factor["id"])
    await tx.do("lower_sessions", factor_id=factor["id"])
    await tx.do("delete_factor", id=factor["id"])


async def need_second(tx: Transaction, signed_in: SignedIn) -> None:
    """Refuse a session with one factor where its owner has two: a stolen password must not become the account."""
    if not signed_in.is_second and _has_verified(await tx.all("factors_of", ids=[signed_in.user["id"]])):
        message = "AAL2 session is required to update email or password when MFA is enabled."
        raise AuthError(401, "insufficient_aal", message)


def _has_verified(factors: list[Row]) -> bool:
    return any(factor["status"] == VERIFIED for factor in factors)


async def _mine(tx: Transaction, signed_in: SignedIn, factor_id: uuid.UUID) -> Row:
    factor = await tx.one("factor_by_id", id=factor_id, user_id=signed_in.user["id"])
    if factor is None:
        raise AuthError(404, "mfa_factor_not_found", "Factor not found")
    return factor


async def _need_challenge(tx: Transaction, factor: Row, challenge: uuid.UUID) -> None:
    found = await tx.one("challenge_by_id", id=challenge, factor_id=factor["id"], seconds=CHALLENGE_SECONDS)
    if found is None:
        raise AuthError(404, "mfa_factor_not_found", "MFA factor with the provided challenge ID not found")
    if found["verified_at"] is not None or not found["is_live"]:
        message = f"MFA challenge {challenge} has expired, verify against another challenge or create a new challenge."
        raise AuthError(422, "mfa_challenge_expired", message)


def _id_of(values: dict[str, Any], name: str) -> uuid.UUID:
    try:
        return uuid.UUID(text_of(values, name) or "")
    except ValueError as error:
        raise validation(f"{name} must be an UUID") from error


def _short(values: dict[str, Any], name: str) -> str:
    text = (text_of(values, name) or "").strip()
    if len(text) > LONGEST_NAME:
        raise validation(f"{name} must have at most {LONGEST_NAME} characters")
    return text
