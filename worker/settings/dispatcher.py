"""The place of jobs: here or in an executor in Docker, Kubernetes or ECS, and how they are isolated."""

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, SecretStr, field_validator, model_validator

from worker.settings import base
from worker.settings.base import Section, Word, WordList, WordMap


class IsolationMode(StrEnum):
    """The reaction on a machine that cannot isolate a job."""

    REQUIRED = "required"
    AUTO = "auto"
    OFF = "off"


class IsolationWay(StrEnum):
    """The ways to shut a job in, the preferred one first."""

    BUBBLEWRAP = "bubblewrap"
    NAMESPACES = "namespaces"
    USER = "user"
    LANDLOCK = "landlock"


class IsolationSettings(Section):
    """A sandbox of its own for every process of a job: what it may see besides the system, its engine and its folder."""

    mode: IsolationMode = Field(
        default=IsolationMode.AUTO,
        description="`required`: do not start where jobs cannot be isolated; `auto`: as far as the machine allows; `off`: never. "
        "A shared runner starts only where jobs are isolated, or with a dispatcher.",
    )
    ways: Annotated[list[IsolationWay], BeforeValidator(base.split_words)] = Field(
        default_factory=lambda: list(IsolationWay),
        description="What to try, in this order: bubblewrap, the kernel's namespaces, as root a user for each job, Landlock "
        "(which leaves sockets of the runner's user in reach, so it is not enough for `required`).",
        json_schema_extra={"default": [way.value for way in IsolationWay]},
    )
    read_only_paths: base.PathList = Field(
        default_factory=list,
        description="What jobs may read besides: credentials such as `~/.aws`, mirrors, folders that modules are copied from.",
    )
    writable_paths: base.PathList = Field(default_factory=list, description="What jobs may change besides.")

    @field_validator("read_only_paths", "writable_paths")
    @classmethod
    def _whole_machine(cls, value: list[Path]) -> list[Path]:
        if any(not path.is_absolute() or path == Path("/") for path in value):
            raise ValueError("must be absolute paths, and not the whole machine")
        return value


UNITS = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
PATTERN = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b|i)?\s*$", re.IGNORECASE)

VARIABLE_PREFIX = "RUNYARD_JOB_DISPATCHER_"
DOCKER_SCHEMES = ("unix", "tcp", "http", "https", "npipe")


class DispatcherType(Word):
    """The dispatchers that exist."""

    LOCAL = "local"
    DOCKER = "docker"
    KUBERNETES = "kubernetes"
    ECS = "ecs"


class LaunchType(Word):
    """The launch type of the executor's task in ECS."""

    EC2 = "ec2"
    FARGATE = "fargate"


class AuthType(Word):
    """The way to reach the Kubernetes API."""

    EKS_IAM = "eks_iam"
    IN_CLUSTER = "in_cluster"
    KUBECONFIG = "kubeconfig"


