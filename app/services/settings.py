"""What the dashboard is told by its environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """The dashboard's settings: a project's address, its public key, and where it is reached."""

    supabase_url: str
    publishable_key: str
    runner_url: str
    redis_url: str | None = None
    is_cookie_secure: bool = False
    docs_directory: Path = Path("site")
    request_timeout_seconds: float = 10.0


def read_settings(env: Mapping[str, str] | None = None) -> Settings:
    """Read the settings from environment variables."""
    env = os.environ if env is None else env
    url = env.get("SUPABASE_URL", "http://127.0.0.1:54321").rstrip("/")
    return Settings(
        supabase_url=url,
        publishable_key=env.get("SUPABASE_PUBLISHABLE_KEY", ""),
        # Runners may reach the project by another name than the dashboard does.
        runner_url=env.get("RUNYARD_RUNNER_URL", url).rstrip("/"),
        redis_url=env.get("REFLEX_REDIS_URL") or None,
        is_cookie_secure=env.get("RUNYARD_COOKIE_SECURE", "") == "1",
        docs_directory=Path(env.get("RUNYARD_DOCS_DIRECTORY", "site")),
    )
