"""The dashboard's addresses, and the folders of its builds, from the variables that the embedded stack reads."""

import os
from pathlib import Path

from pydantic import AliasChoices, Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from cli.folders import cache_folder, default_home
from wire import ports


class DashboardSettings(BaseSettings):
    """Read from `RUNYARD_*` variables; the defaults suit one clone on one machine."""

    model_config = SettingsConfigDict(env_prefix="RUNYARD_", frozen=True)

    home: Path = Field(default_factory=default_home, description="Folder for what was built")
    host: str = Field(default="127.0.0.1", description="Address the dashboard listens on")
    port_offset: int = Field(default=0, ge=0, le=10000, description="Added to every port")
    dashboard_base: int = Field(default=ports.DASHBOARD, description="Port of the dashboard")
    dashboard_address: str = Field(
        default="",
        validation_alias=AliasChoices("dashboard_address", "RUNYARD_DASHBOARD_URL"),
        description="Address people open the dashboard by, if not this machine's own",
    )

    @field_validator("home")
    @classmethod
    def _make_absolute(cls, path: Path) -> Path:
        return Path(os.path.abspath(path.expanduser()))  # noqa: PTH100 - keeps symlinks

    @property
    def dashboard_port(self) -> int:
        """Port of the dashboard."""
        return self.dashboard_base + self.port_offset

    @property
    def dashboard_url(self) -> str:
        """The address that a person opens."""
        return self.dashboard_address.rstrip("/") or self.dashboard_local_url

    @property
    def dashboard_local_url(self) -> str:
        """The dashboard's address on this machine."""
        return f"http://localhost:{self.dashboard_port}"

    @property
    def cache_folder(self) -> Path:
        """The folder that keeps built pages for other clones."""
        return cache_folder()
