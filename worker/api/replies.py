"""The server's answers, read leniently: an older runner must survive a newer server's extra fields."""

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from worker.enums import CancelKind, JobType, VariableKind
from worker.errors import Retryable

Kind = TypeVar("Kind")
Document = dict[str, Any]


_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def read_answer(kind: type[Kind], answer: Any) -> Kind:
    """Read an answer as what it must be; any other is not an answer to the request, which is sent again."""
    try:
        found: Kind = _adapter(kind).validate_python(answer)
        return found
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        # Not `from error`: its words would carry the answer, and with it a state or a token, into a log.
        raise Retryable(
            f"The server's answer cannot be read ({where}: {first['msg']}); check the proxies on the way."
        ) from None


class Reply(BaseModel):
    """Base of all answers and their parts."""

    # Most runners never see most of them: building all validators would be a tenth of the start.
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


class SessionGrant(Reply):
    """The reply of `worker-session` to a valid credential."""

    access_token: str
    expires_in: float
    session_id: str
    instance_id: str
    publishable_key: str
    epoch: int = 0
    url: str | None = None
    realtime: dict[str, Any] = Field(default_factory=dict)
    worker: dict[str, Any] = Field(default_factory=dict)

    @property
    def topics(self) -> tuple[str, ...]:
        """The private topics that wake this runner."""
        return tuple(self.realtime.get("topics") or ())


class Cancellation(Reply):
    """A wish to stop a job; its reason is who asked."""

    job: int
    attempt: int
    kind: CancelKind
    reason: str | None = None


class BoundValues(Reply):
    """Values of inputs that are outputs of other modules, and which of them are sensitive."""

    values: dict[str, Any] = Field(default_factory=dict, repr=False)
    sensitive: tuple[str, ...] = ()


class JobRef(Reply):
    """One attempt of one job."""

    job: int
    attempt: int


class HeartbeatReply(Reply):
    """Directives, and for how long the leases now hold."""

    lease_seconds: float = 60.0
    heartbeat_seconds: float = 12.0
    server_time: str | None = None
    cancel: list[Cancellation] = Field(default_factory=list)
    lost: list[JobRef] = Field(default_factory=list)
    drain: bool = False
    drain_reason: str | None = None
    update: dict[str, Any] | None = None
    has_work: bool = False
    worker: dict[str, Any] = Field(default_factory=dict)


class ClaimedJob(Reply):
    """A job that this instance now holds a lease on."""

    id: int
    number: int = 0
    attempt: int
    type: JobType
    lease_seconds: float = 60.0
    module_path: str | None = None
    group_path: str | None = None
    plan_job_id: int | None = None
    plan_sha256: str | None = None
    payload: dict[str, Any] = Field(default_factory=dict)


class ClaimReply(Reply):
    """The jobs of one claim."""

    jobs: list[ClaimedJob]


class FinishReply(Reply):
    """The status of a finished attempt, and the parts of its log that are missing."""

    status: str
    missing: list[tuple[int, int]] = Field(default_factory=list)
    is_late: bool = False


class Recovered(Reply):
    """The action that an attempt of a dead process requires."""

    job: int
    attempt: int
    action: str = "report"

    @property
    def ref(self) -> JobRef:
        """The attempt's name."""
        return JobRef(job=self.job, attempt=self.attempt)


class RecoverReply(Reply):
    """The attempts of a dead process that we still have to report."""

    jobs: list[Recovered]


class JobIdentities(Reply):
    """The identities that a job gets tokens for, and the kinds of those that are withheld from it."""

    identities: list[Any]
    withheld: list[str] = Field(default_factory=list)


class IssuedToken(Reply):
    """One identity of a job, with the token that proves it."""

    name: str
    kind: str
    token: str
    settings: dict[str, str] = Field(default_factory=dict)


class IssuedTokens(Reply):
    """The tokens of a job's identities; all of them live as long."""

    phase: str
    expires_in: float
    tokens: list[IssuedToken]

    @property
    def secrets(self) -> list[str]:
        """The tokens themselves."""
        return [each.token for each in self.tokens]


class GivenVariable(Reply):
    """One variable of a job."""

    kind: VariableKind
    name: str
    value: Any = None
    is_hcl: bool = False
    path: str | None = None
    key_id: str | None = None
    is_reference: bool = False


class GivenVariables(Reply):
    """The variables that a job was given when it was enqueued."""

    variables: list[GivenVariable]


class StateReply(Reply):
    """The module's state."""

    exists: bool
    serial: int | None = None
    body: str | None = None
