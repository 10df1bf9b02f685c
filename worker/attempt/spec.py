"""A job's request, read from the payload that was frozen when the job was enqueued."""

from collections.abc import Iterator
from typing import Any

from pydantic import Field, ValidationError

from worker.api.replies import ClaimedJob, Reply
from worker.enums import MODULELESS_TYPES, EngineName, SourceKind, StateAction, StateHome
from worker.errors import JobFailed


class ExtraFile(Reply):
    """A file that is written beside the source."""

    path: str
    content: str = ""
    mode: int | str | None = None

    @property
    def mode_bits(self) -> int:
        """Return the mode; "0644" and "644" are octal, as people write it."""
        if isinstance(self.mode, str):
            return int(self.mode, 8) if self.mode.strip("01234567") == "" and self.mode else 0o644
        return self.mode if self.mode is not None else 0o644


class Hook(Reply):
    """A script that runs before or after a task."""

    script: str
    timeout_seconds: float | None = None


class TimeLimits(Reply):
    """Seconds that a job may take, and one hook of it; without a limit of its own a hook has the runner's."""

    plan: float = 3600
    apply: float = 4 * 3600
    hook: float | None = None


class DriftRule(Reply):
    """Drift that a check ignores: of an address, and of one attribute unless it is all of it; `*` matches anything."""

    address: str
    attribute: str | None = None
    reason: str = ""
    until: str | None = None


class GroupSpec(Reply):
    """The values that the module inherits from its groups; a nearer group overrides a farther one."""

    hooks: dict[str, Any] = Field(default_factory=dict)
    time_limits: dict[str, float] = Field(default_factory=dict)


class ModuleSpec(Reply):
    """The module that the job works on."""

    id: str = ""
    name: str = ""
    path: str = ""
    group_path: str = ""
    engine: EngineName = EngineName.TOFU
    engine_version: str | None = None
    backend: StateHome | None = None
    source_kind: SourceKind
    source: dict[str, Any] = Field(default_factory=dict)
    bindings: dict[str, str] = Field(default_factory=dict)
    extra_files: list[ExtraFile] = Field(default_factory=list)
    hooks: dict[str, Any] = Field(default_factory=dict)
    time_limits: dict[str, float] = Field(default_factory=dict)
    drift_ignores: list[DriftRule] = Field(default_factory=list)


class StateChange(Reply):
    """The change that a STATE job makes; `module` is the target where resources move to another module."""

    action: StateAction
    addresses: list[str] = Field(min_length=1)
    to: str = ""
    id: str = ""
    module: str | None = None


class Options(Reply):
    """The options of the job's task."""

    refresh_only: bool = False
    destroy: bool = False
    bring_state: bool = False
    test_identities: bool = False
    preview: bool = False
    state_change: StateChange | None = None
    targets: list[str] = Field(default_factory=list)
    replace: list[str] = Field(default_factory=list)
    # The job's origin; its changes are compared with those that people reviewed there.
    git: dict[str, Any] = Field(default_factory=dict)


class JobSpec(Reply):
    """A payload, checked."""

    module: ModuleSpec
    group: GroupSpec = Field(default_factory=GroupSpec)
    options: Options = Field(default_factory=Options)
    policies: list[dict[str, Any]] = Field(default_factory=list)

    @property
    def time_limits(self) -> TimeLimits:
        """The module's own limits, and for the rest those of its groups and its organisation."""
        return TimeLimits.model_validate({**self.group.time_limits, **self.module.time_limits})

    def scripts(self) -> Iterator[str]:
        """Every script that the job may run as a hook."""
        for name in {*self.group.hooks, *self.module.hooks}:
            if hook := self.hook(name):
                yield hook.script

    def hook(self, name: str) -> Hook | None:
        """The hook of this name: the module's takes the place of the groups'."""
        value = self.module.hooks.get(name) or self.group.hooks.get(name)
        if not value:
            return None
        return Hook.model_validate(value) if isinstance(value, dict) else Hook(script=str(value))


def read_spec(job: ClaimedJob) -> JobSpec:
    """Check a job's payload; what is wrong with it is the job's error, not the runner's."""
    if job.type in MODULELESS_TYPES:
        return JobSpec(module=ModuleSpec(source_kind=SourceKind.INLINE))
    try:
        payload = {key: _without_nulls(value) for key, value in job.payload.items() if value is not None}
        return JobSpec.model_validate(payload)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise JobFailed(
            f"The job's payload cannot be read: {place}: {first['msg']}.",
            code="bad_payload",
            hint="Save the module again, or update the runner if it is older than the server.",
        ) from error


def _without_nulls(part: Any) -> Any:
    """Read an absent value as the default, one level deep."""
    return {key: value for key, value in part.items() if value is not None} if isinstance(part, dict) else part
