"""The settings of a job's isolation."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, field_validator

from worker.settings.base import PathList, Section, split_words


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
    ways: Annotated[list[IsolationWay], BeforeValidator(split_words)] = Field(
        default_factory=lambda: list(IsolationWay),
        description="What to try, in this order: bubblewrap, the kernel's namespaces, as root a user for each job, Landlock "
        "(which leaves sockets of the runner's user in reach, so it is not enough for `required`).",
        json_schema_extra={"default": [way.value for way in IsolationWay]},
    )
    read_only_paths: PathList = Field(
        default_factory=list,
        description="What jobs may read besides: credentials such as `~/.aws`, mirrors, folders that modules are copied from.",
    )
    writable_paths: PathList = Field(default_factory=list, description="What jobs may change besides.")

    @field_validator("read_only_paths", "writable_paths")
    @classmethod
    def _whole_machine(cls, value: list[Path]) -> list[Path]:
        if any(not path.is_absolute() or path == Path("/") for path in value):
            raise ValueError("must be absolute paths, and not the whole machine")
        return value
