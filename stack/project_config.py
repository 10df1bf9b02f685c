"""The API's settings from `supabase/config.toml`, with hosted's defaults."""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from stack.auth.options import Options
from stack.auth.users import seconds_of


@dataclass(frozen=True)
class ProjectConfig:
    """The settings of one project."""

    schemas: tuple[str, ...] = ("public",)
    most_rows: int = 1000
    access_seconds: int = 3600
    reuse_seconds: int = 10
    shortest_password: int = 6
    auth: Options = field(default_factory=Options)


def read_project(path: Path) -> ProjectConfig:
    """Read the file if there is one."""
    if not path.exists():
        return ProjectConfig()
    found = tomllib.loads(path.read_text())
    api, auth = found.get("api", {}), found.get("auth", {})
    mail = auth.get("email", {})
    can_sign_up = auth.get("enable_signup", True) and mail.get("enable_signup", True)
    return ProjectConfig(
        schemas=tuple(api.get("schemas", ("public",))),
        most_rows=api.get("max_rows", 1000),
        access_seconds=auth.get("jwt_expiry", 3600),
        reuse_seconds=auth.get("refresh_token_reuse_interval", 10),
        shortest_password=auth.get("minimum_password_length", 6),
        auth=Options(
            can_sign_up,
            auth.get("site_url", "http://localhost:3000"),
            tuple(auth.get("additional_redirect_urls", ())),
            confirms_twice=mail.get("double_confirm_changes", True),
            mail_seconds=max(1.0, seconds_of(mail.get("max_frequency", "60s"))),
        ),
    )
