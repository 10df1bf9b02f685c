"""The settings of the embedded stack: its addresses, and the folders of its files."""

import os
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

from pydantic import AliasChoices, Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from stack.auth.settings import SignUp
from wire import ports

PROJECT = Path(__file__).resolve().parent.parent
# A wheel has no clone around it: it brings supabase/ along, and keeps its state where programs do.
BUNDLE = Path(__file__).resolve().parent / "bundle"


def default_project() -> Path:
    """The folder that holds supabase/: the wheel's own copy, else the clone."""
    return BUNDLE if BUNDLE.is_dir() else PROJECT


def default_home() -> Path:
    """The state folder: in the clone, or in the user's own place for data."""
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return data / "runyard" if BUNDLE.is_dir() else PROJECT / ".runyard"


def command(name: str) -> str:
    """Return a command as a person here types it: a clone has a Makefile, an installed `runyard` has none."""
    return f"runyard {name}" if BUNDLE.is_dir() else f"make {name}"


class Settings(BaseSettings):
    """Read from `RUNYARD_*` variables; the defaults suit one clone on one machine."""

    model_config = SettingsConfigDict(env_prefix="RUNYARD_", frozen=True)

    home: Path = Field(default_factory=default_home, description="State folder: data, secrets, logs")
    project: Path = Field(default_factory=default_project, description="Folder that holds supabase/")
    host: str = Field(default="127.0.0.1", description="Address the gateway and the dashboard listen on")
    port_offset: int = Field(default=0, ge=0, le=10000, description="Added to every port")
    gateway_base: int = Field(default=54321, description="Port of the Supabase API")
    postgres_base: int = Field(default=54322, description="Port of PostgreSQL")
    functions_base: int = Field(default=54325, description="Loopback port of the edge functions")
    dashboard_base: int = Field(default=ports.DASHBOARD, description="Port of the dashboard")
    dashboard_address: str = Field(
        default="",
        validation_alias=AliasChoices("dashboard_address", "RUNYARD_DASHBOARD_URL"),
        description="Address people open the dashboard by, if not this machine's own",
    )
    sign_up: SignUp = Field(
        default=SignUp.INVITE, description="Who can create an account after the first one: `invite` or `open`"
    )
    public_url: str = Field(default="", description="Address others reach the API by, if not the loopback one")
    identity_issuer: str = Field(
        default="", description="Address clouds know this installation by as an OIDC issuer, if not the API's own"
    )
    pg_bin: Path | None = Field(default=None, description="bin folder of another PostgreSQL 15 or later")
    pg_user: str = Field(default="nobody", description="Account PostgreSQL runs as when started by root")
    pg_fsync: bool = Field(default=True, description="Off only for throw-away databases, such as tests")
    functions_allow_net: Annotated[list[str], NoDecode] = Field(
        default=[],
        description="Hosts inside this network that the edge functions may call as identity providers; comma-separated",
    )
    dns_url: str = Field(
        default="", description="DNS over HTTPS (JSON) that proves domains, if not cloudflare-dns.com/dns-query"
    )
    allow_private_receivers: bool = Field(
        default=False, description="Whether notifications may go to addresses inside this network, and without TLS"
    )
    address_header: str = Field(
        default="", description="Header in which a proxy before the API and the dashboard says who is connected"
    )
    cache: Path | None = Field(default=None, description="Folder for what every clone can share: packages, engines")
    pg_max_connections: int = Field(default=100, description="PostgreSQL's max_connections")
    password_rounds: int = Field(default=10, ge=4, le=16, description="Cost of a password's hash; less only in tests")

    @field_validator("functions_allow_net", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        """Deno's own form, and what a person types: `a.example,b.example`."""
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value

    @field_validator("home", "project", "pg_bin", "cache")
    @classmethod
    def _make_absolute(cls, path: Path | None) -> Path | None:
        """The parts run in folders of their own, so a relative path would mean another place to each."""
        return None if path is None else Path(os.path.abspath(path.expanduser()))  # noqa: PTH100 - keeps symlinks

    @property
    def gateway_port(self) -> int:
        """Port of the Supabase API."""
        return self.gateway_base + self.port_offset

    @property
    def postgres_port(self) -> int:
        """Port of PostgreSQL, on the loopback address only."""
        return self.postgres_base + self.port_offset

    @property
    def functions_port(self) -> int:
        """Port of the Deno process, on the loopback address only."""
        return self.functions_base + self.port_offset

    @property
    def dashboard_port(self) -> int:
        """Port of the dashboard."""
        return self.dashboard_base + self.port_offset

    @property
    def url(self) -> str:
        """`SUPABASE_URL`, as clients use it."""
        return self.public_url.rstrip("/") or f"http://127.0.0.1:{self.gateway_port}"

    @property
    def auth_issuer(self) -> str:
        """The `iss` claim of access tokens."""
        return f"{self.url}/auth/v1"

    @property
    def functions_url(self) -> str:
        """The address at which the gateway reaches the edge functions."""
        return f"http://127.0.0.1:{self.functions_port}"

    @property
    def dashboard_url(self) -> str:
        """The address that a person opens."""
        return self.dashboard_address.rstrip("/") or self.dashboard_local_url

    @property
    def dashboard_local_url(self) -> str:
        """The dashboard's address on this machine."""
        return f"http://localhost:{self.dashboard_port}"

    @property
    def supabase_folder(self) -> Path:
        """The folder in the supabase CLI's own layout."""
        return self.project / "supabase"

    @property
    def cache_folder(self) -> Path:
        """The folder for downloads, outside the clone, so that a second clone finds them."""
        return self.cache or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "runyard"

    @property
    def secrets_file(self) -> Path:
        """The generated secrets, readable by the owner only."""
        return self.home / "secrets.json"

    @property
    def identity_keys_file(self) -> Path:
        """The keys that sign identities of jobs: the first signs, all are published."""
        return self.home / "identity-keys.json"

    @property
    def demo_file(self) -> Path:
        """The tokens of the demo's runners."""
        return self.home / "demo.json"

    @property
    def private_files(self) -> tuple[Path, ...]:
        """The files that a backup must include beside the database."""
        return (self.secrets_file, self.identity_keys_file, self.demo_file)

    @property
    def run_folder(self) -> Path:
        """Process ids and the supervisor's lock."""
        return self.home / "run"

    @property
    def log_folder(self) -> Path:
        """One log file per part."""
        return self.home / "logs"

    def database_url(self, role: str, password: str, database: str = "postgres") -> str:
        """A libpq URL for one login role."""
        return f"postgresql://{role}:{quote(password, safe='')}@127.0.0.1:{self.postgres_port}/{database}"
