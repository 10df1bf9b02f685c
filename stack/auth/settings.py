"""The options of a project and of an installation for accounts."""

from dataclasses import dataclass
from enum import StrEnum


class SignUp(StrEnum):
    """The people who can create an account: anybody, or those who are invited. The first account is the installation's either way."""

    OPEN = "open"
    INVITE = "invite"


@dataclass(frozen=True)
class Options:
    """`supabase/config.toml`, and `RUNYARD_SIGN_UP`."""

    can_sign_up: bool = True
    site_url: str = "http://localhost:3000"
    redirect_urls: tuple[str, ...] = ()
    confirms_twice: bool = True
    mail_seconds: float = 60
    sign_up: SignUp = SignUp.INVITE
