"""The dashboard's settings, from its environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from wire import ports


@dataclass(frozen=True)
class Settings:
    """The dashboard's settings: a project's address, its public key, and where it is reached."""

    supabase_url: str
    publishable_key: str
    runner_url: str
    runner_image: str = ""
    origins: tuple[str, ...] = ()
    redis_url: str | None = None
    is_cookie_secure: bool = False
    docs_directory: Path = Path("site")
    session_directory: Path | None = None
    session_key: str = field(default="", repr=False)
    address_header: str = ""
    forwarding_key: str = field(default="", repr=False)
    request_timeout_seconds: float = 10.0
    silence_seconds: float = 4.0


def read_settings(env: Mapping[str, str] | None = None) -> Settings:
    env = os.environ if env is None else env
    url = env.get("SUPABASE_URL", "http://127.0.0.1:54321").rstrip("/")
    return Settings(
        supabase_url=url,
        publishable_key=env.get("SUPABASE_PUBLISHABLE_KEY", ""),
        # Runners may reach the project by another name than the dashboard does.
        runner_url=env.get("RUNYARD_RUNNER_URL", url).rstrip("/"),
        runner_image=env.get("RUNYARD_RUNNER_IMAGE", "").strip(),
        origins=_origins(env),
        redis_url=env.get("REFLEX_REDIS_URL") or None,
        is_cookie_secure=_is_cookie_secure(env),
        docs_directory=Path(env.get("RUNYARD_DOCS_DIRECTORY", "site")),
        session_directory=Path(env["RUNYARD_SESSION_DIRECTORY"]) if env.get("RUNYARD_SESSION_DIRECTORY") else None,
        session_key=env.get("RUNYARD_SESSION_KEY", ""),
        address_header=env.get("RUNYARD_ADDRESS_HEADER", "").strip(),
        forwarding_key=env.get("RUNYARD_FORWARDING_KEY", ""),
        silence_seconds=float(env.get("RUNYARD_SILENCE_SECONDS") or 4),
    )


def _origin(url: str) -> str:
    parts = urlsplit(url.strip())
    return f"{parts.scheme}://{parts.netloc}".lower() if parts.scheme in ("http", "https") and parts.netloc else ""


def _origins(env: Mapping[str, str]) -> tuple[str, ...]:
    """Name where the page may be opened: this machine, the address people use, and further ones."""
    port = env.get("RUNYARD_DASHBOARD_PORT") or ports.DASHBOARD
    local = [f"http://{host}:{port}" for host in ("localhost", "127.0.0.1")]
    named = [env.get("RUNYARD_DASHBOARD_URL", ""), *env.get("RUNYARD_DASHBOARD_ORIGINS", "").split(",")]
    return tuple(dict.fromkeys(local + [origin for origin in map(_origin, named) if origin]))


def _is_cookie_secure(env: Mapping[str, str]) -> bool:
    """Limit the cookie to https where the page is opened by https, unless a setting differs."""
    said = env.get("RUNYARD_COOKIE_SECURE", "")
    return said == "1" if said else env.get("RUNYARD_DASHBOARD_URL", "").strip().lower().startswith("https://")
