"""The one settings model; its JSON Schema is published, its reference page generated."""

import socket
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import urlsplit
from uuid import UUID

from pydantic import ConfigDict, Field, SecretStr, field_validator, model_validator

from worker.settings.base import HomePath, PassedNames, PathList, Section, WordList
from worker.settings.dispatcher import DispatcherSettings, IsolationSettings
from worker.settings.levels import LogLevelName


class UpdateSettings(Section):
    """The runner's own update, when it is requested on the runners page."""

    enabled: bool = Field(
        default=False,
        description="Replace the one-file program with a published release when an admin asks for it, and restart.",
    )
    origins: WordList = Field(
        default_factory=list,
        description="Where a release may be fetched from, as `https://github.com`, redirects included. "
        "If empty, any https address. The project's own address always counts.",
    )

    @field_validator("origins")
    @classmethod
    def check_origins(cls, values: list[str]) -> list[str]:
        """Accept https origins, without a path."""
        for value in values:
            parts = urlsplit(value)
            if parts.scheme != "https" or not parts.hostname or parts.path.strip("/") or parts.query:
                raise ValueError(f"{value!r} is not an origin such as https://github.com")
        return values


DEFAULT_HOME = "~/.runyard/runner"
# The parts that a .NET settings file may have below Logging; they are accepted, so that such a file can be kept.
OUTLETS = frozenset((
    "console", "debug", "eventsource", "eventlog", "tracesource", "applicationinsights", "azureappservicesfile",
    "azureappservicesblob", "file", "opentelemetry",
))  # fmt: skip


def default_home() -> Path:
    """Return the default working directory of the user that runs the process."""
    return Path(DEFAULT_HOME).expanduser()


class EngineSettings(Section):
    """The folders of engine binaries, and the way an engine is stopped."""

    additional_binary_paths: PathList = Field(
        default_factory=list,
        description="Directories searched for tofu, terraform, pulumi and terragrunt before PATH; a leading `~` is expanded.",
    )
    fetch_command: str = Field(
        default="",
        description="Command that installs the version of an engine that a job requires and the machine lacks, such as "
        "`runyard engines ensure {engine}`; `{engine}` becomes `tofu@1.9.1`. Empty: such jobs are not offered to the runner.",
    )
    stop_grace_seconds: float = Field(
        default=60, gt=0, description="How long an interrupted engine may take before it is killed."
    )
    pass_environment: PassedNames = Field(
        default_factory=list,
        description="Variables of the runner's environment that jobs get besides those of the known providers: names, or beginnings "
        "as `VSPHERE_*`.",
    )
    isolation: IsolationSettings = Field(default_factory=IsolationSettings)


def _entry(values: Any, name: str) -> Any:
    """Read an entry of a part without a model, however its name is spelled."""
    pairs = values.items() if isinstance(values, dict) else ()
    return next((value for key, value in pairs if str(key).lower() == name), None)


class HooksPreapprovalSettings(Section):
    """A content allow-list for hook scripts."""

    enabled: bool = Field(
        default=False, description="Refuse every hook whose SHA-256 matches no file in the directory."
    )
    preapproved_hooks_directory: HomePath = Field(
        default_factory=lambda: default_home() / "preapproved-hooks",
        description="Directory of approved scripts; names do not matter, only content.",
        json_schema_extra={"default": f"{DEFAULT_HOME}/preapproved-hooks"},
    )


class SealingSettings(Section):
    """Secrets of jobs: the keys that open sealed variables, and the vaults that jobs may refer to."""

    key_files: PathList = Field(
        default_factory=list,
        description="Files that `runyard variables create-key` wrote. The runner reads them for each job that has sealed variables; "
        "jobs do not see them while they are isolated.",
    )
    allowed_sources: WordList = Field(
        default_factory=list,
        description="References that variables may use, as patterns such as `vault://kv/data/{group}/*`, `aws-sm://eu-west-1/runyard/*` or "
        "`file:///etc/runyard/secrets/*`; `{module}` and `{group}` are paths of the job. If empty, no reference is read.",
    )


class GitSettings(Section):
    """Limits on fetching a repository."""

    timeout_seconds: float = Field(default=1800, gt=0, description="How long the fetch of one repository may take.")
    most_megabytes: int = Field(
        default=8192, ge=1, description="How much a repository may take on the disk, in MiB, with its checkout."
    )


class HooksSettings(Section):
    """Limits on hook scripts."""

    timeout_seconds: float = Field(
        default=60, gt=0, le=600, description="How long one hook may run before its job fails."
    )


