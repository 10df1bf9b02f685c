"""The enums of the database, spelled as in SQL; a test compares them."""

from enum import StrEnum


class WorkerStatus(StrEnum):
    """The status of a runner, as the runners page shows it."""

    ONLINE = "ONLINE"
    DRAINING = "DRAINING"
    OFFLINE = "OFFLINE"


class JobType(StrEnum):
    """The type of a job: the work that it does."""

    PLAN = "PLAN"
    APPLY = "APPLY"
    DESTROY = "DESTROY"
    OUTPUT = "OUTPUT"
    DRIFT = "DRIFT"
    DEPLOY_WORKER = "DEPLOY_WORKER"
    UPDATE_WORKER = "UPDATE_WORKER"
    REMOVE_WORKER = "REMOVE_WORKER"
    VERIFY_IDENTITY = "VERIFY_IDENTITY"
    RESOLVE = "RESOLVE"
    STATE = "STATE"
    POLICY_TEST = "POLICY_TEST"


class JobStatus(StrEnum):
    """The status of a job."""

    AWAITING_APPROVAL = "AWAITING_APPROVAL"
    QUEUED = "QUEUED"
    CLAIMED = "CLAIMED"
    PROCESSING = "PROCESSING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    NEEDS_ATTENTION = "NEEDS_ATTENTION"


class JobPhase(StrEnum):
    """The phase of a running attempt; APPLY and DESTROY are never run again automatically."""

    PREPARE = "PREPARE"
    FETCH = "FETCH"
    INPUTS = "INPUTS"
    INIT = "INIT"
    PLAN = "PLAN"
    APPLY = "APPLY"
    DESTROY = "DESTROY"
    OUTPUT = "OUTPUT"
    REPORT = "REPORT"


class CancelKind(StrEnum):
    """The urgency with which a cancelled job has to stop."""

    AFTER_STEP = "AFTER_STEP"
    GRACEFUL = "GRACEFUL"
    KILL = "KILL"


class EngineName(StrEnum):
    """The programs that do the work."""

    TOFU = "tofu"
    TERRAFORM = "terraform"
    PULUMI = "pulumi"
    TERRAGRUNT = "terragrunt"


# Evaluates policy sets; it is found where engines are.
OPA = "opa"


class SourceKind(StrEnum):
    """The origin of a module's files."""

    GIT = "git"
    ARCHIVE = "archive"
    INLINE = "inline"
    LOCAL = "local"
    UPLOAD = "upload"


class StateHome(StrEnum):
    """The place of a module's state, once somebody has chosen one."""

    RUNYARD = "runyard"
    OWN = "own"


class StateAction(StrEnum):
    """The action of a STATE job on resources of a state."""

    MOVE = "move"
    REMOVE = "remove"
    IMPORT = "import"


class StepStatus(StrEnum):
    """The status of one step of a job."""

    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"
    CANCELLED = "CANCELLED"


CHANGING_PHASES = frozenset({JobPhase.APPLY, JobPhase.DESTROY})
LIFECYCLE_TYPES = frozenset(
    {JobType.DEPLOY_WORKER, JobType.UPDATE_WORKER, JobType.REMOVE_WORKER, JobType.VERIFY_IDENTITY}
)
# These carry no module in their payload.
MODULELESS_TYPES = LIFECYCLE_TYPES | {JobType.RESOLVE, JobType.POLICY_TEST}
# The others read the state, and neither lock nor write it.
LOOKING_TYPES = frozenset({JobType.PLAN, JobType.DRIFT, JobType.OUTPUT, JobType.RESOLVE, JobType.POLICY_TEST})
WRITING_TYPES = frozenset({JobType.APPLY, JobType.DESTROY, JobType.STATE})


class VariableKind(StrEnum):
    """The form in which a job gets a variable."""

    INPUT = "input"
    ENV = "env"
    FILE = "file"
