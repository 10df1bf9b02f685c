"""What granian runs: the gateway with the settings and secrets of this state folder."""

from starlette.types import ASGIApp

from stack.gateway import create_app
from stack.secrets import load_secrets
from stack.settings import Settings


def create() -> ASGIApp:
    """Make the application; called once in each worker process."""
    settings = Settings()
    return create_app(settings, load_secrets(settings.secrets_file))
