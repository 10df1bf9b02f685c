"""The AWS session of one lifecycle job: the runner's own rights, or a role that it assumes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.loaders import Loader, create_loader
from botocore.session import get_session

from worker.cloud.target_store import Target
from worker.errors import JobFailed

CONFIG = Config(retries={"mode": "standard", "max_attempts": 5}, connect_timeout=10, read_timeout=60)
SESSION_SECONDS = 3600
NO_RIGHTS = "cloud_identity"

Say = Callable[[str], None]


@dataclass(slots=True)
class Cloud:
    """Clients for one target, and a voice into the job's log."""

    target: Target
    session: boto3.session.Session
    say: Say
    _clients: dict[str, Any] = field(default_factory=dict)

    def client(self, service: str) -> Any:
        """Give one client for each service, made when it is first asked for."""
        if service not in self._clients:
            # The stubs know each service by a literal; here the name is a variable.
            make: Callable[..., Any] = self.session.client
            self._clients[service] = make(service, config=CONFIG)
        return self._clients[service]


@cache
def _models() -> Loader:
    """Read AWS's descriptions of its services once; EC2's alone is a second of work."""
    return create_loader()


def new_session(**rights: str) -> boto3.session.Session:
    """Open a session that shares those descriptions with all others of this process."""
    core, models = get_session(), _models()
    core.register_component("data_loader", models)
    known = len(models.search_paths)
    session = boto3.session.Session(botocore_session=core, **rights)
    # boto3 adds a folder of its own, each time; only its resources need it, and none are used here.
    del models.search_paths[known:]
    return session


def open_cloud(target: Target, say: Say) -> Cloud:
    """Assume the identity's role where it names one, and check that the account is the expected one."""
    base = new_session(region_name=target.region)
    try:
        session = _assume(base, target) if target.role_arn else base
        account = session.client("sts", config=CONFIG).get_caller_identity()["Account"]
    except (BotoCoreError, ClientError, OSError, RuntimeError) as problem:
        # The library lets through what an unreadable token file or credentials that stay expired raise.
        raise JobFailed(
            f"The role {target.role_arn or 'of this runner'} could not be used: {problem}",
            code=NO_RIGHTS,
            hint="Name in the role's trust policy the account of the runner that deploys, and the external id; then test again.",
        ) from problem
    if account != target.account_id:
        raise JobFailed(
            f"These rights belong to AWS account {account}, but the identity says {target.account_id}.",
            code="cloud_account",
            hint="Correct the account or the role of the cloud identity, then test the connection.",
        )
    say(f"Using AWS account {account} in {target.region}")
    return Cloud(target, session, say)


def _assume(base: boto3.session.Session, target: Target) -> boto3.session.Session:
    wanted: dict[str, Any] = {
        "RoleArn": target.role_arn,
        "RoleSessionName": target.name,
        "DurationSeconds": SESSION_SECONDS,
    }
    if target.external_id:
        wanted["ExternalId"] = target.external_id
    rights = base.client("sts", config=CONFIG).assume_role(**wanted)["Credentials"]
    return new_session(
        aws_access_key_id=rights["AccessKeyId"],
        aws_secret_access_key=rights["SecretAccessKey"],
        aws_session_token=rights["SessionToken"],
        region_name=target.region,
    )


def refused(what: str, problem: BotoCoreError | ClientError) -> JobFailed:
    """Turn AWS's answer into a job error with a hint about what to do next."""
    code = problem.response["Error"]["Code"] if isinstance(problem, ClientError) else type(problem).__name__
    hint = (
        "The role lacks a right that this step needs; docs: Cloud-hosted runners, 'Rights'."
        if code in {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"}
        else "Existing resources are not harmed: retry the job, and it continues from there."
    )
    return JobFailed(f"{what}: {problem}", code=f"cloud_{code}", hint=hint)


@contextmanager
def unless_missing() -> Iterator[None]:
    """Leave out the rest where AWS reports that the thing does not exist."""
    try:
        yield
    except ClientError as problem:
        code = problem.response["Error"]["Code"]
        if not any(word in code for word in ("NotFound", "NoSuchEntity", "NotActive", "Missing")):
            raise


def tag_list(tags: dict[str, str], key: str = "Key", value: str = "Value") -> list[dict[str, str]]:
    """Spell tags as a list; each service has its own idea of the keys' case."""
    return [{key: name, value: text} for name, text in tags.items()]