class PullPolicy(Word):
    """When the cluster's nodes fetch the image, in Kubernetes' own words."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


NEEDED: dict[DispatcherType, tuple[str, ...]] = {
    DispatcherType.LOCAL: (),
    DispatcherType.DOCKER: ("image",),
    DispatcherType.KUBERNETES: ("image",),
    DispatcherType.ECS: ("task_definition", "cluster"),
}


class DispatcherData(Section):
    """The dispatcher's own variables; which are needed depends on the type."""

    api_url: str | None = Field(
        default=None, description="URL by which executors reach the project, when it is not Server.Url."
    )
    environment: WordMap = Field(
        default_factory=dict,
        description="More variables for executors, as `NAME=value,…` or a JSON object. They are not secrets: anyone who can see "
        "a container or pod may read them.",
    )
    pass_environment: base.PassedNames = Field(
        default_factory=list,
        description="Variables of the runner's own environment that executors get, too: names, or beginnings as `AWS_*`. "
        "None by default.",
    )
    engines: WordMap = Field(
        default_factory=dict,
        description="Engines of the executors' image with their versions, as `tofu=1.12.6,…`: the runner gets no jobs for others. "
        "docker: read off the image's label `runyard.dev/engines` where it is not set.",
    )
    task_definition: str | None = Field(default=None, description="ecs: ARN of the executor's definition.")
    task_role_arn: str | None = Field(
        default=None, description="ecs: role of the executors, when it is not the definition's."
    )
    region: str | None = Field(default=None, description="ecs, kubernetes with eks_iam: AWS region.")
    cluster: str | None = Field(default=None, description="ecs: name or ARN of the cluster.")
    subnets: WordList = Field(default_factory=list, description="ecs: subnets, comma-separated; needed with fargate.")
    security_groups: WordList = Field(default_factory=list, description="ecs: security groups, comma-separated.")
    assign_public_ip: bool = Field(default=False, description="ecs with fargate: give the task a public address.")
    launch_type: LaunchType = Field(default=LaunchType.FARGATE, description="ecs: `ec2` or `fargate`.")
    container_name: str = Field(default="executor", description="ecs: the definition's container to run.")
    auth_type: AuthType | None = Field(
        default=None, description="kubernetes: `eks_iam`; otherwise in-cluster, then kubeconfig."
    )
    eks_cluster: str | None = Field(default=None, description="kubernetes with eks_iam: cluster name.")
    namespace: str = Field(default="default", description="kubernetes: namespace of the executors.")
    service_account_name: str | None = Field(
        default=None, description="kubernetes: service account of the executors' pods, whose token they then have."
    )
    node_selector: WordMap = Field(
        default_factory=dict, description="kubernetes: labels of the nodes, as `name=value,…` or a JSON object."
    )
    tolerations: base.ObjectList = Field(
        default_factory=list, description="kubernetes: tolerations, as JSON in Kubernetes' own words."
    )
    environment_secrets: WordList = Field(
        default_factory=list, description="kubernetes: secrets whose keys executors get as variables, comma-separated."
    )
    volumes: base.ObjectList = Field(
        default_factory=list, description="kubernetes: volumes of the pod, as JSON in Kubernetes' own words."
    )
    volume_mounts: base.ObjectList = Field(
        default_factory=list, description="kubernetes: where the executor sees them, as JSON in Kubernetes' own words."
    )
    pull_policy: PullPolicy | None = Field(
        default=None, description="kubernetes: `Always`, `IfNotPresent` or `Never`; otherwise as the cluster does."
    )
    start_seconds: float = Field(
        default=300, gt=0, le=3600, description="kubernetes: how long a pod may take until its executor runs."
    )
    memory_request: str | None = Field(default=None, description="kubernetes: memory request, as `256Mi`.")
    memory_limit: str | None = Field(
        default=None, description="kubernetes, docker: memory limit, as `512Mi` or `42 MB`."
    )
    image: str | None = Field(default=None, description="docker, kubernetes: image of the executor.")
    host: str | None = Field(default=None, description="docker: client host, as unix:///… or tcp://….")
    local_image: bool = Field(default=False, description="docker: the image is local, do not pull it.")
    extra_hosts: WordList = Field(
        default_factory=list, description="docker: extra `name:address` hosts, comma-separated."
    )
    bind_path: base.BindList = Field(
        default_factory=list,
        description="docker: volume bindings, as `/host:/inside` or `/host:/inside:ro`, comma-separated.",
    )
    registry_username: str | None = Field(default=None, description="docker: user of the registry.")
    registry_password: SecretStr | None = Field(default=None, description="docker: password for it.")

    @field_validator("memory_request", "memory_limit")
    @classmethod
    def check_memory(cls, value: str | None) -> str | None:
        """Refuse a wrong amount, before a job finds out."""
        if value:
            parse_bytes(value)
        return value

    @field_validator("api_url")
    @classmethod
    def check_api_url(cls, value: str | None) -> str | None:
        """Accept an http(s) URL with a host."""
        if value and (urlsplit(value).scheme not in {"http", "https"} or not urlsplit(value).hostname):
            raise ValueError("must be an http:// or https:// URL, as https://abc.supabase.co")
        return value

    @field_validator("host")
    @classmethod
    def check_host(cls, value: str | None) -> str | None:
        """Accept what Docker's own command accepts."""
        if value and urlsplit(value).scheme not in DOCKER_SCHEMES:
            raise ValueError("must begin with unix:// or tcp://, as unix:///var/run/docker.sock")
        return value

    @field_validator("extra_hosts")
    @classmethod
    def check_hosts(cls, value: list[str]) -> list[str]:
        """Refuse a host without an address."""
        if wrong := [host for host in value if not all(host.partition(":")[::2])]:
            raise ValueError(f"{wrong[0]!r} is not name:address, as db:10.0.0.5")
        return value

    @field_validator("bind_path")
    @classmethod
    def check_binds(cls, value: list[str]) -> list[str]:
        """Refuse a binding without a place inside."""
        if wrong := [
            bind for bind in value if len(parts := bind.split(":")) not in {2, 3} or not parts[1].startswith("/")
        ]:
            raise ValueError(f"{wrong[0]!r} is not /host:/inside or /host:/inside:ro")
        return value

    @field_validator("environment")
    @classmethod
    def check_environment(cls, value: dict[str, str]) -> dict[str, str]:
        """Refuse what the runner itself tells an executor."""
        if wrong := [name for name in value if name.upper().startswith(("WORKER_", "SUPABASE_", "RUNYARD_"))]:
            raise ValueError(f"{wrong[0]} is what the runner itself tells an executor")
        return value


class DispatcherSettings(Section):
    """The way jobs are started: `local` runs them inside the runner's own process."""

    type: DispatcherType = Field(default=DispatcherType.LOCAL, description="`local`, `docker`, `kubernetes` or `ecs`.")
    data: DispatcherData = Field(default_factory=DispatcherData)

    @property
    def is_remote(self) -> bool:
        """Whether every job runs in a container of its own."""
        return self.type is not DispatcherType.LOCAL

    @model_validator(mode="after")
    def check_needed(self) -> Self:
        """Refuse a type whose needed variables are absent, naming all of them."""
        needed = list(NEEDED[self.type])
        if self.data.auth_type is AuthType.EKS_IAM:
            needed += ["region", "eks_cluster"]
        if self.type is DispatcherType.ECS and self.data.launch_type is LaunchType.FARGATE:
            needed.append("subnets")
        if self.data.registry_username or self.data.registry_password:
            needed += ["registry_username", "registry_password"]
        missing = [name for name in needed if not getattr(self.data, name)]
        if missing:
            names = ", ".join(f"{VARIABLE_PREFIX}DATA_{name.upper()}" for name in missing)
            raise ValueError(f"dispatcher type {self.type.value} also needs {names}")
        return self


def parse_bytes(text: str) -> int:
    """Return the bytes of `42 MB`, `512Mi` or `1073741824`; Docker counts in powers of 1024, so do we."""
    found = PATTERN.match(text)
    if found is None:
        raise ValueError(f"{text!r} is not an amount of memory such as 512 MB")
    return int(float(found[1]) * UNITS[found[2].lower()])