class JobLogStreamSettings(Section):
    """The batches in which a job's output is sent to the project."""

    batch_size_limit: int = Field(
        default=50,
        ge=1,
        le=10_000,
        description="Most events (lines) of one batch: with so many it ships before its period is over. A burst makes several batches, "
        "which may travel in one request; past 10,000 batches of a job only their size is limited.",
    )
    eagerly_emit_first_event: bool = Field(default=True, description="Ship the first event of a fresh batch at once.")
    period_seconds: float = Field(default=5, gt=0, le=300, description="Longest time between two batches, in seconds.")


class LoggingSettings(Section):
    """The runner's own diagnostic log on stdout; job logs never go there."""

    # A .NET file also configures its own outlets; only the console's levels mean something here.
    model_config = ConfigDict(extra="allow")

    log_level: dict[str, LogLevelName] = Field(
        default_factory=lambda: {"Default": LogLevelName.INFORMATION},
        description="Category, or the beginning of one, to minimum level; the longest wins, `Default` is the rest. Libraries such "
        "as `httpx` speak below Warning only when they are named. `Console.LogLevel` wins over it.",
        json_schema_extra={"default": {"Default": "Information"}},
    )
    format: Annotated[str, Field(pattern="^(auto|json|pretty)$")] = Field(
        default="auto", description="`json`, `pretty`, or `auto`: pretty on a terminal."
    )

    @model_validator(mode="before")
    @classmethod
    def take_console(cls, values: Any) -> Any:
        """The console's own levels win, as in .NET: this log is written to stdout."""
        if not isinstance(values, dict):
            return values
        own = _entry(_entry(values, "console"), "loglevel")
        return {**values, "LogLevel": {**(values.get("LogLevel") or {}), **own}} if isinstance(own, dict) else values

    @model_validator(mode="after")
    def check_outlets(self) -> Self:
        """Name a key that is neither a setting nor one of .NET's outlets."""
        if unknown := [key for key in self.model_extra or {} if key.lower() not in OUTLETS]:
            raise ValueError(f"{', '.join(unknown)}: not a setting, nor an outlet such as Console")
        return self


class CredentialsSettings(Section):
    """A service account, the other way to a session: a secret, or a helper that fetches a token."""

    client_id: str | None = Field(
        default=None, description="The service account's client id; the organisation is added automatically."
    )
    client_secret: SecretStr | None = Field(
        default=None, description="Its secret. Keep it in the secrets directory rather than in the file."
    )
    client_secret_from: str | None = Field(
        default=None,
        description="Where the secret is read from at each sign-in: `file:PATH`, `command:…`, an address in HashiCorp Vault "
        "(`https://vault.example/v1/secret/data/runyard#client_secret`), or `aws-secretsmanager:REGION/NAME#FIELD`.",
    )
    identity_token_file: HomePath | None = Field(
        default=None, description="File with a token of an issuer that the account trusts, read at each sign-in."
    )
    helper_command_path: HomePath | None = Field(
        default=None, description="Command that prints an identity provider's token, for OIDC federation."
    )
    helper_command_args: str = Field(default="", description="Arguments of that command, shell-quoted.")
    service_account_path: str | None = Field(
        default=None, description="Its path in the runner's organisation, as `group/name`, instead of its client id."
    )


class RunnerSettings(Section):
    """The identity of this process."""

    id: UUID = Field(description="Id of the runner.")
    token: SecretStr | None = Field(default=None, min_length=1, description="The token shown once at registration.")
    token_from: str | None = Field(
        default=None, description="Where the token is read from at each sign-in, in the forms of `ClientSecretFrom`."
    )
    instance: str = Field(
        default_factory=socket.gethostname,
        min_length=1,
        max_length=100,
        pattern=r"^[A-Za-z0-9._-]+$",
        description="Name of this process, in letters, digits, dots, hyphens and underscores; distinct among replicas.",
        json_schema_extra={"default": "the host's name"},
    )
    organization_id: UUID | None = Field(
        default=None, description="Organisation that the runner must belong to; checked when it is set."
    )
    credentials: CredentialsSettings = Field(default_factory=CredentialsSettings)


