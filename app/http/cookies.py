"""The cookie that names a session, which contains nothing else, and one with words for a page."""

from functools import lru_cache
from http.cookies import CookieError, SimpleCookie

from starlette.responses import Response

from app.project.sessions import IDLE_SECONDS

NAME = "runyard_sid"
SAID = "runyard_said"


# A header stays the same for as long as its connection, and is read with every change that a tab is shown.
@lru_cache(maxsize=2048)
def read_sid(cookie_header: str, name: str = NAME) -> str:
    """Find the session id, or another cookie, in a Cookie header; empty when there is none."""
    jar: SimpleCookie = SimpleCookie()
    try:
        jar.load(cookie_header)
    except CookieError:
        return ""
    return jar[name].value if name in jar else ""


def set_sid(response: Response, sid: str, *, is_secure: bool) -> None:
    """Give the browser its session id, out of reach of scripts and of other sites' forms."""
    response.set_cookie(NAME, sid, max_age=IDLE_SECONDS, httponly=True, samesite="lax", secure=is_secure, path="/")


def clear_sid(response: Response) -> None:
    response.delete_cookie(NAME, path="/", httponly=True, samesite="lax")
