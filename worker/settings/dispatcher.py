"""Where a claimed job is executed: here, or by an executor in Docker, Kubernetes or ECS."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, SecretStr, model_validator

from worker.settings.base import Section, WordList

VARIABLE_PREFIX = "RUNYARD_JOB_DISPATCHER_"


class DispatcherType(StrEnum):
    """The dispatchers that exist."""

    LOCAL = "local"
    DOCKER = "docker"
    KUBERNETES = "kubernetes"
    ECS = "ecs"


class LaunchType(StrEnum):
    """How ECS places the executor's task."""

    EC2 = "ec2"
    FARGATE = "fargate"


class AuthType(StrEnum):
    """How the Kubernetes API is reached."""

    EKS_IAM = "eks_iam"
    IN_CLUSTER = "in_cluster"
    KUBECONFIG = "kubeconfig"


def lower(value: object) -> object:
    """Accept `FARGATE` where `fargate` is meant."""
    return value.lower() if isinstance(value, str) else value


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
    task_definition: str | None = Field(default=None, description="ecs: ARN of the executor's definition.")
    region: str | None = Field(default=None, description="ecs, kubernetes with eks_iam: AWS region.")
    cluster: str | None = Field(default=None, description="ecs: name or ARN of the cluster.")
    subnets: WordList = Field(default_factory=list, description="ecs: subnets, comma-separated; needed with fargate.")
    security_groups: WordList = Field(default_factory=list, description="ecs: security groups, comma-separated.")
    assign_public_ip: bool = Field(default=False, description="ecs: give the task a public address.")
    launch_type: Annotated[LaunchType, BeforeValidator(lower)] = Field(
        default=LaunchType.FARGATE, description="ecs: `ec2` or `fargate`."
    )
    container_name: str = Field(default="executor", description="ecs: the definition's container to run.")
    auth_type: Annotated[AuthType | None, BeforeValidator(lower)] = Field(
        default=None, description="kubernetes: `eks_iam`; otherwise in-cluster, then kubeconfig."
    )
    eks_cluster: str | None = Field(default=None, description="kubernetes with eks_iam: cluster name.")
    namespace: str = Field(default="default", description="kubernetes: namespace of the executors.")
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
    bind_path: str | None = Field(default=None, description="docker: volume binding, as `/host:/inside`.")
    registry_username: str | None = Field(default=None, description="docker: user of the registry.")
    registry_password: SecretStr | None = Field(default=None, description="docker: password for it.")


class DispatcherSettings(Section):
    """How jobs are started: `local` runs them inside the runner's own process."""

    type: Annotated[DispatcherType, BeforeValidator(lower)] = Field(
        default=DispatcherType.LOCAL, description="`local`, `docker`, `kubernetes` or `ecs`."
    )
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
        missing = [name for name in needed if not getattr(self.data, name)]
        if missing:
            names = ", ".join(f"{VARIABLE_PREFIX}DATA_{name.upper()}" for name in missing)
            raise ValueError(f"dispatcher type {self.type.value} also needs {names}")
        return self
