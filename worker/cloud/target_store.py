"""The target of a lifecycle job, and the database's side of the job: every call is fenced by its attempt."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from wire.tokens import make_token
from worker.api.replies import JobRef
from worker.api.server import Server
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


POLL_SECONDS = 2.0
DRAIN_PATIENCE_SECONDS = 3600.0


class ServerTargetStore:
    """The requests of the steps to the project."""

    def __init__(
        self, server: Server, ref: JobRef, remember: Callable[[str], None], online_patience_seconds: float,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:  # fmt: skip
        """`remember` receives each secret before anything else, so that no log line can carry it."""
        self._server = server
        self._which = {"p_job": ref.job, "p_attempt": ref.attempt}
        self._remember = remember
        self._online_patience_seconds = online_patience_seconds
        self._poll_seconds = poll_seconds

    async def register_token(self) -> str:
        """Make a token, store its hash for the target, and return it."""
        token = await asyncio.to_thread(make_token)
        self._remember(token.text)
        arguments = {**self._which, "p_token_hash": token.hash, "p_token_hint": token.hint}
        await self._server.call("worker_target_token", arguments)
        return token.text

    async def record_cloud(self, facts: dict[str, Any]) -> None:
        """Store ARNs and counts beside the runner."""
        await self._patch({"cloud": facts})

    async def drain(self, reason: str) -> None:
        """Ask the target to take no new jobs, and wait until it runs none."""
        status = await self._patch({"is_draining": True, "drain_reason": reason})
        waited = 0.0
        while status["running"]:
            if waited >= DRAIN_PATIENCE_SECONDS:
                raise JobFailed(
                    f"The runner still runs {status['running']} job(s) after an hour.",
                    code="cloud_busy",
                    hint="Let those jobs finish or cancel them, then retry this one.",
                )
            await asyncio.sleep(self._poll_seconds)
            waited += self._poll_seconds
            status = await self._status()

    async def resume(self) -> None:
        """Resume the target."""
        await self._patch({"is_draining": False, "drain_reason": None})

    async def note_awake(self) -> None:
        """Write down that a runner that slept has a task again."""
        status = await self._status()
        if not status["desired_count"]:
            await self._patch({"desired_count": 1, "is_scaled_to_zero": False})

    async def wait_online(self, version: str | None) -> bool:
        """Wait for a heartbeat of that version, or of any; return whether it came in time."""
        waited = 0.0
        while waited < self._online_patience_seconds:
            status = await self._status()
            if status["versions"] == [version] or (version is None and status["versions"]):
                return True
            await asyncio.sleep(self._poll_seconds)
            waited += self._poll_seconds
        return False

    async def _patch(self, patch: dict[str, Any]) -> dict[str, Any]:
        return dict(await self._server.call("worker_target_update", {**self._which, "p_patch": patch}))

    async def _status(self) -> dict[str, Any]:
        return dict(await self._server.call("worker_target_status", self._which))