class ServerSettings(Section):
    """The Supabase project that the runner works for."""

    url: str = Field(description="The project's URL, with scheme and, where needed, port.")
    service_discovery_host: str | None = Field(
        default=None, description="Host for TF_TOKEN_<host> in jobs, when it is not the URL's."
    )
    poll_seconds: float = Field(
        default=10, gt=0, le=300, description="How often to look for work while the doorbell is away."
    )
    realtime: bool = Field(default=True, description="Listen to the doorbell; polling works without it.")
    timeout_seconds: float = Field(default=30, gt=0, le=300, description="Limit of one request.")

    @field_validator("url")
    @classmethod
    def check_url(cls, value: str) -> str:
        """Accept an http(s) URL with a host, without user, query or trailing slash."""
        parts = urlsplit(value.strip())
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("must be an http:// or https:// URL, as https://abc.supabase.co")
        if parts.username or parts.query or parts.fragment:
            raise ValueError("must have no user, query or fragment")
        return value.strip().rstrip("/")

    @property
    def discovery_host(self) -> str:
        """The host that jobs know the project by."""
        return self.service_discovery_host or urlsplit(self.url).hostname or ""


class WorkingDirectorySettings(Section):
    """The folders of the runner; both paths expand a leading `~`."""

    working_directory: HomePath = Field(
        default_factory=default_home,
        description="What must outlive a job or a restart: log spools, records of attempts, state that could not be saved; "
        "must be writable. Sources and outputs of a job are in TempDirectory, and go with it.",
        json_schema_extra={"default": DEFAULT_HOME},
    )
    temp_directory: HomePath = Field(
        default_factory=lambda data: data.get("working_directory", default_home()) / ".temp",
        description="One folder for each job, with its source, its providers and its outputs, removed after it; `.temp` below "
        "the working directory.",
        json_schema_extra={"default": f"{DEFAULT_HOME}/.temp"},
    )


class MetricsSettings(Section):
    """Prometheus metrics, off unless a port is set."""

    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int | None = Field(default=None, ge=0, le=65535, description="Port; none means off.")


class ScalingSettings(Section):
    """Whether this runner also puts cloud-hosted runners to sleep and wakes them."""

    enabled: bool = Field(
        default=True, description="Decide about cloud-hosted runners whenever no other runner of the organisation does."
    )
    rehearse: bool = Field(default=False, description="Write decisions down as dry runs, and change nothing.")
    image_repository: str = Field(
        default="",
        description="Where the image of deployed runners is pulled from, without its tag: the version is the tag.",
    )
    start_patience_seconds: float = Field(
        default=600, gt=0, description="How long a deployed or updated runner may take to its first heartbeat."
    )
    poll_seconds: float = Field(
        default=10, gt=0, le=60, description="How often to decide while the organisation has cloud-hosted runners."
    )


class ExecutorSettings(Section):
    """The settings that a dispatcher gives to its executor; nobody writes them by hand."""

    job_id: int | None = Field(default=None, description="The one job to run.")
    attempt: int | None = Field(default=None, description="Its attempt.")
    token: SecretStr | None = Field(default=None, description="A credential good for this job only.")
    publishable_key: str | None = Field(default=None, description="The project's publishable key.")
    approved_hooks: WordList = Field(
        default_factory=list, description="SHA-256 of those of the job's hooks that the runner's directory approves."
    )


class Settings(Section):
    """Settings of a Runyard runner."""

    model_config = ConfigDict(title="Runyard runner settings")

    engine: EngineSettings = Field(default_factory=EngineSettings)
    hooks_preapproval: HooksPreapprovalSettings = Field(default_factory=HooksPreapprovalSettings)
    sealing: SealingSettings = Field(default_factory=SealingSettings)
    git: GitSettings = Field(default_factory=GitSettings)
    hooks: HooksSettings = Field(default_factory=HooksSettings)
    job_log_stream: JobLogStreamSettings = Field(default_factory=JobLogStreamSettings)
    logging: LoggingSettings = Field(default_factory=LoggingSettings)
    runner: RunnerSettings
    server: ServerSettings
    working_directory: WorkingDirectorySettings = Field(default_factory=WorkingDirectorySettings)
    capacity: int | None = Field(
        default=None,
        ge=1,
        le=256,
        description="Jobs at a time, if fewer than the project lets this runner do; none means as many.",
    )
    metrics: MetricsSettings = Field(default_factory=MetricsSettings)
    dispatcher: DispatcherSettings = Field(default_factory=DispatcherSettings)
    scaling: ScalingSettings = Field(default_factory=ScalingSettings)
    update: UpdateSettings = Field(default_factory=UpdateSettings)
    executor: ExecutorSettings = Field(default_factory=ExecutorSettings)
