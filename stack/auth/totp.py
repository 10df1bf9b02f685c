"""Time-based one-time passwords (RFC 6238), as authenticator apps make them: SHA-1, six digits, thirty seconds."""

import hmac
import io
from urllib.parse import quote, urlencode

import pyotp
import segno

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
