"""The target of a lifecycle job: one runner, in one account and region, under fixed names."""

from dataclasses import dataclass, field
from typing import Any, Self

from worker.errors import JobFailed

CLUSTER = "runyard"
MANAGED_BY = "runyard"


@dataclass(frozen=True, slots=True)
class Network:
    """The network of the tasks: subnets that exist, or a small VPC made for this runner."""

    subnets: tuple[str, ...] = ()
    security_groups: tuple[str, ...] = ()

    @classmethod
    def of(cls, identity: dict[str, Any]) -> Self:
        """Read the network of a cloud identity."""
        network = identity.get("network") or {}
        return cls(tuple(network.get("subnets") or ()), tuple(network.get("security_groups") or ()))

    @property
    def is_own(self) -> bool:
        """Return whether the VPC is created, and later removed, with the runner."""
        return not self.subnets


@dataclass(frozen=True, slots=True)
class Target:
    """The frozen facts of the job's payload; every name is derived, so a second try finds the first one's work."""

    worker_id: str
    worker_name: str
    region: str
    account_id: str
    role_arn: str
    external_id: str
    url: str
    image: str
    version: str
    cpu: str = "512"
    memory: str = "1024"
    task_role_arn: str = ""
    proven_task_arn: str = ""
    desired: int = 1
    network: Network = field(default_factory=Network)

    @property
    def name(self) -> str:
        """Name the service, the task family, the roles and the security group."""
        return f"runyard-{self.worker_id.replace('-', '')[:12]}"

    @property
    def log_group(self) -> str:
        """Name the log group of the runner's tasks."""
        return f"/runyard/{self.worker_id}"

    @property
    def secret_name(self) -> str:
        """Name the secret that holds the runner's token."""
        return f"runyard/{self.worker_id}/token"

    @property
    def tags(self) -> dict[str, str]:
        """Mark everything that is made, so that removal takes this and nothing else."""
        return {
            "runyard:managed-by": MANAGED_BY,
            "runyard:worker-id": self.worker_id,
            "runyard:worker-name": self.worker_name,
        }

    @classmethod
    def from_payload(cls, payload: dict[str, Any], url: str, repository: str = "") -> Self:
        """Read the job's lifecycle payload; a missing field names itself. Its own image goes before the repository."""
        spec = payload.get("lifecycle") or {}
        identity, worker = spec.get("identity") or {}, spec.get("worker") or {}
        try:
            return cls(
                worker_id=str(worker["id"]),
                worker_name=str(worker["name"]),
                region=str(spec["region"]),
                account_id=str(identity["account_id"]),
                role_arn=str(identity.get("role_arn") or ""),
                external_id=str(identity.get("external_id") or ""),
                url=url,
                image=_image(str(spec.get("image") or repository), str(spec["version"])),
                version=str(spec["version"]),
                cpu=str(spec.get("cpu") or "512"),
                memory=str(spec.get("memory") or "1024"),
                task_role_arn=str(spec.get("task_role_arn") or ""),
                proven_task_arn=str((spec.get("cloud") or {}).get("task_definition_arn") or ""),
                desired=int(spec.get("desired_count") or 1),
                network=Network.of(identity),
            )
        except KeyError as missing:
            raise JobFailed(
                f"The job's payload has no {missing.args[0]}.",
                code="cloud_payload",
                hint="Queue the job again from the runner's page; that freezes the present identity and region.",
            ) from missing


def _image(name: str, version: str) -> str:
    """Name the image of this version; one that names its own tag or digest stays as it is."""
    is_exact = "@" in name or ":" in name.rsplit("/", 1)[-1]
    return name if is_exact or not name else f"{name}:{version}"
